"""A budget of reasoning: what ends it is said in the model's place, and an engine that takes over
goes on with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inference.engine.contract import Resume, SequenceRequest, Thoughts
from inference.engine.mock_tokenizer import MockTokenizer
from inference.engine.thought_guard import ThoughtGuard
from inference.protocol.params import Grammar, SamplingParams
from inference.text.answer.families import FAMILIES
from inference.text.answer.reasoning_tags import THINK
from inference.text.answer.tools import Tool
from tests.engine.driving import ask, ids_of, make_engine, run_one, text_of

FORM = replace(FAMILIES["hermes"], reasoning=THINK)
OPENED = "<think>\n"
CLOSING = "\nTime is up.</think>"
GREEDY = SamplingParams(temperature=0.0)


def thoughts(budget: int | None = None, closing: str = CLOSING) -> Thoughts:
    return Thoughts(FORM, tuple(closing.encode()), budget)


def thinking(
    budget: int | None, opened: str = OPENED, resume: Resume | None = None
) -> SequenceRequest:
    request = ask("a", sampling=GREEDY, resume=resume)
    return replace(request, opened=opened, thoughts=thoughts(budget))


def test_the_budget_ends_what_the_template_opened() -> None:
    events = run_one(make_engine("0123456789"), thinking(4))
    # The mock's script goes on where it would have been.
    assert text_of(events).startswith("0123" + CLOSING)


def test_without_any_it_is_closed_at_once() -> None:
    assert text_of(run_one(make_engine("0123456789"), thinking(0))).startswith(CLOSING)


def test_what_the_model_opens_is_counted_from_there() -> None:
    events = run_one(make_engine("<think>0123456789"), thinking(3, opened=""))
    assert text_of(events).startswith("<think>012" + CLOSING)


def test_what_is_closed_in_time_stays_as_it_is() -> None:
    said = "<think>01</think>Two."
    assert text_of(run_one(make_engine(said), thinking(3, opened=""))) == said


def test_all_blocks_share_the_budget() -> None:
    said = "<think>01</think><think>234567"
    budget = len("01</think>") + 2  # the mock has a token a character, of markers too
    events = run_one(make_engine(said), thinking(budget, opened=""))
    assert text_of(events).startswith("<think>01</think><think>23" + CLOSING)


def test_what_only_looks_like_an_end_does_not_put_it_off() -> None:
    text = text_of(run_one(make_engine("<" * 60), thinking(4)))
    assert "<" * 4 < text < "<" * 30
    assert CLOSING in text


def test_tags_in_text_open_nothing() -> None:
    said = "It is <think>0123456789"
    assert text_of(run_one(make_engine(said), thinking(0, opened=""))) == said


def test_no_character_is_cut() -> None:
    events = run_one(make_engine("é漢😺 and so on"), thinking(3))
    assert text_of(events).startswith("é漢" + CLOSING)


CALL = '<tool_call>\n{"name": "clock", "arguments": {"zone": "a very far one"}}\n</tool_call>'


def calling(budget: int | None, *tools: Tool) -> SequenceRequest:
    request = thinking(budget)
    return replace(request, thoughts=replace(thoughts(budget), tools=tools))


@pytest.mark.parametrize("budget", [len("01<"), len("01<tool"), len("01<tool_call>")])
def test_a_call_inside_reasoning_is_not_cut(budget: int) -> None:
    """What may be the beginning of one isn't either."""
    events = run_one(make_engine(f"01{CALL}\n23456789"), calling(budget, Tool("clock")))
    assert text_of(events).startswith(f"01{CALL}\n2{CLOSING}")


def test_a_call_does_not_count_as_reasoning() -> None:
    budget = len("01<tool_call>") + 3
    said = f"01{CALL}\n23456789"
    events = run_one(make_engine(said), calling(budget, Tool("clock")))
    assert text_of(events).startswith(f"01{CALL}\n2345{CLOSING}")


def test_an_answer_may_end_behind_a_call_inside_reasoning() -> None:
    said = f"01{CALL}"
    assert text_of(run_one(make_engine(said), calling(3, Tool("clock")))) == said


