"""llama-server's own routes; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

from ninja import Router

router = Router(tags=["llama-server"])
