"""The table in docs/api.md says what templates get."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inference.edge.openai.messages import messages_of
from inference.edge.openai.schemas import MessageIn
from inference.protocol.requests import Message
from inference.text.capabilities import TemplateCapabilities
from inference.text.normalise import normalise

API = Path(__file__).resolve().parents[2] / "docs" / "api.md"
SECTION = API.read_text("utf-8").partition("## What a template gets")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (`.+`) \| ([^|`]+) \| (`.+`) \|$", SECTION, re.MULTILINE)
NO_TOOLS = TemplateCapabilities(
    system=True, later_system=True, role_runs=True, assistant_first=True
)
TOOLS = TemplateCapabilities(
    system=True, later_system=True, role_runs=True, assistant_first=True, tool_calls="object"
)
TEMPLATES = {
    "anything": TOOLS,
    "tool calls": TOOLS,
    "anything but tools": NO_TOOLS,
    "one system message": TemplateCapabilities(system=True, role_runs=True, assistant_first=True),
    "strict turns": TemplateCapabilities(),
}
CALL = {"id": "c1", "function": {"name": "clock", "arguments": "{}"}}


def sent(cell: str) -> list[MessageIn]:
    """The messages of a cell, as a client sends them."""
    out = []
    for role, content, called in re.findall(r"`(\w+): ?(.*?)( ?→ clock)?`", cell):
        text = content.replace("¶", "\n\n").replace("⏎", "\n")
        out.append(MessageIn(role=role, content=text, tool_calls=[CALL] if called else None))
    return out


def plain(messages: list[Message]) -> list[tuple[str, str, int]]:
    return [(m.role, m.content, len(m.tool_calls)) for m in messages]


def test_the_table_has_rows_for_each_kind_of_template() -> None:
    assert {template for _, template, _ in ROWS} == set(TEMPLATES)
    assert len(ROWS) == SECTION.count("\n| `")


@pytest.mark.parametrize(("chat", "template", "result"), ROWS)
def test_p01_p03_a_row(chat: str, template: str, result: str) -> None:
    made = normalise(messages_of(sent(chat)), TEMPLATES[template])
    assert plain(made) == plain(list(messages_of(sent(result))))