def test_what_calls_nothing_is_cut() -> None:
    events = run_one(make_engine(f"01{CALL}"), calling(3, Tool("other")))
    text = text_of(events)
    assert CLOSING in text
    assert CALL not in text


@pytest.mark.parametrize("num_published", range(60, 110, 7))
def test_a_resumed_call_inside_reasoning_is_not_cut_either(num_published: int) -> None:
    whole = ids_of(run_one(make_engine(f"01{CALL}\n23456789"), calling(3, Tool("clock"))))
    resume = Resume(whole[:num_published], 0)
    request = replace(calling(3, Tool("clock")), resume=resume)
    rest = run_one(make_engine(f"01{CALL}\n23456789"), request)
    assert ids_of(rest) == whole[num_published:]


def test_harmony_goes_on_with_another_message() -> None:
    form = FAMILIES["gpt-oss"]
    closing = form.reasoning_end
    request = replace(
        thinking(None, opened=""), thoughts=Thoughts(form, tuple(closing.encode()), 2)
    )
    events = run_one(make_engine("<|channel|>analysis<|message|>01234567"), request)
    assert text_of(events).startswith("<|channel|>analysis<|message|>01<|end|><|start|>assistant")


@pytest.mark.parametrize("num_published", range(1, 30))
def test_a_resumed_answer_goes_on_within_the_closing(num_published: int) -> None:
    whole = ids_of(run_one(make_engine("0123456789"), thinking(4)))
    resume = Resume(whole[:num_published], 0)
    rest = run_one(make_engine("0123456789"), thinking(4, resume=resume))
    assert ids_of(rest) == whole[num_published:]


def ended_after(num: int, engine_reply: str = "0123456789") -> tuple[int, ...]:
    """What is said if the order to end comes behind `num` tokens."""
    engine = make_engine(engine_reply)
    engine.add(thinking(None))
    said: list[int] = []
    while engine.has_work:
        for item in engine.step():
            said += getattr(item.event, "token_ids", ())
        if len(said) == num:
            engine.end_reasoning("a")
            engine.end_reasoning("a")  # told with every heartbeat
    return tuple(said)


def test_an_order_ends_it() -> None:
    assert bytes(ended_after(3)).decode().startswith("012" + CLOSING)


@pytest.mark.parametrize("num_published", range(3, 25))
def test_an_order_given_again_behind_a_resume_is_carried_on(num_published: int) -> None:
    whole = ended_after(3)
    engine = make_engine("0123456789")
    engine.add(thinking(None, resume=Resume(whole[:num_published], 0)))
    engine.end_reasoning("a")
    rest: list[int] = []
    while engine.has_work:
        for item in engine.step():
            rest += getattr(item.event, "token_ids", ())
    assert tuple(rest) == whole[num_published:]


def test_an_order_before_the_replay_of_a_sampler_that_sees_logits_waits() -> None:
    guard = ThoughtGuard(thoughts(), MockTokenizer(), opened=OPENED, num_published=5)
    guard.end()
    for token in b"012" + CLOSING[:2].encode():
        assert guard.forced() is None
        guard.accept(token)
    assert guard.forced() == CLOSING.encode()[2]


def test_an_order_is_for_those_that_think_and_are_followed() -> None:
    engine = make_engine("Hello")
    engine.add(ask("a", sampling=GREEDY))
    engine.end_reasoning("a")
    engine.end_reasoning("unknown")
    engine.step()
    assert engine.has_work


def test_closing_that_closes_nothing_is_said_once() -> None:
    request = replace(thinking(0), thoughts=thoughts(0, closing="!"))
    assert text_of(run_one(make_engine("0123"), request)) == "!123"


def test_what_a_grammar_refuses_is_not_forced() -> None:
    sampling = replace(GREEDY, grammar=Grammar('root ::= "12" [0-9] "."'))
    request = replace(thinking(0), sampling=sampling)
    assert text_of(run_one(make_engine("12345"), request)) == "123."
