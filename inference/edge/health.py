"""`/health`: whether an engine can answer now. Public, and cheap enough to be asked often."""

from __future__ import annotations

import structlog
from django.db import DatabaseError
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from inference import api
from inference.edge.errors import error_body
from llamaweb.lib.errors import LlamawebError

RETRY_AFTER_S = 1
log = structlog.get_logger(__name__)


@csrf_exempt  # so that a wrong method is told so
async def health(request: HttpRequest) -> JsonResponse:
    """200 `{"status":"ok"}` while an engine is ready or a request would have one loaded; else 503
    with the reason."""
    if request.method not in ("GET", "HEAD"):
        return JsonResponse(error_body(405, "use GET"), status=405, headers={"Allow": "GET, HEAD"})
    try:
        summary = await api.engine_status()
        is_ready, reason = summary.ready or summary.on_demand, summary.reason
    except LlamawebError as error:
        is_ready, reason = False, error.message
    except DatabaseError:
        log.warning("health_without_database", exc_info=True)
        is_ready, reason = False, "the database can't be used"
    if is_ready:
        return JsonResponse({"status": "ok"}, headers={"Cache-Control": "no-store"})
    body = error_body(503, "Loading model", reason=reason)
    headers = {"Cache-Control": "no-store", "Retry-After": str(RETRY_AFTER_S)}
    return JsonResponse(body, status=503, headers=headers)
