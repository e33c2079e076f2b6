"""Each text of Django's side has a German translation, also in what Django reads."""

from __future__ import annotations

import pytest
from babel.messages.mofile import read_mo
from django.utils import translation

from tests.messages.catalogue import (
    LANGUAGES,
    mo_path,
    pairs,
    source_catalog,
    translated,
    untranslated,
)

HOW = "run `make messages` and translate what it names in locale/"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_catalogue_has_the_texts_of_the_sources(language: str) -> None:
    found, kept = pairs(source_catalog(language)), pairs(translated(language))
    assert sorted(map(str, found.keys() - kept.keys())) == [], f"not in the catalogue: {HOW}"
    assert sorted(map(str, kept.keys() - found.keys())) == [], f"not in the sources: {HOW}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_untranslated(language: str) -> None:
    assert untranslated(translated(language)) == [], HOW


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compiled_catalogue_is_the_same(language: str) -> None:
    with mo_path(language).open("rb") as stream:
        assert pairs(read_mo(stream)) == pairs(translated(language)), HOW


@pytest.mark.parametrize("language", LANGUAGES)
def test_placeholders_survive(language: str) -> None:
    for message in translated(language):
        for error in message.check():
            pytest.fail(f"{message.id!r}: {error}")


def test_django_reads_it() -> None:
    with translation.override("de"):
        assert translation.gettext("Back to the chat") == "Zurück zum Chat"
