"""The Responses routes of the OpenAI family; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

from ninja import Router

router = Router(tags=["responses"])
