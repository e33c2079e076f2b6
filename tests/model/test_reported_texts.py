"""The reported texts of `tests/engine/test_reported_texts.py` on a real vocabulary, whose tokens
begin and end anywhere in words, and within characters."""

from __future__ import annotations

import pytest

from inference.engine.engine import Engine
from inference.protocol.events import Delta, Event
from inference.protocol.params import Grammar, Limits, SamplingParams
from tests.engine.driving import GREEDY, finished, ids_of, run_one, text_of
from tests.model.conftest import AskChat

pytestmark = pytest.mark.model

ASK = "Write a short poem about the sea."
LENGTH = Limits(max_tokens=24)
FRAMES = "data: x\n\n\r\u2028\u2029y"
UNICODE = "ok 😺 漢字 é"


def shown(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Delta)]


def quoted(text: str) -> str:
    """A grammar of just `text`."""
    return "root ::= " + " ".join(f"[\\U{ord(char):08X}]" for char in text)


def test_no_byte_of_a_stop_string_is_said_wherever_it_begins(
    engine: Engine, ask_chat: AskChat
) -> None:
    """T01, T02: stop strings that begin and end within tokens, cut out of what the model says."""
    whole = text_of(run_one(engine, ask_chat("whole", ASK, sampling=GREEDY, limits=LENGTH)))
    assert len(whole) > 60
    for start, length in ((7, 12), (11, 1), (20, 9), (33, 15), (50, 2)):
        stop = whole[start : start + length]
        limits = Limits(max_tokens=24, stop=(stop,))
        events = run_one(engine, ask_chat(f"from{start}", ASK, sampling=GREEDY, limits=limits))
        assert text_of(events) == whole.partition(stop)[0]
        assert (finished(events).reason, finished(events).stop_string) == ("stop", stop)


def test_a_stop_that_never_comes_holds_nothing_back(engine: Engine, ask_chat: AskChat) -> None:
    """T03: beginnings of the stop string come again and again, each is shown once."""
    whole = text_of(run_one(engine, ask_chat("whole", ASK, sampling=GREEDY, limits=LENGTH)))
    stops = tuple(whole[start : start + 6] + "\0" for start in range(0, 60, 7))
    limits = Limits(max_tokens=24, stop=stops)
    events = run_one(engine, ask_chat("held", ASK, sampling=GREEDY, limits=limits))
    assert text_of(events) == whole
    assert finished(events).stop_string is None


@pytest.mark.parametrize("text", [UNICODE, FRAMES], ids=["T05", "T08"])
def test_characters_of_several_tokens_come_whole(
    engine: Engine, ask_chat: AskChat, text: str
) -> None:
    sampling = SamplingParams(temperature=0.0, grammar=Grammar(quoted(text)))
    events = run_one(engine, ask_chat("a", ASK, sampling=sampling))
    assert text_of(events) == text
    assert len(ids_of(events)) > len(text.split())
    assert all("\ufffd" not in chunk for chunk in shown(events))


def test_bytes_that_are_no_character_hold_nothing_up(engine: Engine, ask_chat: AskChat) -> None:
    """T06: a model that says nothing but the first byte of a character."""
    tokenizer = engine._backend.tokenizer
    token = next(n for n in range(tokenizer.vocab_len) if tokenizer.piece(n) == b"\xf0")
    sampling = SamplingParams(temperature=0.0, logit_bias=((token, 1000.0),))
    limits = Limits(max_tokens=4)
    events = run_one(engine, ask_chat("a", ASK, sampling=sampling, limits=limits))
    assert shown(events) == ["", "\ufffd", "\ufffd", "\ufffd\ufffd"]
