"""Routes that compute vectors and scores; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

from ninja import Router

router = Router(tags=["embeddings"])
