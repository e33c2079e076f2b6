"""Prompts to tokens: public prefix, one beginning-of-text token, bad input."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.protocol.requests import (
    ChatPrompt,
    Message,
    MixedPrompt,
    TextPrompt,
    TokenPrompt,
    ToolCall,
)
from inference.text.chat_renderer import ChatRenderer, InProcessRenderer, renderer_for
from inference.text.chat_template import CHATML_TEMPLATE
from inference.text.prompts import PreparedPrompt, TextPipeline, valid_text
from llamaweb.lib.errors import InvalidError, TooLongError
from tests.text.byte_tokenizer import BOS, ByteTokenizer
from tests.text.templates import RICH, STRICT


def pipeline(template: str = CHATML_TEMPLATE) -> TextPipeline:
    return TextPipeline(ByteTokenizer(), ChatRenderer(InProcessRenderer(template, "<s>", "</s>")))


def public_text(pipe: TextPipeline, prompt: ChatPrompt) -> str:
    prepared = pipe.prepare(prompt)
    shared = prepared.tokens[: prepared.public_len]
    return b"".join(ByteTokenizer().piece(t, special=True) for t in shared).decode()


def user(text: str) -> Message:
    return Message("user", text)


def test_the_templates_own_text_is_public() -> None:
    shared = public_text(pipeline(RICH), ChatPrompt((user("Bonjour"),)))
    assert shared == (
        "<s><|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
    )


def test_a_token_across_the_border_is_not_public() -> None:
    shared = public_text(pipeline(RICH), ChatPrompt((user("Hello"),)))
    assert shared.endswith("<|im_start|>user")


def test_a_users_system_message_is_private_and_the_servers_public() -> None:
    messages = (Message("system", "Server rules."), user("Bonjour"))
    private = public_text(pipeline(RICH), ChatPrompt(messages))
    assert private == "<s><|im_start|>system\n"
    public = public_text(pipeline(RICH), ChatPrompt(messages, public_messages=1))
    assert public == "<s><|im_start|>system\nServer rules.<|im_end|>\n<|im_start|>user\n"


def test_server_and_user_system_messages_joined_part_at_the_users_text() -> None:
    messages = (Message("system", "Server."), Message("system", "Mine."), user("x"))
    shared = public_text(pipeline(), ChatPrompt(messages, public_messages=1))
    assert shared == "<s><|im_start|>system\nServer.\n\n"


def test_tools_and_variables_are_private() -> None:
    pipe = pipeline(
        "{{ tools | tojson }}{{ mood }}{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    tools = '[{"type": "function", "function": {"name": "secret_tool"}}]'
    assert "secret" not in public_text(pipe, ChatPrompt((user("x"),), tools_json=tools))
    variables = ChatPrompt((user("x"),), template_kwargs_json='{"mood": "secret"}')
    assert "secret" not in public_text(pipe, variables)


def test_variables_of_the_server_are_public_and_a_users_own_are_not() -> None:
    pipe = pipeline("{{ mood }}{% for m in messages %}{{ m.content }}{% endfor %}")
    server = ChatPrompt(
        (user("x"),),
        template_kwargs_json='{"mood": "calm"}',
        public_kwargs_json='{"mood": "calm"}',
    )
    assert public_text(pipe, server) == "<s>calm"
    mine = replace(server, template_kwargs_json='{"mood": "cross"}')
    assert public_text(pipe, mine) == "<s>c"  # as far as the server's own goes


TEXTS = st.text("01H \nab", max_size=4)


@pytest.mark.parametrize("template", [CHATML_TEMPLATE, RICH, STRICT])
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=4),
    others=st.lists(TEXTS, min_size=4, max_size=4),
    is_call=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_the_public_prefix_says_nothing_of_the_text(
    template: str, texts: list[str], others: list[str], is_call: bool
) -> None:
    """Whoever sends the same roles with other words has the same public text, as far as it goes."""
    roles = ["system", "user", "assistant", "user"]

    def chat(words: list[str]) -> ChatPrompt:
        messages = [Message(r, w) for r, w in zip(roles, words, strict=False)]  # type: ignore[arg-type]
        if is_call:
            call = ToolCall(words[0], "n" + words[-1], "{}")
            messages.append(Message("assistant", "", tool_calls=(call,)))
        return ChatPrompt(tuple(messages))

    pipe = pipeline(template)
    one, two = (pipe.prepare(chat(words)) for words in (texts, others[: len(texts)]))
    shorter = min(one.public_len, two.public_len)
    assert one.tokens[:shorter] == two.tokens[:shorter]


def test_one_beginning_of_text() -> None:
    assert pipeline(STRICT).prepare(ChatPrompt((user("x"),))).tokens.count(BOS) == 1
    assert pipeline(RICH).prepare(ChatPrompt((user("x"),))).tokens.count(BOS) == 1
    assert pipeline().prepare(TextPrompt("x")).tokens == (BOS, ord("x"))
    assert pipeline().prepare(TextPrompt("<s>x")).tokens == (BOS, ord("x"))


def test_tokens_are_used_as_they_are() -> None:
    prepared = pipeline().prepare(TokenPrompt((1, 2, 3), public_len=9))
    assert prepared == PreparedPrompt((1, 2, 3), public_len=3)


@pytest.mark.parametrize(
    ("parts", "tokens"),
    [
        ((1, "a<s>", 2), (1, ord("a"), BOS, 2)),
        (("a", 2, "b"), (BOS, ord("a"), 2, ord("b"))),
        (("<s>a", 2), (BOS, ord("a"), 2)),
        ((1, 2), (1, 2)),
    ],
)
def test_ids_and_texts_get_a_beginning_only_before_a_first_text(
    parts: tuple[int | str, ...], tokens: tuple[int, ...]
) -> None:
    prepared = pipeline().prepare(MixedPrompt(parts))
    assert (prepared.tokens, prepared.public_len) == (tokens, 0)
    assert pipeline().count(MixedPrompt(parts)) == len(tokens)


@pytest.mark.parametrize("parts", [(), ("a", -1), (1, "a", 259)])
def test_bad_ids_among_texts(parts: tuple[int | str, ...]) -> None:
    with pytest.raises(InvalidError) as caught:
        pipeline().prepare(MixedPrompt(parts))
    assert caught.value.param == "prompt"


def test_only_texts_of_one_token_are_preserved() -> None:
    assert pipeline().preserved_tokens(("<s>", "ab", "", "\nHe")) == {BOS, 258}


@pytest.mark.parametrize("tokens", [(), (-1,), (259,), (1, 2**40)])
def test_bad_tokens(tokens: tuple[int, ...]) -> None:
    with pytest.raises(InvalidError) as caught:
        pipeline().prepare(TokenPrompt(tokens))
    assert caught.value.param == "prompt"


def test_half_an_emoji_is_replaced() -> None:
    assert valid_text("a\ud83d b\ude00") == "a\ufffd b\ufffd"
    assert valid_text("\ud83d\ude00") == "😺"[:0] + "\U0001f600"
    assert pipeline().prepare(ChatPrompt((user("a\ud83d"),))).text.count("\ufffd") == 1


def test_count_and_render() -> None:
    prompt = ChatPrompt((user("x"),))
    assert pipeline().count(prompt) == len(pipeline().prepare(prompt).tokens)
    assert pipeline().render(prompt) == pipeline().prepare(prompt).text
    assert pipeline().count(TextPrompt("abc")) == 4


class NarrowTokenizer(ByteTokenizer):
    """Refuses every prompt."""

    def tokenize(
        self, text: str, *, add_special: bool, parse_special: bool, as_prompt: bool = False
    ) -> list[int]:
        if as_prompt:
            raise TooLongError(prompt_tokens=9, max_context=8, at_least=True)
        return super().tokenize(text, add_special=add_special, parse_special=parse_special)


@pytest.mark.parametrize("prompt", [ChatPrompt((user("x"),)), TextPrompt("x")])
def test_prompts_are_refused_while_they_are_tokenised(prompt: ChatPrompt | TextPrompt) -> None:
    pipe = TextPipeline(NarrowTokenizer(), ChatRenderer(InProcessRenderer()))
    for call in (pipe.prepare, pipe.count):
        with pytest.raises(TooLongError):
            call(prompt)
    assert pipe.tokenize("x", add_special=False, parse_special=True) == [ord("x")]


def test_a_request_is_prepared_the_same_twice() -> None:
    pipe = pipeline("{{ strftime_now('%H:%M:%S') }}{{ messages[0].content }}")
    prompt = ChatPrompt((user("x"),))
    assert pipe.prepare(prompt, now_at=5.0) == pipe.prepare(prompt, now_at=5.0)
    assert pipe.prepare(prompt, now_at=5.0) != pipe.prepare(prompt, now_at=65.0)


def test_template_is_the_overrides_then_the_models_then_chatml() -> None:
    prompt = ChatPrompt((user("x"),))
    for tokenizer, override, text in (
        (ByteTokenizer("model {{ messages[0].content }}"), "mine", "mine"),
        (ByteTokenizer("model {{ messages[0].content }}"), None, "model x"),
        (ByteTokenizer(), None, "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"),
    ):
        renderer = renderer_for(tokenizer, override, timeout_s=20.0)
        try:
            assert renderer.render(prompt) == text
        finally:
            renderer.close()
