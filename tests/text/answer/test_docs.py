"""The table of families in docs/api.md says what is read, and what it was tested on."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from canitoolcall.fixtures import load_fixtures

from inference.text.answer.families import FAMILIES
from tests.text.answer.recorded import format_for

API = Path(__file__).resolve().parents[3] / "docs" / "api.md"
ROW = re.compile(r"^\| `([^`]+)` \|.*\| ([^|]+) \|$", re.MULTILINE)


def test_the_table_names_every_family_and_its_recorded_outputs() -> None:
    section = API.read_text("utf-8").partition("## Families of models")[2].partition("\n## ")[0]
    recorded = Counter(format_for(fixture).family for fixture in load_fixtures())

    told = dict(ROW.findall(section))

    assert set(told) == set(FAMILIES)
    for family, number in told.items():
        assert number == (str(recorded[family]) if recorded[family] else "none: untested"), family
