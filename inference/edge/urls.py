"""Addresses without an API family: liveness and metrics."""

from __future__ import annotations

from django.urls import path

from inference.edge.health import health
from inference.edge.metrics import metrics

urlpatterns = [
    path("health", health),
    path("v1/health", health),
    path("metrics", metrics),
]
