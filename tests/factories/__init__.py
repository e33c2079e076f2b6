"""Rows for tests, with sensible defaults; ask for what the test is about, leave out the rest."""

from __future__ import annotations

from tests.factories.accounts import ApiKeyFactory, UserFactory, make_key

__all__ = ["ApiKeyFactory", "UserFactory", "make_key"]
