"""Held text is given out at every kind of end; time and special tokens."""

from __future__ import annotations

import pytest

from inference.engine.mock_tokenizer import END_TOKEN, MockTokenizer
from inference.engine.stopping import Answer, Ended
from inference.protocol.events import Cancelled, Delta, Failed
from inference.protocol.params import Limits
from inference.protocol.spec import MockSpec
from llamaweb.lib.clock import ManualClock
from tests.engine.driving import ask, backend_of, collect, finished, make_engine, run, text_of
from tests.text.byte_tokenizer import BOS, EOS, ByteTokenizer

HOLDING = Limits(stop=("world",))


def test_a_cancelled_answer_gives_out_what_was_held() -> None:
    engine = make_engine("hello world")
    engine.add(ask("a", limits=HOLDING))
    out = {}
    for _ in range(8):
        collect(out, engine.step())
    assert text_of(out["a"]) == "hello "
    last = engine.abort("a", "user")
    assert [type(item.event) for item in last] == [Delta, Cancelled]
    assert last[0].event == Delta("wo", ())
    assert text_of([item.event for item in last]) == "wo"


def test_nothing_held_gives_out_nothing() -> None:
    engine = make_engine("hello world")
    engine.add(ask("a", limits=HOLDING))
    engine.step()
    assert [type(item.event) for item in engine.abort("a", "user")] == [Cancelled]
    engine.add(ask("b", limits=HOLDING))
    assert [type(item.event) for item in engine.abort("b", "user")] == [Cancelled]


def test_half_a_character_is_dropped_when_somebody_else_ends_it() -> None:
    engine = make_engine("😺")
    engine.add(ask("a"))
    engine.step()
    engine.step()
    assert [type(item.event) for item in engine.abort("a", "user")] == [Cancelled]


def test_a_failed_answer_gives_out_what_was_held() -> None:
    engine = make_engine(spec=MockSpec(reply="hello world", fail_after=8))
    engine.add(ask("a", limits=HOLDING))
    events = run(engine)["a"]
    assert text_of(events) == "hello wo"
    assert isinstance(events[-1], Failed)
    assert events[-1].usage.completion_tokens == 8


def test_a_failed_batch_gives_out_what_was_held() -> None:
    engine = make_engine("hello world")
    engine.add(ask("a", limits=HOLDING))
    out = {}
    for _ in range(8):
        collect(out, engine.step())

    def fault(_: object) -> None:
        raise RuntimeError

    backend_of(engine).fault = fault
    collect(out, engine.step())
    assert text_of(out["a"]) == "hello wo"
    assert isinstance(out["a"][-1], Failed)


@pytest.mark.parametrize(
    ("limit_ms", "said"),
    [(0, "one\ntwo\nthree"), (250, "one\n"), (450, "one\ntwo\n"), (10_000, "one\ntwo\nthree")],
)
def test_time_is_looked_at_when_a_line_is_complete(limit_ms: int, said: str) -> None:
    clock = ManualClock()
    engine = make_engine("one\ntwo\nthree", clock=clock)
    engine.add(ask("a", limits=Limits(max_predict_ms=limit_ms)))
    out = {}
    while engine.has_work:
        collect(out, engine.step())
        clock.advance(0.1)
    assert text_of(out["a"]) == said
    assert finished(out["a"]).reason == ("stop" if said.endswith("three") else "length")


def test_special_tokens_are_invisible_unless_preserved() -> None:
    tokens = (ord("a"), BOS, ord("b"))

    def said(preserved: set[int]) -> str:
        answer = Answer(ByteTokenizer(), Limits(), room=9, preserved=preserved)
        return "".join(answer.push(token)[0] for token in tokens)

    assert (said(set()), said({BOS}), said({EOS})) == ("ab", "a<s>b", "ab")


def test_a_server_can_show_all_special_tokens_and_the_end() -> None:
    def said(limits: Limits) -> list[tuple[str, Ended | None]]:
        answer = Answer(ByteTokenizer(), limits, room=9, special=True)
        out = [answer.push(token) for token in (ord("a"), BOS, EOS)]
        assert answer.num_tokens == 2
        return out

    stop = Ended("stop")
    assert said(Limits()) == [("a", None), ("<s>", None), ("</s>", stop)]
    # It is text like any other: a stop string that it completes is cut.
    assert said(Limits(stop=("s></s>",)))[1:] == [("<", None), ("", Ended("stop", "s></s>"))]
    assert said(Limits(stop=("</s>!",)))[2] == ("</s>", stop)


def test_a_preserved_end_token_still_ends_and_says_nothing() -> None:
    answer = Answer(MockTokenizer(), Limits(), room=9, preserved={END_TOKEN})
    text, ended = answer.push(END_TOKEN)
    assert (text, ended) == ("", Ended("stop"))
