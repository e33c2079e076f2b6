"""Going on inside reasoning that was begun: the prompt's end, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from inference.engine.contract import SequenceRequest
from inference.engine.mock_tokenizer import MockTokenizer
from inference.engine.pipeline import Pipeline
from inference.protocol.params import Grammar, SamplingParams
from inference.protocol.requests import AnswerParams, ChatPrompt, GenerateRequest, Message
from inference.text.answer.detect import answer_format
from inference.text.chat_renderer import ChatRenderer, InProcessRenderer
from inference.text.prompts import TextPipeline
from llamaweb.lib.errors import InvalidError

ROLES = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
ASK = "{% if add_generation_prompt %}[assistant]{% endif %}"
SHOWS = (  # what was thought, as the model wrote it
    "{% for m in messages %}[{{ m.role }}]"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}{% endfor %}" + ASK
)
OPENS = ROLES + "{% if add_generation_prompt %}[assistant]<think>\n{% endif %}{# </think> #}"
HIDES = ROLES + ASK + "{# <think></think> #}"
PLAIN = ROLES + ASK
BEGUN = "Let me see."
CHAT = ChatPrompt(
    (Message("user", "Hi"), Message("assistant", reasoning=BEGUN)),
    continue_final=True,
    continue_reasoning=True,
)


def pipeline(template: str) -> Pipeline:
    form = answer_format(template)
    renderer = ChatRenderer(InProcessRenderer(template), form)
    return Pipeline(TextPipeline(MockTokenizer(), renderer), renderer, form)


def ask(prompt: ChatPrompt = CHAT, **fields: object) -> GenerateRequest:
    return GenerateRequest(
        "g", "m", "user:1", "user:1", prompt, seed=1, submitted_at=0.0, deadline_at=60.0,
        **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def text_of(made: SequenceRequest) -> str:
    return bytes(made.tokens).decode()


@pytest.mark.parametrize("template", [SHOWS, OPENS, HIDES])
def test_the_prompt_ends_where_it_broke_off(template: str) -> None:
    made = pipeline(template).prepare(ask())
    assert text_of(made) == f"[user]Hi[assistant]<think>\n{BEGUN}"
    assert (made.opened, made.is_begun) == ("<think>", True)


def test_white_space_at_its_end_is_the_models_to_write() -> None:
    messages = (CHAT.messages[0], Message("assistant", reasoning=f"{BEGUN}\n\n"))
    made = pipeline(OPENS).prepare(ask(replace(CHAT, messages=messages)))
    assert text_of(made).endswith(BEGUN)


def test_the_text_that_is_counted_and_shown_is_the_same() -> None:
    made = pipeline(SHOWS)
    assert made.render(CHAT) == f"[user]Hi[assistant]<think>\n{BEGUN}"
    assert made.count(CHAT) == len(made.prepare(ask()).tokens)


def test_a_model_without_reasoning_has_none_to_go_on_with() -> None:
    with pytest.raises(InvalidError, match="no reasoning to go on with") as caught:
        pipeline(PLAIN).prepare(ask())
    assert caught.value.param == "continue_final_message"


@pytest.mark.parametrize("template", [PLAIN, OPENS])
def test_its_content_is_gone_on_with_where_either_will_do(template: str) -> None:
    has_reasoning = template == OPENS
    made = pipeline(template).prepare(ask(replace(CHAT, continue_either=True)))
    begun = f"<think>\n{BEGUN}" if has_reasoning else ""
    assert text_of(made) == f"[user]Hi[assistant]{begun}"
    assert made.is_begun == has_reasoning


def test_its_budget_counts_what_is_written_now() -> None:
    made = pipeline(OPENS).prepare(ask(answer=AnswerParams(reasoning_budget=3)))
    assert made.thoughts is not None
    assert made.thoughts.budget == 3


@contextmanager
def refused(param: str) -> Iterator[None]:
    with pytest.raises(InvalidError) as caught:
        yield
    assert caught.value.param == param


def test_a_grammar_has_to_end_it() -> None:
    with refused("grammar"):
        grammar = Grammar('root ::= "a"')
        pipeline(OPENS).prepare(ask(sampling=SamplingParams(grammar=grammar)))
    ending = Grammar('root ::= [^<]* "</think>" "a"')
    made = pipeline(OPENS).prepare(ask(sampling=SamplingParams(grammar=ending)))
    assert made.opened == "<think>"


def test_a_schema_is_kept_to_behind_it() -> None:
    form = Grammar('{"type": "object"}', kind="json_schema")
    made = pipeline(OPENS).prepare(ask(sampling=SamplingParams(grammar=form)))
    assert made.sampling.grammar is not None
    assert made.sampling.grammar.front.startswith("front: ")
    assert "<think>" not in made.sampling.grammar.front


def test_a_schema_is_refused_where_it_stays_in_the_content() -> None:
    form = Grammar('{"type": "object"}', kind="json_schema", param="json_schema")
    whole = AnswerParams(splits_reasoning=False)
    asked = ask(sampling=SamplingParams(grammar=form), answer=whole)
    with refused("json_schema"):
        pipeline(HIDES).prepare(asked)
    either = replace(asked, prompt=replace(CHAT, continue_either=True))
    assert pipeline(PLAIN).prepare(either).sampling.grammar == form
