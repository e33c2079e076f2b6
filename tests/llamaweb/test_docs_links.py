"""What the documents promise is there: a reason for each dependency, a target for each link."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK_RE = re.compile(r"\]\(([^)\s]+)\)")
CODE_RE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ROW_RE = re.compile(r"^\| `([^`]+)` \| \S", re.MULTILINE)
NAME_RE = re.compile(r"[A-Za-z0-9._-]+")


def heading_anchor(heading: str) -> str:
    """How a heading is linked to."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def direct_dependencies() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    package = json.loads((ROOT / "frontend" / "package.json").read_text())
    named = {NAME_RE.match(item)[0] for item in wanted}  # type: ignore[index]
    return named | set(package.get("dependencies", {})) | set(package["devDependencies"])


def test_each_direct_dependency_has_its_reason() -> None:
    rows = ROW_RE.findall((ROOT / "docs" / "dependencies.md").read_text())
    assert len(rows) == len(set(rows))
    assert set(rows) == direct_dependencies()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(document: Path) -> None:
    broken = []
    for link in LINK_RE.findall(CODE_RE.sub("", document.read_text())):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        if not target.exists() or not target.is_relative_to(ROOT):
            broken.append(link)
        elif anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            if anchor not in map(heading_anchor, headings):
                broken.append(link)
    assert broken == []


def test_the_readme_has_its_links() -> None:
    assert len(LINK_RE.findall((ROOT / "README.md").read_text())) > 10
