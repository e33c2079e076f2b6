"""LoRA adapters as an administrator writes them down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inference.models import ModelConfig, ModelFile
from inference.protocol.spec import AdapterSpec
from inference.registry.adapters import adapter_specs, adapters_check
from inference.registry.config_services import model_config_change
from inference.registry.selectors import model_resolve
from llamaweb.accounts.models import AuditEvent
from llamaweb.lib.errors import InvalidError
from tests.registry.gguf_files import model, whole

LORA = {
    "general.architecture": "llama",
    "general.type": "adapter",
    "adapter.type": "lora",
    "adapter.lora.alpha": 16.0,
}


@pytest.fixture
def lora(models_dir: Path) -> Path:
    path = models_dir / "style.gguf"
    path.write_bytes(whole(LORA))
    return path


def test_a_file_of_the_models_directory_is_named_short(lora: Path) -> None:
    found = adapters_check([{"path": "style.gguf"}], architecture="llama")
    assert found == [{"path": str(lora), "scale": 1.0, "name": ""}]
    assert adapters_check(found, architecture="") == found
    assert adapter_specs(found) == (AdapterSpec(str(lora)),)


def test_the_same_file_may_come_twice_and_elsewhere(lora: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere.gguf"
    lora.rename(other)
    wanted = [{"path": str(other), "scale": scale, "name": f"at {scale}"} for scale in (0, -1.5)]
    found = adapters_check(wanted, architecture="llama")
    assert [(one["scale"], one["name"]) for one in found] == [(0.0, "at 0"), (-1.5, "at -1.5")]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "up to 16"),
        ([{"path": "style.gguf"}] * 17, "up to 16"),
        (["style.gguf"], "adapter 0: give an object"),
        ([{"path": "style.gguf", "file": "x"}], "give an object"),
        ([{"scale": 1}], "path is missing"),
        ([{"path": 5}], "path is missing"),
        ([{"path": "style.gguf"}, {"path": "absent.gguf"}], "adapter 1: the file can't be read"),
        ([{"path": "../style.gguf"}], "adapter 0"),
        ([{"path": "style.gguf", "scale": "1"}], "scale is a number between -100 and 100"),
        ([{"path": "style.gguf", "scale": True}], "scale"),
        ([{"path": "style.gguf", "scale": 101}], "scale"),
        ([{"path": "style.gguf", "scale": float("nan")}], "scale"),
        ([{"path": "style.gguf", "name": "x" * 129}], "up to 128"),
        ([{"path": "style.gguf", "name": "a\nb"}], "name is a text"),
    ],
)
def test_what_cannot_be_is_named(lora: Path, value: Any, said: str) -> None:
    with pytest.raises(InvalidError) as caught:
        adapters_check(value, architecture="llama")
    assert said in caught.value.message
    assert caught.value.param == "adapters"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (model(), "no LoRA adapter"),
        (whole({**LORA, "adapter.type": "control_vector"}), "no LoRA adapter"),
        (
            whole({**LORA, "general.architecture": "qwen2"}),
            "architecture qwen2, this one's is llama",
        ),
        (whole(LORA)[:-100], "cut off"),
        (b"nothing", "not a GGUF file"),
    ],
)
def test_other_files_are_refused(models_dir: Path, content: bytes, said: str) -> None:
    (models_dir / "other.gguf").write_bytes(content)
    with pytest.raises(InvalidError, match=r"^adapter 0: ") as caught:
        adapters_check([{"path": "other.gguf"}], architecture="llama")
    assert said in caught.value.message


@pytest.mark.django_db
def test_a_model_is_changed_and_callers_know_how_many(lora: Path) -> None:
    file = ModelFile.objects.create(path="/x.gguf", state="ready", architecture="llama")
    config = ModelConfig.objects.create(name="m", file=file)
    config.adapters = [{"path": "style.gguf", "scale": 0.5, "name": "style"}]
    assert model_config_change(config=config)
    config.refresh_from_db()
    assert config.adapters == [{"path": str(lora), "scale": 0.5, "name": "style"}]
    assert model_resolve("m").num_adapters == 1
    assert AuditEvent.objects.get().detail["changed"] == ["adapters"]
    lora.unlink()
    config.num_slots = 2
    assert model_config_change(config=config)  # what isn't changed isn't looked at
    config.adapters = [{"path": "style.gguf", "scale": 1, "name": ""}]
    with pytest.raises(InvalidError, match="can't be read"):
        model_config_change(config=config)
