"""Routes of the OpenAI family (see the next commit)."""

from __future__ import annotations

from ninja import Router

router = Router()
