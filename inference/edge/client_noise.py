"""What clients write into system text for their own books, different with every request.

It would part each prompt from the one before at its first words, and nothing behind them could
come from the prompt cache.
"""

from __future__ import annotations

import re

# Claude Code's line of its version and a digest of the request.
_BILLING_RE = re.compile(r"^[ \t]*x-anthropic-billing-header:.*(?:\n|\Z)", re.MULTILINE)


def without_noise(text: str) -> str:
    """System text without such lines."""
    if "x-anthropic-billing-header:" not in text:
        return text
    return _BILLING_RE.sub("", text).lstrip("\n")
