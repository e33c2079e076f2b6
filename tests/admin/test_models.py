"""Models in the administration: add, choose, load, unload, delete; each act written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from inference.models import ModelConfig
from inference.registry.chat_defaults import ChatDefaults
from inference.registry.config_services import model_config_add
from inference.registry.selectors import model_resolve
from llamaweb.accounts.models import AuditEvent
from tests.admin.conftest import actions
from tests.registry.gguf_files import model, whole

pytestmark = pytest.mark.django_db
BASE = "/admin/inference/modelconfig/"


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(model())
    return path


@pytest.fixture
def first(db: None) -> ModelConfig:
    return ModelConfig.objects.create(name="first", is_default=True, engine_class="mock")


@pytest.fixture
def second(db: None) -> ModelConfig:
    return ModelConfig.objects.create(name="second", engine_class="mock", wanted="unloaded")


def act(admin: Client, config: ModelConfig, name: str) -> str:
    return admin.post(f"{BASE}{config.pk}/act/{name}/", follow=True).content.decode()


def form_of(config: ModelConfig, **changes: Any) -> dict[str, Any]:
    form = {
        "name": config.name,
        "is_enabled": "on",
        "num_slots": 4,
        "context_len": 0,
        "threads": 0,
        "flash_attention": "auto",
        "kv_layout": "auto",
        "ubatch_len": 0,
        "cache_type_k": "f16",
        "cache_type_v": "f16",
        "load_mode": "auto",
        "gpu_layers": 0,
        "split_mode": "layer",
        "main_gpu": 0,
        "tensor_split": "[]",
        "chat_template": "",
        "pooling": "auto",
        "vector_norm": 2,
        "thinking": "auto",
    } | changes
    return {name: value for name, value in form.items() if value is not None}


def change(admin: Client, config: ModelConfig, **changes: Any) -> int:
    status = admin.post(f"{BASE}{config.pk}/change/", form_of(config, **changes)).status_code
    config.refresh_from_db()
    return status


def test_adding_a_file_of_this_server(admin: Client, first: ModelConfig, gguf: Path) -> None:
    form = {"source": str(gguf), "name": "tiny", "load": "on"}
    assert admin.post(f"{BASE}add/", form).status_code == 302
    config = ModelConfig.objects.get(name="tiny")
    assert config.file is not None
    assert (config.file.path, config.file.is_owned) == (str(gguf.resolve()), False)
    assert (config.file.architecture, config.file.has_chat_template) == ("llama", True)
    assert (config.wanted, config.is_default) == ("loaded", False)
    assert actions() == ["model_config.added"]
    assert admin.get(f"{BASE}{config.pk}/change/").status_code == 200


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("/nowhere/x.gguf", "No such file"),
        ("absent.gguf", "No such file"),  # in the models directory
        ("../../secret.gguf", "leads out of the models directory"),
        ("/etc/passwd", "not a GGUF file"),
        ("/etc", "not a regular file"),
        ("/dev/zero", "not a regular file"),
        ("ftp://example.org/x", "must begin with"),
        ("https://u:p@example.org/x", "user or password"),
    ],
)
def test_what_can_not_be_added(admin: Client, source: str, reason: str) -> None:
    page = admin.post(f"{BASE}add/", {"source": source, "name": "tiny"}).content.decode()
    assert reason in page
    assert "root:x" not in page
    assert not ModelConfig.objects.exists()
    assert actions() == []


@pytest.mark.parametrize("name", ["", "first", "default", "a b", "<b>", "=x", "x" * 129])
def test_names_that_can_not_be_used(
    admin: Client, first: ModelConfig, gguf: Path, name: str
) -> None:
    response = admin.post(f"{BASE}add/", {"source": str(gguf), "name": name})
    assert response.status_code == 200
    assert ModelConfig.objects.count() == 1


def test_the_default_is_always_exactly_one(
    admin: Client, first: ModelConfig, second: ModelConfig
) -> None:
    act(admin, second, "default")
    act(admin, second, "default")
    assert [c.name for c in ModelConfig.objects.filter(is_default=True)] == ["second"]
    assert model_resolve(None).name == "second"
    assert actions() == ["model_config.default_set"]
    ModelConfig.objects.filter(pk=first.pk).update(is_enabled=False)
    assert "enable it first" in act(admin, first, "default")
    assert model_resolve(None).name == "second"


def test_load_drain_unload(admin: Client, first: ModelConfig) -> None:
    for name, wanted in (("drain", "drained"), ("unload", "unloaded"), ("load", "loaded")):
        act(admin, first, name)
        act(admin, first, name)
        updated_at = first.updated_at
        first.refresh_from_db()
        assert first.wanted == wanted
        assert first.updated_at == updated_at  # another one would restart the engine
    assert actions() == ["model_config.drain", "model_config.unload", "model_config.load"]
    form = {"action": "unload", "_selected_action": [first.pk]}
    admin.post(BASE, form)
    first.refresh_from_db()
    assert first.wanted == "unloaded"


def test_adapters_and_special_tokens_are_set(
    admin: Client, first: ModelConfig, tmp_path: Path
) -> None:
    path = tmp_path / "lora.gguf"
    lora = {"general.type": "adapter", "adapter.type": "lora", "general.architecture": "llama"}
    path.write_bytes(whole(lora))
    written = json.dumps([{"path": str(path), "scale": 0}])
    assert change(admin, first, adapters=written, special_tokens="on") == 302
    assert first.special_tokens
    assert first.adapters == [{"path": str(path), "scale": 0.0, "name": ""}]
    page = admin.get(f"{BASE}{first.pk}/change/").content.decode()
    assert str(path) in page


def test_how_texts_become_vectors_is_set(admin: Client, second: ModelConfig) -> None:
    assert change(admin, second, pooling="last", vector_norm=-1) == 302
    assert (second.pooling, second.vector_norm) == ("last", -1)
    assert AuditEvent.objects.get().detail["changed"] == ["pooling", "vector_norm"]


def test_a_pooling_is_refused_beside_its_field(admin: Client, gguf: Path) -> None:
    config = model_config_add(name="tiny", path=str(gguf))
    response = admin.post(f"{BASE}{config.pk}/change/", form_of(config, pooling="rank"))
    (told,) = response.context["errors"]
    assert "pooling rank needs a model with a head" in str(told)
    config.refresh_from_db()
    assert config.pooling == "auto"


def test_settings_are_changed_and_written_down(admin: Client, first: ModelConfig) -> None:
    changes = {"num_slots": 8, "tensor_split": "[3, 1]", "load_mode": "read", "split_mode": "row"}
    assert change(admin, first, **changes) == 302
    assert (first.num_slots, first.tensor_split) == (8, [3.0, 1.0])
    assert (first.load_mode, first.split_mode) == ("read", "row")
    assert change(admin, first, **changes) == 302
    (event,) = AuditEvent.objects.all()
    assert event.detail["changed"] == ["num_slots", "load_mode", "split_mode", "tensor_split"]


@pytest.mark.parametrize(
    "changes",
    [
        {"num_slots": 0},
        {"num_slots": 65},
        {"context_len": 10**9},
        {"gpu_layers": -2},
        {"load_mode": "magic"},
        {"split_mode": "column"},
        {"pooling": "sum"},
        {"pooling": "rank"},
        {"vector_norm": -2},
        {"vector_norm": 1001},
        {"kv_layout": "both"},
        {"ubatch_len": 4096},
        {"cache_type_k": "q3"},
        {"tensor_split": '["a"]'},
        {"tensor_split": '{"a": 1}'},
        {"tensor_split": "[" + "1," * 20 + "1]"},
        {"chat_template": "x" * (256 * 1024 + 1)},
        {"adapters": "lora.gguf"},
        {"adapters": '{"path": "lora.gguf"}'},
        {"adapters": '[{"path": "/absent.gguf"}]'},
        {"is_enabled": None},  # it is the default
        {"name": "renamed"},  # it is loaded
    ],
)
def test_settings_that_are_refused(
    admin: Client, first: ModelConfig, changes: dict[str, Any]
) -> None:
    assert change(admin, first, **changes) == 200
    assert actions() == []


def test_renaming(admin: Client, first: ModelConfig, second: ModelConfig) -> None:
    assert change(admin, second, name="first") == 200
    assert change(admin, second, name="third") == 302
    (event,) = AuditEvent.objects.all()
    assert (event.detail["name_before"], event.detail["name"]) == ("second", "third")


def test_the_environments_model_is_the_environments(admin: Client) -> None:
    config = ModelConfig.objects.create(name="starter", is_starter=True, wanted="unloaded")
    change(admin, config, name="mine", num_slots=9, flash_attention="on")
    assert (config.name, config.num_slots, config.flash_attention) == ("starter", 4, "on")


def test_deleting(admin: Client, first: ModelConfig, second: ModelConfig) -> None:
    assert admin.post(f"{BASE}{first.pk}/delete/", {"post": "yes"}).status_code == 403
    act(admin, second, "load")
    assert admin.post(f"{BASE}{second.pk}/delete/", {"post": "yes"}).status_code == 403
    act(admin, second, "unload")
    assert admin.post(f"{BASE}{second.pk}/delete/", {"post": "yes"}).status_code == 302
    assert list(ModelConfig.objects.all()) == [first]
    assert actions()[-1] == "model_config.deleted"


def test_what_chats_with_a_model_get(admin: Client, second: ModelConfig) -> None:
    before = second.updated_at
    changes = {
        "system_prompt": "  Be brief.\r\nBe kind.",
        "thinking": "off",
        "reasoning_effort": " low ",
        "template_kwargs": '{"style": {"tone": "dry"}}',
    }
    assert change(admin, second, **changes) == 302
    assert model_resolve("second").chat == ChatDefaults(
        "  Be brief.\nBe kind.",
        {"style": {"tone": "dry"}, "enable_thinking": False, "reasoning_effort": "low"},
    )
    assert second.updated_at == before, "no engine has to start anew for it"
    event = AuditEvent.objects.get()
    assert (event.action, event.detail["changed"]) == (
        "model_config.changed",
        ["system_prompt", "thinking", "reasoning_effort", "template_kwargs"],
    )
    assert change(admin, second, **changes) == 302
    assert AuditEvent.objects.count() == 1
    assert "Be kind." in admin.get(f"{BASE}{second.pk}/change/").content.decode()


TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"chat_template": "{% if %}"}, "can&#x27;t be read"),
        ({"chat_template": "Hello!"}, "leaves out what people say"),
        ({"chat_template": TEMPLATE, "thinking": "off"}, "doesn&#x27;t read enable_thinking"),
        ({"chat_template": TEMPLATE, "template_kwargs": '{"rol": 1}'}, "doesn&#x27;t read rol,"),
        ({"template_kwargs": "[1]"}, "give an object"),
        ({"template_kwargs": '{"messages": []}'}, "messages can&#x27;t be set here"),
        ({"reasoning_effort": "none"}, "turn thinking off instead"),
        ({"system_prompt": "x" * 65_537}, "at most 65536 characters"),
        ({"thinking": "maybe"}, "maybe is not one of the available choices"),
    ],
)
def test_what_chats_can_not_get(
    admin: Client, second: ModelConfig, changes: dict[str, str], reason: str
) -> None:
    form = form_of(second, **changes)
    page = admin.post(f"{BASE}{second.pk}/change/", form).content.decode()
    assert reason in page
    assert actions() == []


def test_a_template_of_ones_own(admin: Client, second: ModelConfig) -> None:
    template = TEMPLATE + "{% if enable_thinking %}think{% endif %}"
    crlf = template.replace("\n", "\r\n")
    assert change(admin, second, chat_template=crlf, thinking="off") == 302
    assert (second.chat_template, second.thinking) == (template, "off")
    assert change(admin, second, chat_template=TEMPLATE, thinking="off") == 200


def test_names_tags_sampling_and_people_of_a_model(
    admin: Client, first: ModelConfig, second: ModelConfig, alice: Any
) -> None:
    before = second.updated_at
    changes = {
        "name": "second",
        "aliases": "gpt-small, team/chat,gpt-small",
        "tags": "fast, für alle",
        "sampling": '{"temperature": 0.25}',
        "is_restricted": "on",
        "users": [alice.pk],
    }
    assert change(admin, second, **changes) == 302
    assert second.aliases == ["gpt-small", "team/chat"]
    assert second.tags == ["fast", "für alle"]
    assert second.sampling == {"temperature": 0.25}
    assert (second.is_restricted, list(second.users.all())) == (True, [alice])
    assert second.updated_at == before, "no engine has to start anew for it"
    assert actions() == ["model_config.changed", "model_config.access"]
    assert model_resolve("team/chat").name == "second"
    assert change(admin, second, **changes) == 302
    assert len(actions()) == 2
    page = admin.get(f"{BASE}{second.pk}/change/").content.decode()
    assert "gpt-small, team/chat" in page


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("aliases", "first", "a model of this name already"),
        ("aliases", "second", "its name already"),
        ("aliases", "other", "a model of this name already"),
        ("aliases", "default", "reserved"),
        ("aliases", "a b", "letters, digits"),
        ("aliases", ",".join(f"a{n}" for n in range(17)), "at most 16"),
        ("tags", "x" * 41, "at most 16 tags of up to 40"),
        ("name", "other", "a model of this name already"),
        ("sampling", '{"temperature": -1}', "temperature must be a number from 0"),
        ("sampling", '{"top_k": 1.5}', "top_k must be an integer"),
        ("sampling", '{"min_p": true}', "min_p must be a number"),
        ("sampling", '{"heat": 1}', "is none of"),
        ("sampling", "[1]", "give an object"),
    ],
)
def test_what_callers_can_not_be_told(
    admin: Client, first: ModelConfig, second: ModelConfig, field: str, value: str, reason: str
) -> None:
    ModelConfig.objects.filter(pk=first.pk).update(aliases=["other"])
    form = form_of(second) | {field: value}
    page = admin.post(f"{BASE}{second.pk}/change/", form).content.decode()
    assert reason in page
    second.refresh_from_db()
    assert (second.name, second.aliases, second.tags, second.sampling) == ("second", [], [], {})
    assert actions() == []
