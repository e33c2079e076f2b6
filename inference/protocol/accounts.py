"""Who has to answer for a request, as it travels with it: numbers and a name, no identity.

The queue keeps the text with the generation and hands it back with its end; it looks into nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Account:
    """`user_id`; `key_id` of the API key, 0 without one; `family`: the API that was called."""

    user_id: int
    key_id: int = 0
    family: str = ""

    def text(self) -> str:
        """The form in which it travels."""
        return f"{self.user_id}:{self.key_id}:{self.family}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """The account in `text`, None if there is none."""
        parts = text.split(":", 2)
        if len(parts) != 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
            return None
        return cls(int(parts[0]), int(parts[1]), parts[2])
