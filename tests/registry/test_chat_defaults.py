"""What chats get that say nothing themselves, and what an administrator may put there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.models import ModelConfig
from inference.protocol.requests import ChatPrompt, Message
from inference.registry.chat_defaults import (
    MAX_SYSTEM_CHARS,
    MAX_VARIABLES,
    MAX_VARIABLES_CHARS,
    ChatDefaults,
    effort_check,
    system_check,
    variables_check,
    variables_of,
)
from inference.registry.config_services import model_config_add, model_config_change
from inference.registry.scan import models_scan
from inference.registry.templates import template_check
from inference.registry.upstreams import upstream_add, upstream_change
from inference.text.depth import MAX_DEPTH
from llamaweb.lib.errors import InvalidError
from tests.registry.gguf_files import values, whole

HI = Message("user", "hi")
NAMES = st.sampled_from(["enable_thinking", "tone", "style"])
VARIABLES = st.dictionaries(NAMES, st.none() | st.booleans() | st.integers())
WRITES = "{% for m in messages %}{{ m.content }}{% endfor %}"


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@given(defaults=VARIABLES, own=VARIABLES)
def test_each_variable_is_the_chats_own_or_the_models(
    defaults: dict[str, Any], own: dict[str, Any]
) -> None:
    prompt = ChatPrompt((HI,), template_kwargs_json=json.dumps(own) if own else None)
    filled = ChatDefaults(variables=defaults).fill(prompt)
    found = json.loads(filled.template_kwargs_json or "{}")
    assert found.keys() == defaults.keys() | own.keys()
    assert all(found[name] == own.get(name, defaults.get(name)) for name in found)
    assert json.loads(filled.public_kwargs_json or "{}") == defaults


def test_a_chat_with_a_system_message_keeps_it() -> None:
    defaults = ChatDefaults("Be brief.")
    own = ChatPrompt((HI, Message("system", "")))
    assert defaults.fill(own) == own
    filled = defaults.fill(ChatPrompt((HI,)))
    assert filled == ChatPrompt((Message("system", "Be brief."), HI), public_messages=1)
    assert defaults.fill(filled) == filled
    assert ChatDefaults().fill(ChatPrompt((HI,))) == ChatPrompt((HI,))


def test_the_fields_of_reasoning_are_variables_too() -> None:
    kwargs = {"tone": "dry"}
    assert variables_of(kwargs, thinking="auto", reasoning_effort="") == kwargs
    assert variables_of(kwargs, thinking="off", reasoning_effort="low") == {
        "tone": "dry", "enable_thinking": False, "reasoning_effort": "low",
    }  # fmt: skip
    assert variables_of({}, thinking="on", reasoning_effort="") == {"enable_thinking": True}


@pytest.mark.parametrize(
    "given",
    [{}, {"tone": None, "n": 1.5, "list": [{"a": True}]}, {"tone": "漢字 😺"}, nested(MAX_DEPTH)],
)
def test_variables_that_can_be(given: dict[str, Any]) -> None:
    assert variables_check(given) == given


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([], "give an object"),
        ("x", "give an object"),
        ({"a b": 1}, "'a b' can't be a variable"),
        ({"x" * 65: 1}, "can't be a variable"),
        ({"tools": []}, "tools can't be set here"),
        ({"strftime_now": 1}, "can't be set here"),
        ({"enable_thinking": True}, "has a field of its own"),
        ({"reasoning_effort": "low"}, "has a field of its own"),
        ({f"v{n}": n for n in range(MAX_VARIABLES + 1)}, "at most 32 are allowed"),
        (nested(MAX_DEPTH + 1), "at most 64 levels"),
        ({"a": "x" * MAX_VARIABLES_CHARS}, "longer than 16384 characters"),
        ({"a": float("nan")}, "JSON has no words for"),
        ({"a": "\ud83d"}, "JSON has no words for"),
        ({"a": ["\0"]}, "NUL"),
    ],
)
def test_variables_that_can_not_be(given: Any, reason: str) -> None:
    with pytest.raises(InvalidError, match=reason) as caught:
        variables_check(given)
    assert caught.value.param == "template_kwargs"


def test_texts_that_can_not_be() -> None:
    for text in ("x" * (MAX_SYSTEM_CHARS + 1), "a\0b"):
        with pytest.raises(InvalidError):
            system_check(text)
    assert system_check("x" * MAX_SYSTEM_CHARS)
    for effort in ("none", "x" * 33, "a\nb"):
        with pytest.raises(InvalidError):
            effort_check(effort)
    assert effort_check(" high ") == "high"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% for %}", "can't be read: line 1"),
        ("Hello!", "leaves out what people say"),
        ("{{ messages[9].content.x.y }}", "failed on these messages"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "2 s"),
    ],
)
def test_templates_that_write_no_chat(template: str, reason: str) -> None:
    with pytest.raises(InvalidError, match=reason) as caught:
        template_check(template)
    assert caught.value.param == "chat_template"


def test_templates_that_write_chats() -> None:
    typed = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
    for template in ("", WRITES, typed):
        template_check(template)


def config_with(folder: Path, template: str) -> ModelConfig:
    """A model whose file has this template."""
    more = values() | {"tokenizer.chat_template": template}
    (folder / "m.gguf").write_bytes(whole(more))
    models_scan()
    return model_config_add(name="m", path="m.gguf")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("thinking", "off", "enable_thinking"),
        ("reasoning_effort", "low", "reasoning_effort"),
        ("template_kwargs", {"tone": "dry"}, "tone"),
    ],
)
def test_a_variable_that_the_files_template_does_not_read(
    models_dir: Path, field: str, value: Any, named: str
) -> None:
    config = config_with(models_dir, WRITES + "{{ tones }}")
    setattr(config, field, value)
    with pytest.raises(InvalidError, match=f"doesn't read {named}") as caught:
        model_config_change(config=config)
    assert caught.value.param == field
    config.chat_template = WRITES + "{{" + named + "}}"
    assert model_config_change(config=config)
    config.chat_template = ""
    with pytest.raises(InvalidError, match=f"doesn't read {named}"):
        model_config_change(config=config)


@pytest.mark.django_db(transaction=True)
def test_a_template_is_tried_before_it_is_kept(models_dir: Path) -> None:
    config = config_with(models_dir, WRITES)
    config.chat_template = "Hello!"
    with pytest.raises(InvalidError, match="leaves out what people say"):
        model_config_change(config=config)
    assert ModelConfig.objects.get().chat_template == ""


@pytest.mark.django_db
def test_what_another_server_can_be_told() -> None:
    config = upstream_add(name="far", url="https://api.example.org/v1", remote_model="big")
    config.thinking, config.reasoning_effort = "on", "high"
    assert model_config_change(config=config)
    config.template_kwargs = {"tone": "dry"}
    with pytest.raises(InvalidError, match="no field for template variables") as caught:
        model_config_change(config=config)
    assert caught.value.param == "template_kwargs"
    config.upstream.dialect = "llama_server"
    assert upstream_change(upstream=config.upstream)
    assert model_config_change(config=config)
    config.upstream.dialect = "openai"
    with pytest.raises(InvalidError) as caught:
        upstream_change(upstream=config.upstream)
    assert caught.value.param == "dialect"
