"""Texts that servers of this kind got wrong in public reports, through the whole engine."""

from __future__ import annotations

import pytest

from inference.protocol.events import Delta
from inference.protocol.params import Limits
from tests.engine.driving import ask, finished, make_engine, run_one, text_of

FRAMES = "data: x\n\n\r\u2028\u2029y"
BROKEN = b"\xf0 then text \xe6\xbc".decode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("reply", "stop", "said", "stopped_by"),
    [
        pytest.param("alpha beta gamma delta", "beta gamma", "alpha ", "beta gamma", id="T01"),
        pytest.param("really?\nno", "\n", "really?", "\n", id="T02"),
        pytest.param("a bee beta", "beta gamma", "a bee beta", None, id="T03"),
        pytest.param("ok 😺 漢字 é", "never", "ok 😺 漢字 é", None, id="T05"),
        pytest.param(BROKEN, "never", "\ufffd then text \ufffd", None, id="T06"),
        pytest.param(
            "data: x\n\n\r\u2028\u2029y", "z", "data: x\n\n\r\u2028\u2029y", None, id="T08"
        ),
    ],
)
def test_the_text_is_right_and_whole(
    reply: str, stop: str, said: str, stopped_by: str | None
) -> None:
    events = run_one(make_engine(reply), ask("a", limits=Limits(stop=(stop,))))
    texts = [event.text for event in events if isinstance(event, Delta)]
    assert "".join(texts) == text_of(events) == said
    assert all(text.encode() is not None for text in texts)  # valid by itself
    assert (finished(events).reason, finished(events).stop_string) == ("stop", stopped_by)
    if "\ufffd" not in said:
        assert not any("\ufffd" in text for text in texts)


def test_bad_bytes_hold_nothing_up() -> None:
    """T06: what follows a lone byte is shown with the next token, not at the end."""
    events = run_one(make_engine(BROKEN), ask("a"))
    texts = [event.text for event in events if isinstance(event, Delta) and event.text]
    assert texts[:3] == ["\ufffd ", "t", "h"]
