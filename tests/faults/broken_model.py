"""An engine class that can't be loaded: its process ends before it was ready."""

from __future__ import annotations

import os
from typing import Any


def broken(_spec: Any) -> Any:
    """Dies as a library does."""
    os._exit(17)
