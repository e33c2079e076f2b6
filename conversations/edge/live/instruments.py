"""What is measured about live connections; docs/metrics.md is made from this too."""

from __future__ import annotations

from typing import Final, Literal

from prometheus_client import Counter

from llamaweb.lib.instrument import PREFIX, Instrument

Transport = Literal["socket", "sse"]

OPENED: Final = Instrument(
    f"{PREFIX}_live_opened_total", "counter", "Live connections that began.", ("transport",)
)
CLOSED: Final = Instrument(
    f"{PREFIX}_live_closed_total",
    "counter",
    "Live connections that ended, by close code; opened less closed are there now.",
    ("transport", "code"),
)
REFUSED: Final = Instrument(
    f"{PREFIX}_live_refused_total",
    "counter",
    "What live connections were refused, by the bound's name.",
    ("bound",),
)
HELD: Final = Instrument(
    f"{PREFIX}_live_held_total",
    "counter",
    "Frames that waited because the client had too much unacknowledged.",
    (),
)

INSTRUMENTS: Final[tuple[Instrument, ...]] = (OPENED, CLOSED, REFUSED, HELD)


def _counter(of: Instrument) -> Counter:
    return Counter(of.name, of.help, of.labels)


_opened = _counter(OPENED)
_closed = _counter(CLOSED)
_refused = _counter(REFUSED)
_held = _counter(HELD)


def count_opened(transport: Transport) -> None:
    """A live connection began."""
    _opened.labels(transport).inc()


def count_closed(transport: Transport, code: int) -> None:
    """It ended; `code` as the client sees it, 1006 when it just went away."""
    _closed.labels(transport, str(code)).inc()


def count_refused(bound: str) -> None:
    """A bound was reached; `bound` is a name from our code."""
    _refused.labels(bound).inc()


def count_held() -> None:
    """A frame waited for acknowledgements."""
    _held.inc()
