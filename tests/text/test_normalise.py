"""Any order of messages on any template: rendered by the stated rules, with a stable prefix."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.protocol.requests import ChatPrompt, MediaRef, Message, ToolCall
from inference.text.capabilities import TemplateCapabilities, probe
from inference.text.chat_renderer import ChatRenderer, InProcessRenderer
from inference.text.chat_template import CHATML_TEMPLATE
from inference.text.normalise import normalise, template_messages
from llamaweb.lib.errors import InvalidError
from tests.text.templates import RICH, STRICT, TEXT_ARGUMENTS, TYPED

ALL = {
    "chatml": CHATML_TEMPLATE,
    "rich": RICH,
    "strict": STRICT,
    "typed": TYPED,
    "text_arguments": TEXT_ARGUMENTS,
}
RENDERERS = {name: ChatRenderer(InProcessRenderer(t, "<s>", "</s>")) for name, t in ALL.items()}

SYSTEM = Message("system", "Be brief.")
CALL = Message("assistant", "", tool_calls=(ToolCall("c1", "get_time", '{"zone": "UTC"}'),))
RESULT = Message("tool", "12:00", tool_call_id="c1")
P01 = (
    SYSTEM,
    Message("user", "one"),
    Message("assistant", "two"),
    Message("system", "Now in German."),
    Message("user", "three"),
)
P04 = (Message("user", "time?"), CALL, RESULT)


def render(name: str, *messages: Message, **fields: object) -> str:
    return RENDERERS[name].render(ChatPrompt(messages, **fields))


def test_capabilities_are_found() -> None:
    found = {name: renderer.capabilities() for name, renderer in RENDERERS.items()}
    plain = TemplateCapabilities(
        system=True, later_system=True, role_runs=True, assistant_first=True
    )
    assert found["chatml"] == plain
    assert found["rich"] == TemplateCapabilities(
        system=True, later_system=True, role_runs=True, assistant_first=True, tool_calls="object"
    )
    assert found["strict"] == TemplateCapabilities()
    assert found["typed"] == TemplateCapabilities(
        typed_content=True, system=True, later_system=True, role_runs=True, assistant_first=True
    )
    assert found["text_arguments"] == TemplateCapabilities(
        system=True, role_runs=True, assistant_first=True, tool_calls="text"
    )


@pytest.mark.parametrize("name", ALL)
def test_system_message_in_the_middle(name: str) -> None:
    text = render(name, *P01)
    words = ["Be brief.", "one", "two", "Now in German.", "three"]
    places = [text.index(word) for word in words]
    assert places == sorted(places)
    assert all(text.count(word) == 1 for word in words)


@pytest.mark.parametrize("name", ALL)
def test_prefix_before_a_new_system_message_stays(name: str) -> None:
    before = render(name, *P01[:2])
    first_turn = before + "two"
    after = render(name, *P01)
    assert after.startswith(first_turn)


def test_later_system_becomes_marked_user_text_on_strict_templates() -> None:
    assert render("strict", *P01) == (
        "<s><user>Be brief.\n\none</user><assistant>two</assistant>"
        "<user>System message:\nNow in German.\n\nthree</user><assistant>"
    )


@pytest.mark.parametrize("name", ALL)
def test_tool_history_is_accepted(name: str) -> None:
    text = render(name, *P04)
    for word in ("time?", "get_time", "zone", "UTC", "12:00"):
        assert word in text
    assert "None" not in text


def test_tool_history_as_text_where_the_template_has_no_tools() -> None:
    assert render("chatml", *P04) == (
        "<|im_start|>user\ntime?<|im_end|>\n"
        "<|im_start|>assistant\n<tool_call>\n"
        '{"name": "get_time", "arguments": {"zone": "UTC"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n12:00\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_arguments_reach_the_template_as_it_wants_them() -> None:
    assert '"arguments": {"zone": "UTC"}}' in render("rich", *P04)
    assert '!get_time{"zone": "UTC"}' in render("text_arguments", *P04)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("arguments", ["", "{", "[1]", '"x"', "[" * 100_000, "{" * 100_000])
def test_arguments_that_no_tool_would_take(name: str, arguments: str) -> None:
    call = Message("assistant", "", tool_calls=(ToolCall("c", "f", arguments),))
    assert "go" in render(name, Message("user", "go"), call, Message("tool", "no"))


def test_two_users_in_a_row() -> None:
    two = (Message("user", "a"), Message("user", "b"))
    assert render("strict", *two) == "<s><user>a\n\nb</user><assistant>"
    assert render("rich", *two).count("<|im_start|>user") == 2


def test_leading_system_messages_become_one() -> None:
    two = (SYSTEM, Message("system", "Be kind."), Message("user", "x"))
    text = render("chatml", *two)
    assert text.startswith("<|im_start|>system\nBe brief.\n\nBe kind.<|im_end|>\n<|im_start|>user")


def test_assistant_first_and_empty_chat() -> None:
    hello = Message("assistant", "Hello!")
    assert render("strict", hello) == "<s><user></user><assistant>Hello!</assistant><assistant>"
    assert render("strict") == "<s><user></user><assistant>"


def test_media_are_refused_with_the_field() -> None:
    message = Message("user", "look", media=(MediaRef("0" * 64, 1, "image/png"),))
    with pytest.raises(InvalidError) as caught:
        render("chatml", Message("user", "a"), message)
    assert caught.value.param == "messages[1].content"


@pytest.mark.parametrize("name", ALL)
def test_continued_answer_ends_the_prompt(name: str) -> None:
    messages = (Message("user", "Count."), Message("assistant", "One, two, "))
    text = render(name, *messages, continue_final=True)
    assert text.endswith("One, two, ")


def test_only_an_assistants_text_can_be_continued() -> None:
    for messages in ((), (Message("user", "x"),), (Message("user", "x"), CALL)):
        with pytest.raises(InvalidError) as caught:
            render("rich", *messages, continue_final=True)
        assert caught.value.param == "messages"


def test_template_variables() -> None:
    renderer = ChatRenderer(InProcessRenderer("{{ messages[0].content }} {{ mood }}"))
    prompt = ChatPrompt((Message("user", "x"),), template_kwargs_json='{"mood": "calm"}')
    assert renderer.render(prompt) == "x calm"
    forged = ChatPrompt((Message("user", "x"),), template_kwargs_json='{"bos_token": "x"}')
    with pytest.raises(InvalidError) as caught:
        renderer.render(forged)
    assert caught.value.param == "chat_template_kwargs.bos_token"


def test_template_that_refuses_everything() -> None:
    renderer = ChatRenderer(InProcessRenderer("{{ raise_exception('Never') }}"))
    with pytest.raises(InvalidError, match="refuses these messages: Never") as caught:
        renderer.render(ChatPrompt((Message("user", "x"),)))
    assert caught.value.param == "messages"


CALLS = st.builds(
    ToolCall,
    id=st.sampled_from(["c1", "c2"]),
    name=st.just("f"),
    arguments=st.sampled_from(["{}", ""]),
)
MESSAGES = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["system", "user", "assistant", "tool"]),
        content=st.text("ab \n", max_size=4),
        tool_calls=st.one_of(st.just(()), st.tuples(CALLS)),
    ),
    max_size=8,
)


@pytest.mark.parametrize("name", ALL)
@given(messages=MESSAGES)
@settings(max_examples=60, deadline=None)
def test_every_order_of_messages_is_rendered(name: str, messages: list[Message]) -> None:
    assert RENDERERS[name].render(ChatPrompt(tuple(messages)))


@given(messages=MESSAGES, more=MESSAGES)
@settings(max_examples=200, deadline=None)
def test_a_growing_chat_keeps_its_prefix(messages: list[Message], more: list[Message]) -> None:
    """On the strictest template: all but the last message stay, the last one only grows."""
    start = [Message("user", "q"), *messages]
    before = normalise(start, TemplateCapabilities())
    after = normalise([*start, *more], TemplateCapabilities())
    assert after[: len(before) - 1] == before[:-1]
    assert after[len(before) - 1].role == before[-1].role
    assert after[len(before) - 1].content.startswith(before[-1].content)


def test_probing_stops_at_a_bound() -> None:
    def over_time(job: object) -> str:
        raise InvalidError("too slow")

    with pytest.raises(InvalidError, match="too slow"):
        probe(over_time)


@pytest.mark.parametrize("levels", [65, 900, 100_000])
def test_arguments_nested_too_deeply_stay_text(levels: int) -> None:
    arguments = '{"a":' * levels + "1" + "}" * levels
    call = Message("assistant", "", tool_calls=(ToolCall("c1", "f", arguments),))
    can = TemplateCapabilities(tool_calls="object")
    (sent,) = template_messages([call], can)
    assert sent["tool_calls"][0]["function"]["arguments"] == arguments


SHORT_IDS = (
    "{% for m in messages %}{% for c in m.tool_calls or [] %}"
    "{% if c.id | length != 9 %}{{ raise_exception('nine letters') }}{% endif %}"
    "[CALL {{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}"
    "[{{ m.role }} {{ m.tool_call_id }}]{{ m.content }}{% endfor %}"
)
DEFINITIONS = (
    '[{"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}}]'
)


def test_ids_of_calls_are_made_to_fit() -> None:
    renderer = ChatRenderer(InProcessRenderer(SHORT_IDS))
    assert renderer.capabilities().short_call_ids
    call = Message("assistant", tool_calls=(ToolCall("call_0123456789", "get_time", "{}"),))
    result = Message("tool", "12:00", tool_call_id="call_0123456789")
    text = renderer.render(ChatPrompt((Message("user", "time?"), call, result)))
    call_id = text.partition("[CALL ")[2][:9]
    assert call_id.isalnum()
    assert f"[tool {call_id}]12:00" in text


def test_tools_are_told_where_the_template_says_nothing_of_them() -> None:
    told = render("chatml", SYSTEM, Message("user", "time?"), tools_json=DEFINITIONS)
    assert told.startswith("<|im_start|>system\nBe brief.\n\nThese functions can be called:\n")
    assert '"get_time"' in told
    assert "<tool_call>" in told.partition("<|im_end|>")[0]
    strict = render("strict", SYSTEM, Message("user", "time?"), tools_json=DEFINITIONS)
    assert strict.index('"get_time"') < strict.index("time?")
    shown = "{{ tools | tojson if tools }}{% for m in messages %}{{ m.content }}{% endfor %}"
    renderer = ChatRenderer(InProcessRenderer(shown))
    assert renderer.capabilities().tools
    text = renderer.render(ChatPrompt((Message("user", "time?"),), tools_json=DEFINITIONS))
    assert text.count("get_time") == 1


@pytest.mark.parametrize("template", ["chatml", "strict"])
def test_the_model_is_not_told_that_a_tool_is_strict(template: str) -> None:
    tools = json.loads(DEFINITIONS)
    tools[0]["function"]["strict"] = True
    time = Message("user", "time?")
    told = render(template, time, tools_json=json.dumps(tools))
    assert told == render(template, time, tools_json=DEFINITIONS)
    shown = "{{ tools | tojson if tools }}{% for m in messages %}{{ m.content }}{% endfor %}"
    text = ChatRenderer(InProcessRenderer(shown)).render(
        ChatPrompt((time,), tools_json=json.dumps(tools))
    )
    assert "get_time" in text
    assert "strict" not in text
