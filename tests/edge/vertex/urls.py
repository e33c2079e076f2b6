"""All addresses, and those of Vertex AI."""

from __future__ import annotations

from llamaweb import urls
from llamaweb.api import vertex_urls

ROUTES = ("/v1/endpoints/1:predict", "/ready")
urlpatterns = [*vertex_urls(ROUTES), *urls.urlpatterns]
