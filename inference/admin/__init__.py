"""Models, model files, generations and engines in the administration."""

from __future__ import annotations

from inference.admin.file_admin import ModelFileAdmin
from inference.admin.generation_admin import GenerationAdmin
from inference.admin.model_admin import ModelConfigAdmin
from inference.admin.upstream_admin import UpstreamAdmin

__all__ = ["GenerationAdmin", "ModelConfigAdmin", "ModelFileAdmin", "UpstreamAdmin"]
