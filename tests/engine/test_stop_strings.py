"""Text ends before a stop string, wherever tokens are cut."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.protocol.params import Limits
from inference.text.stop_strings import Released, StopStrings
from tests.engine.driving import ask, finished, make_engine, run_one, text_of


def feed(stops: list[str], pieces: list[str]) -> tuple[list[str], str | None]:
    """Released texts, the held rest included, and the stop string that matched."""
    matcher = StopStrings(stops)
    texts = []
    for piece in pieces:
        released = matcher.push(piece)
        texts.append(released.text)
        if released.stop_string is not None:
            return texts, released.stop_string
    return [*texts, matcher.flush()], None


def test_a_stop_string_over_several_tokens() -> None:
    texts, stop = feed(["beta gamma"], ["alpha", " be", "ta ga", "mma", " delta"])
    assert "".join(texts) == "alpha "
    assert stop == "beta gamma"
    assert texts == ["alpha", " ", "", ""]


def test_text_before_the_stop_inside_one_token_is_kept() -> None:
    assert feed(["\n"], ["really", "?\n"]) == (["really", "?"], "\n")


def test_a_partial_match_that_fails_is_released_once_and_in_order() -> None:
    texts, stop = feed(["beta gamma"], ["a be", "e", " be", "ta"])
    assert stop is None
    assert texts == ["a ", "bee", " ", "", "beta"]


def test_the_first_complete_stop_wins_and_the_longest_of_a_tie() -> None:
    assert feed(["bc", "abc", "b"], ["xabc"]) == (["xa"], "b")
    assert feed(["bc", "abc"], ["xabc"]) == (["x"], "abc")


def test_a_stop_inside_another_one() -> None:
    assert feed(["abcd", "bc"], ["xab", "c"]) == (["x", "a"], "bc")
    assert feed(["abcd", "bce"], ["xab", "ce"]) == (["x", "a"], "bce")


def test_many_long_stops_cost_little() -> None:
    """Everything runs in the engine's loop, where other users' tokens wait for it.

    Trying every beginning of every stop string for each token takes minutes here.
    """
    stops = [*(f"{index:02}{'a' * 1000}" for index in range(63)), f"{'a' * 1000}!"]
    matcher = StopStrings(stops)
    started_ts = time.monotonic()
    text = "".join(matcher.push("aaaa").text for _ in range(10_000))
    assert text == "a" * 39_000
    assert matcher.push("!") == Released("", stops[-1])
    assert time.monotonic() - started_ts < 20


def test_what_was_given_out_completes_nothing() -> None:
    matcher = StopStrings(["abc"])
    assert matcher.push("xab") == Released("x")
    assert matcher.flush() == "ab"
    assert matcher.push("c") == Released("c")


def test_empty_stop_strings_mean_nothing() -> None:
    assert feed(["", ""], ["abc"]) == (["abc", ""], None)


def reference(stops: list[str], text: str) -> tuple[str, str | None]:
    """Character by character, by definition."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if ending:
            longest = max(ending, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
    st.lists(st.text("abc", max_size=4), max_size=12),
)
def test_the_cuts_never_matter(stops: list[str], pieces: list[str]) -> None:
    texts, stop = feed(stops, pieces)
    assert ("".join(texts), stop) == reference(stops, "".join(pieces))


@given(st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.text("abc", max_size=20))
def test_nothing_is_held_that_can_be_shown(stops: list[str], text: str) -> None:
    matcher = StopStrings(stops)
    shown = ""
    for length, char in enumerate(text, start=1):
        released = matcher.push(char)
        shown += released.text
        if released.stop_string is not None:
            return
        held = text[len(shown) : length]
        assert not held or any(stop.startswith(held) and stop != held for stop in stops)


@pytest.mark.parametrize("limits", [Limits(stop=("wor",)), Limits(stop=("worst", "wor"))])
def test_the_engine_stops_before_it(limits: Limits) -> None:
    events = run_one(make_engine("hello world"), ask("a", limits=limits))
    assert text_of(events) == "hello "
    assert (finished(events).reason, finished(events).stop_string) == ("stop", "wor")


def test_an_end_token_releases_what_was_held() -> None:
    events = run_one(make_engine("hello wor"), ask("a", limits=Limits(stop=("world",))))
    assert text_of(events) == "hello wor"
    assert finished(events).stop_string is None


def test_a_limit_releases_what_was_held() -> None:
    limits = Limits(stop=("world",), max_tokens=8)
    events = run_one(make_engine("hello world"), ask("a", limits=limits))
    assert text_of(events) == "hello wo"
    assert finished(events).reason == "length"
