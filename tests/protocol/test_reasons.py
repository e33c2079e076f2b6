"""Who may not know of a model doesn't learn its name from what others wait for."""

from __future__ import annotations

from inference.protocol.reasons import (
    NO_REASON,
    Other,
    Reason,
    reason,
    reason_info,
    reason_read,
)

WAITS = reason("model b waits: ", Other("a/x"), " is loading, ", Other("c"), " is pinned")


def test_others_are_named_to_whom_may_know_of_all_of_them() -> None:
    named = "model b waits: a/x is loading, c is pinned"
    assert WAITS.text == WAITS.told_to({"a/x", "b", "c"}) == named
    hidden = "model b waits: another model is loading, another model is pinned"
    assert WAITS.told_to({"b", "c"}) == WAITS.told_to(()) == WAITS.hidden == hidden


def test_what_names_nobody_is_told_to_everybody() -> None:
    assert reason("model b is ", "loading").told_to(()) == "model b is loading"
    assert not NO_REASON
    assert NO_REASON.told_to(()) == ""


def test_heartbeats_carry_it() -> None:
    for why in (WAITS, reason("model b is loading"), NO_REASON):
        assert reason_read(reason_info(why)) == why
    assert reason_read({"reason": "no such file"}) == Reason("no such file", "no such file")
