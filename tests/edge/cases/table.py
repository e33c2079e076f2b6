"""The reported cases that an API can be asked, and which families can't say one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.edge.cases.families import FAMILIES

NO_MESSAGES: Final = "its prompt is a text, without messages and roles"
NO_TOOLS: Final = "nothing can be called: it takes no tools"
_RAW: Final = ("text", "native", "generate")
_NO_MESSAGES: Final = dict.fromkeys(_RAW, NO_MESSAGES)
_NO_TOOLS: Final = dict.fromkeys(_RAW, NO_TOOLS)

# By number: the families that can't say it, and why.
CASES: Final[Mapping[str, Mapping[str, str]]] = {
    "T01": {},
    "T02": {},
    "T03": {},
    "T05": {},
    "T06": {},
    "T08": {},
    "T10": {},
    "T11": {},
    "P01": _NO_MESSAGES,
    "P03": _NO_MESSAGES,
    "P04": _NO_MESSAGES,
    "P06": {},
    "P07": {},
    "P08": {},
    "P11": {},
    "P13": {},
    "P14": {},
    "S01": {**_NO_TOOLS, "ollama": "there is no way to ask that a tool is called"},
    "S03": _NO_TOOLS,
    "S04": {},
    "S05": {},
    "S06": {},
    "S09": _NO_TOOLS,
    "S11": dict.fromkeys(("text", "native"), "what a raw prompt is answered isn't taken apart"),
}
# Cases of text before or behind a stop string within its token, which takes longer tokens than the
# mock engine's bytes, and where those are shown: on the engine and on the starter model.
_ON_ENGINES: Final = ("tests/engine/test_reported_texts.py", "tests/model/test_reported_texts.py")
LONGER_TOKENS: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys(("T01", "T02"), _ON_ENGINES)
# Cases of the product that are no API's, and where each is shown.
ELSEWHERE: Final[Mapping[str, str]] = {
    "C12": "tests/faults/test_swap.py",
    "C14": "tests/registry/test_six_shards.py",
}


def each(*numbers: str, only: tuple[str, ...] = ()) -> Any:
    """Run a test with every family that can say the cases; `only`: with those of them."""
    said_by = [f for f in FAMILIES if not any(f.name in CASES[number] for number in numbers)]
    return pytest.mark.parametrize(
        "family", [f for f in said_by if not only or f.name in only], ids=str
    )
