"""The addresses of the description; they need no key."""

from __future__ import annotations

from typing import Final

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from llamaweb.accounts.edge.replies import JSON_TYPE
from llamaweb.reference.document import ABOUT, api_document
from llamaweb.reference.page import groups_of

# The page has no script, and nothing from elsewhere.
POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
MAX_AGE_S: Final = 300


@require_safe
def openapi_json(request: HttpRequest) -> HttpResponse:
    """OpenAPI 3.1."""
    return HttpResponse(
        orjson.dumps(api_document()),
        content_type=JSON_TYPE,
        headers={"Cache-Control": f"max-age={MAX_AGE_S}"},
    )


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """The same as a page."""
    context = {"about": ABOUT, "groups": groups_of(api_document(), settings.PUBLIC_URL)}
    response = render(request, "llamaweb/reference/docs.html", context)
    response["Content-Security-Policy"] = POLICY
    response["Referrer-Policy"] = "same-origin"
    return response
