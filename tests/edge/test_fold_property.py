"""Wherever deltas are cut and snapshots fall, the reply says the same; streamed or whole."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from inference.edge.openai.options import ReplyOptions, options_from_json, options_to_json
from inference.edge.openai.render import ChoiceRenderer, whole_reply
from inference.edge.steps import Begin, End, Piece, Step, Steps
from inference.protocol.events import Delta, DeltaKind, Entry, Event
from inference.protocol.fold import EMPTY, fold
from inference.protocol.requests import ReplyInfo
from tests.edge.events import STARTED, finished, logprobs

KINDS: tuple[DeltaKind, ...] = ("content", "reasoning")
TOKENS = st.lists(st.tuples(st.sampled_from(KINDS), st.text(max_size=3)), max_size=12)
CUTS = st.sets(st.integers(1, 12))


def log_of(tokens: Sequence[tuple[DeltaKind, str]], cuts: set[int]) -> list[Entry]:
    """A log whose deltas end at `cuts` and where the kind changes."""
    events: list[Event] = [STARTED]
    run: list[tuple[int, DeltaKind, str]] = []
    for index, (kind, text) in enumerate(tokens):
        if run and (index in cuts or run[-1][1] != kind):
            events.append(_delta(run))
            run = []
        run.append((index, kind, text))
    if run:
        events.append(_delta(run))
    return [Entry(seq, event) for seq, event in enumerate([*events, finished()])]


def _delta(run: list[tuple[int, DeltaKind, str]]) -> Delta:
    return Delta(
        "".join(text for _, _, text in run),
        tuple(index for index, _, _ in run),
        kind=run[0][1],
        logprobs=tuple(logprobs(str(index)) for index, _, _ in run),
    )


def feed_all(entries: Sequence[Entry]) -> list[Step]:
    steps = Steps()
    return [step for entry in entries for step in steps.feed(entry)]


def essence(steps: Sequence[Step]) -> tuple[object, ...]:
    """What must not depend on cuts: text of each kind, probabilities in order, begin and end."""
    pieces = [s for s in steps if isinstance(s, Piece)]
    assert all(piece.text for piece in pieces)
    ends = [s for s in steps if isinstance(s, End)]
    assert len(ends) == 1
    assert steps[-1] is ends[0]
    assert [type(s) for s in steps].count(Begin) == 1
    parts: list[tuple[str, str]] = []
    for piece in pieces:
        if parts and parts[-1][0] == piece.kind:
            parts[-1] = (piece.kind, parts[-1][1] + piece.text)
        else:
            parts.append((piece.kind, piece.text))
    probs = [p for piece in pieces for p in piece.logprobs] + list(ends[0].logprobs)
    return tuple(parts), tuple(probs), ends[0].reason, ends[0].usage


@given(tokens=TOKENS, one=CUTS, two=CUTS)
def test_cuts_of_deltas_dont_matter(
    tokens: list[tuple[DeltaKind, str]], one: set[int], two: set[int]
) -> None:
    assert essence(feed_all(log_of(tokens, one))) == essence(feed_all(log_of(tokens, two)))


@given(tokens=TOKENS, cuts=CUTS, seen=st.integers(0, 14), reset_at=st.integers(0, 14))
def test_a_snapshot_in_between_doesnt_matter(
    tokens: list[tuple[DeltaKind, str]], cuts: set[int], seen: int, reset_at: int
) -> None:
    log = log_of(tokens, cuts)
    seen = min(seen, len(log) - 1)
    reset_at = min(max(seen, reset_at), len(log))
    steps = Steps()
    got: list[Step] = [step for entry in log[:seen] for step in steps.feed(entry)]
    if reset_at:
        got += steps.reset(fold(EMPTY, log[:reset_at]))
    got += [step for entry in log[max(0, reset_at - 1) :] for step in steps.feed(entry)]
    assert essence(got) == essence(feed_all(log))


@given(tokens=TOKENS, cuts=CUTS)
def test_streamed_and_whole_say_the_same(
    tokens: list[tuple[DeltaKind, str]], cuts: set[int]
) -> None:
    choice = ChoiceRenderer(ReplyInfo("id", 1, "m", "f"), ReplyOptions(logprobs=True, top=2))
    chunks = [chunk for step in feed_all(log_of(tokens, cuts)) for chunk in choice.render(step)]
    body = whole_reply([choice], chunks)
    (whole,) = body["choices"]
    assert whole["message"]["content"] == "".join(t for k, t in tokens if k == "content")
    assert whole["message"].get("reasoning_content", "") == "".join(
        t for k, t in tokens if k == "reasoning"
    )
    assert len(whole["logprobs"]["content"]) == len(tokens)
    deltas = [c["delta"] for chunk in chunks for c in chunk["choices"]]
    assert deltas[0] == {"role": "assistant", "content": None}
    assert deltas[-1] == {}
    assert all(any(delta.values()) for delta in deltas[1:-1])


@given(
    st.builds(
        ReplyOptions,
        kind=st.sampled_from(["chat", "text"]),
        index=st.integers(0, 9),
        count=st.integers(1, 9),
        logprobs=st.booleans(),
        echo=st.text(max_size=3),
    )
)
def test_options_travel(options: ReplyOptions) -> None:
    assert options_from_json(options_to_json(options)) == options
