"""Every protocol value survives the codec; nothing else gets through."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from inference.protocol.codec import (
    DecodeError,
    decode_event,
    decode_request,
    decode_snapshot,
    encode_event,
    encode_request,
    encode_snapshot,
    from_plain,
    to_plain,
)
from inference.protocol.events import (
    Delta,
    Entry,
    Event,
    Finished,
    Result,
    Started,
    Unknown,
    Usage,
    is_terminal,
)
from inference.protocol.fold import EMPTY, fold
from inference.protocol.requests import EngineRequest, GenerateRequest, TextPrompt
from inference.protocol.results import CountResult
from inference.protocol.spec import EngineSpec, MockSpec, decode_spec, encode_spec
from tests.protocol import strategies as s

REQUEST = GenerateRequest("g", "m", "user:1", "user:1", TextPrompt("hi"), 7, 1.0, 2.0)


@given(s.requests)
def test_requests_survive(request: EngineRequest) -> None:
    assert decode_request(encode_request(request)) == request


@given(s.events)
def test_events_survive(event: Event) -> None:
    assert decode_event(encode_event(event)) == event


@given(s.deltas)
def test_the_short_way_of_deltas_gives_the_same_text(delta: Delta) -> None:
    text = json.dumps(to_plain(delta), ensure_ascii=False, separators=(",", ":"))
    assert encode_event(delta) == text
    assert decode_event(text) == from_plain(Delta, to_plain(delta)) == delta


@pytest.mark.parametrize(
    "damage",
    [
        {"text": None},
        {"text": 1},
        {"token_ids": None},
        {"token_ids": [1, True]},
        {"token_ids": [1, 1.0]},
        {"draws": True},
        {"draws": "1"},
        {"draws": None},
        {"kind": "shout"},
    ],
)
def test_a_damaged_delta_is_refused(damage: dict[str, object]) -> None:
    plain = json.loads(encode_event(Delta("hi", (1, 2), 3)))
    with pytest.raises(DecodeError):
        decode_event(json.dumps({**plain, **damage}))


LATER = {"later": [{"t": "Thing", "x": 1}], "version": 9}  # fields of a later version


@given(s.events)
def test_unknown_fields_of_events_are_ignored(event: Event) -> None:
    assert decode_event(json.dumps({**to_plain(event), **LATER})) == event


def test_unknown_fields_inside_are_ignored_too() -> None:
    plain = to_plain(Finished("stop", Usage(1, 2)))
    plain["usage"].update(LATER)
    assert decode_event(json.dumps(plain)) == Finished("stop", Usage(1, 2))
    plain = to_plain(Result(CountResult(3)))
    plain["result"].update(LATER)
    assert decode_event(json.dumps(plain)) == Result(CountResult(3))


def test_an_event_of_an_unknown_kind_is_no_error() -> None:
    event = decode_event('{"t":"Thought","depth":3}')
    assert event == Unknown("Thought")
    assert not is_terminal(event)


@pytest.mark.parametrize("text", ['{"t":null}', '{"t":1}', '{"text":"a"}', "[]"])
def test_an_event_without_a_kind_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        decode_event(text)


def test_unknown_fields_of_snapshots_are_ignored() -> None:
    snapshot = fold(EMPTY, [Entry(0, Started(3, 1))])
    plain = {**to_plain(snapshot), **LATER}
    plain["started"].update(LATER)
    assert decode_snapshot(json.dumps(plain)) == snapshot


def test_specs_stay_strict() -> None:
    plain = to_plain(EngineSpec("m", "e", "unix:///x", "p:"))
    with pytest.raises(DecodeError, match="has no"):
        decode_spec(json.dumps({**plain, "later": 1}))


@given(s.deltas, s.terminals)
def test_snapshots_survive(delta: Delta, terminal: Event) -> None:
    entries = [Entry(0, Started(3, 1)), Entry(1, delta), Entry(2, terminal)]
    snapshot = fold(EMPTY, entries)
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


def test_specs_survive() -> None:
    spec = EngineSpec(
        "m", "e", "unix:///x", "p:", tensor_split=(0.5, 0.5), mock=MockSpec("hi", 2.0)
    )
    assert decode_spec(encode_spec(spec)) == spec


def test_defaults_are_not_written_but_the_version_is() -> None:
    plain = json.loads(encode_request(REQUEST))
    assert plain["version"] == 1
    assert "lane" not in plain


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 2},
        {"version": None},
        {"seed": "7"},
        {"seed": True},
        {"unknown": 1},
        {"lane": "express"},
        {"prompt": {"t": "os.system"}},
        {"prompt": None},
        {"t": "Started"},
    ],
)
def test_what_is_not_of_this_version_is_refused(damage: dict[str, object]) -> None:
    plain = {**json.loads(encode_request(REQUEST)), **damage}
    with pytest.raises(DecodeError):
        decode_request(json.dumps(plain))


@pytest.mark.parametrize("missing", ["version", "seed", "prompt", "t"])
def test_missing_fields_are_refused(missing: str) -> None:
    plain = json.loads(encode_request(REQUEST))
    del plain[missing]
    with pytest.raises(DecodeError):
        decode_request(json.dumps(plain))


@pytest.mark.parametrize("text", ["", "[", "null", "[" * 100_000, '{"t":"Delta"}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        decode_event(text)


def test_infinite_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_request(GenerateRequest("g", "m", "o", "c", TextPrompt("hi"), 7, float("inf"), 2.0))
