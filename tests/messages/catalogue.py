"""Django's texts and their translations, without gettext's tools: what is in the sources, what is
in the catalogue, and bringing the two together.

Texts are found in Python files (gettext and its relatives) and in templates, which Django itself
turns into something that looks like Python.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parents[2]
APPS = ("llamaweb", "inference", "conversations", "tools_api", "frontend")
SKIPPED = ("migrations", "node_modules", "dist")
LANGUAGES = ("de",)
KEYWORDS = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
}

HEADER = """# Django's texts of llamaweb. `make messages` adds and removes; translations are ours.
msgid ""
msgstr ""
"Language: {language}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: {plural_forms}\\n"

"""


def po_path(language: str) -> Path:
    """The catalogue that people edit."""
    return ROOT / "locale" / language / "LC_MESSAGES" / "django.po"


def mo_path(language: str) -> Path:
    """The compiled one that Django reads; committed, so that nobody needs a tool."""
    return po_path(language).with_suffix(".mo")


def source_files() -> Iterator[Path]:
    """Python files and templates of all apps."""
    for app in APPS:
        for path in sorted((ROOT / app).rglob("*")):
            is_text = path.suffix == ".py" or ("templates" in path.parts and path.is_file())
            if is_text and not set(SKIPPED) & set(path.parts):
                yield path


def source_catalog(language: str) -> Catalog:
    """All texts of the sources, without translations."""
    found = Catalog(locale=language)
    for path in source_files():
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT).as_posix()
        if path.suffix != ".py":
            text = templatize(text, origin=name)
        lines = io.BytesIO(text.encode())
        for _line, message, comments, context in extract("python", lines, keywords=KEYWORDS):
            # Without line numbers: a moved line is no change of the catalogue.
            found.add(message, locations=[(name, None)], auto_comments=comments, context=context)
    return found


def translated(language: str) -> Catalog:
    """The catalogue as it is."""
    path = po_path(language)
    if not path.exists():
        return Catalog(locale=language)
    with path.open("rb") as stream:
        return read_po(stream, locale=language)


def updated(language: str) -> Catalog:
    """The catalogue with all texts of the sources, and only those; new ones are empty."""
    catalog = translated(language)
    catalog.update(source_catalog(language), no_fuzzy_matching=True, update_header_comment=False)
    catalog.obsolete.clear()
    return catalog


def po_bytes(catalog: Catalog) -> bytes:
    """As a .po file: always in the same order, without dates and tools in its header."""
    out = io.BytesIO()
    write_po(out, catalog, width=100, sort_output=True, omit_header=True)
    header = HEADER.format(language=catalog.locale, plural_forms=catalog.plural_forms)
    return header.encode() + out.getvalue()


def mo_bytes(catalog: Catalog) -> bytes:
    """As a .mo file."""
    out = io.BytesIO()
    write_mo(out, catalog)
    return out.getvalue()


def pairs(catalog: Catalog) -> dict[tuple[Any, Any], Any]:
    """Text and context → translation."""
    return {
        (_plain(message.id), message.context): _plain(message.string)
        for message in catalog
        if message.id
    }


def _plain(text: Any) -> Any:
    """A text with a plural is a list from one reader and a tuple from another."""
    return tuple(text) if isinstance(text, list) else text


def untranslated(catalog: Catalog) -> list[str]:
    """Texts without a (whole) translation."""
    missing = []
    for message in catalog:
        strings = message.string if isinstance(message.string, tuple | list) else (message.string,)
        if message.id and (message.fuzzy or not all(strings)):
            missing.append(str(message.id))
    return missing
