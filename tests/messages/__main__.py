"""`make messages`: bring the catalogues up to date, compile them, and say what is untranslated."""

from __future__ import annotations

import sys

from tests.messages.catalogue import (
    LANGUAGES,
    mo_bytes,
    mo_path,
    po_bytes,
    po_path,
    untranslated,
    updated,
)


def main() -> int:
    """1 when a text has no translation yet."""
    num_missing = 0
    for language in LANGUAGES:
        catalog = updated(language)
        po_path(language).write_bytes(po_bytes(catalog))
        mo_path(language).write_bytes(mo_bytes(catalog))
        missing = untranslated(catalog)
        num_missing += len(missing)
        for text in missing:
            print(f"{language}: no translation: {text!r}")
    return 1 if num_missing else 0


if __name__ == "__main__":
    sys.exit(main())
