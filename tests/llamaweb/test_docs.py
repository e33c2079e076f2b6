"""Generated tables are fresh, complete and found by their marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from llamaweb.docs_tables import (
    BEGIN,
    END,
    INSTRUMENTS,
    TABLES,
    metrics_table,
    settings_table,
    with_table,
)
from llamaweb.env import VARIABLES


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_the_file_is_fresh(path: Path) -> None:
    text = path.read_text()
    assert text == with_table(text, TABLES[path]()), "run: manage.py docs_settings"


def test_every_variable_and_metric_has_a_row() -> None:
    assert [row.split("`")[1] for row in settings_table().splitlines()[2:]] == [
        variable.name for variable in VARIABLES
    ]
    assert len(metrics_table().splitlines()) == len(INSTRUMENTS) + 2
    assert all(variable.help.endswith(".") for variable in VARIABLES)


def test_what_stands_around_the_table_stays() -> None:
    assert with_table(f"a\n{BEGIN}\nold\n{END}\nb", "new") == f"a\n{BEGIN}\nnew\n{END}\nb"
    with pytest.raises(ValueError, match="marks"):
        with_table("no marks", "new")
