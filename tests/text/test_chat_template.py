"""The template environment: Hugging Face's helpers, bounds, errors without traces."""

from __future__ import annotations

import pytest

from inference.text import chat_template
from inference.text.chat_template import (
    CHATML_TEMPLATE,
    ChatTemplate,
    RenderJob,
    TemplateRefusedError,
)
from llamaweb.lib.errors import InvalidError

HELLO = [{"role": "user", "content": "Secret <b>words</b>"}]


def render(source: str, **fields: object) -> str:
    job = RenderJob(**{"messages": HELLO, **fields})
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>").render(job)


def test_chatml_is_written_as_everybody_writes_it() -> None:
    assert render(CHATML_TEMPLATE) == (
        "<|im_start|>user\nSecret <b>words</b><|im_end|>\n<|im_start|>assistant\n"
    )
    assert render(CHATML_TEMPLATE, add_generation_prompt=False).endswith("<|im_end|>\n")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ bos_token }}|{{ eos_token }}", "<s>|</s>"),
        ("{{ {'b': 'é<', 'a': 1} | tojson }}", '{"b": "é<", "a": 1}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{% generation %}x{% endgeneration %}", "x"),
        ("{% for i in range(5) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
        ("{% if tools %}no{% else %}none{% endif %}", "none"),
        ("{{ enable_thinking }}", "True"),
        ("{{ strftime_now('%Y') }} {{ date_string }}", "2023 14 Nov 2023"),
    ],
)
def test_helpers(source: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert render(source, now_at=1_700_000_000.0) == text


def test_caller_variables_cant_replace_ours() -> None:
    variables = {"bos_token": "forged", "enable_thinking": False, "mood": "calm"}
    source = "{{ bos_token }} {{ enable_thinking }} {{ mood }}"
    assert render(source, variables=variables) == "<s> False calm"


def test_refusal_in_the_templates_own_words() -> None:
    with pytest.raises(TemplateRefusedError, match="refuses these messages: No system here"):
        render("{{ raise_exception('No system here') }}")


def test_refusal_never_quotes_a_message() -> None:
    with pytest.raises(TemplateRefusedError) as caught:
        render("{{ raise_exception('Bad: ' + messages[0].content) }}")
    assert "Secret" not in caught.value.message


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[7].content.x }}",
        "{{ messages[0].content + 1 }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os.system('id') }}",
        "{% for i in range(10**9) %}{% endfor %}",
        "{% include 'x' %}",
    ],
)
def test_errors_are_told_without_a_trace(source: str) -> None:
    with pytest.raises(TemplateRefusedError) as caught:
        render(source)
    assert "Secret" not in caught.value.message
    assert "Traceback" not in caught.value.message


@pytest.mark.parametrize("source", ["{% for %}", "{{ (", "{% if " + "(" * 5000 + " %}"])
def test_unreadable_template(source: str) -> None:
    with pytest.raises(InvalidError, match="can't be read"):
        ChatTemplate(source)


def test_output_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "MAX_RENDERED_CHARS", 1000)
    with pytest.raises(InvalidError, match="longer than 1000 characters"):
        render("{% for i in range(2000) %}x{% endfor %}")
