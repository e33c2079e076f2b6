"""`/metrics` for Prometheus, behind a token of its own."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse


async def metrics(request: HttpRequest) -> HttpResponse:
    """Placeholder until instruments exist."""
    return HttpResponse(status=404)
