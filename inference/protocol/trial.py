"""What the supervisor asks a trial child on its standard input, and what that answers: JSON both
ways, one line back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from inference.protocol.codec import DecodeError, from_plain, to_plain
from inference.protocol.spec import EngineSpec

T = TypeVar("T")
Setting: TypeAlias = Literal["threads", "flash_attention", "kv_unified", "ubatch_len"]
Outcome: TypeAlias = Literal[
    "taken",
    "outdone",  # better than what there was, but another value of the setting was better still
    "no_gain",  # not far enough above what there was, in one repeat at least
    "no_time",
    "failed",  # this model or this machine can't do it
]


@dataclass(frozen=True, slots=True)
class Choice:
    """What a measurement decides. `flash_attention` "on", "off", or "auto": llama.cpp's choice."""

    threads: int
    flash_attention: str
    kv_unified: bool
    ubatch_len: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens a second: of a prompt, of one sequence that decodes, of all slots together. 0: not
    measured."""

    prefill: float = 0.0
    decode_one: float = 0.0
    decode_all: float = 0.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One candidate against what was best before. `gains`: its score over the other's, a repeat
    each."""

    setting: Setting
    value: str
    outcome: Outcome
    gains: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """What came out of a measurement; both rates are medians. `duration_s`: what it took."""

    default: Choice
    choice: Choice
    default_rates: Rates = Rates()
    rates: Rates = Rates()
    attempts: tuple[Attempt, ...] = ()
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """Load and compute once; then measure the settings in `open`, which nobody has decided,
    for about `budget_s`."""

    spec: EngineSpec
    open: tuple[Setting, ...] = ()
    budget_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TrialReport:
    """The model can be served. `measured`: None where nothing was to be measured."""

    measured: Measured | None = None


def encode_line(value: TrialOrder | TrialReport) -> str:
    """JSON text in one line."""
    return json.dumps(to_plain(value), allow_nan=False)


def decode_order(text: str | bytes) -> TrialOrder:
    """The order in `text`.

    Raises:
        DecodeError: not one.
    """
    return _decode(TrialOrder, text)


def decode_report(text: str | bytes) -> TrialReport:
    """The report in `text`.

    Raises:
        DecodeError: not one.
    """
    return _decode(TrialReport, text)


def _decode(cls: type[T], text: str | bytes) -> T:
    try:
        value = from_plain(cls, json.loads(text))
    except ValueError as error:
        raise DecodeError(str(error)) from error
    assert isinstance(value, cls)
    return value
