"""The text of a model's chat template."""

from __future__ import annotations

from collections.abc import Collection

from inference.registry.model_access import access_models
from inference.registry.selectors import config_resolve


def chat_template_for(user_id: int, name: str | None, only: Collection[str] = ()) -> str:
    """Of the model that a user's `name` means, "" where nobody knows one.

    Raises:
        NotFoundError: there is no such model for them, among those of `access_models`.
        UnavailableError: there is none at all.
    """
    configs = access_models(user_id, only).select_related("file")
    config = config_resolve(configs, name)
    if config.chat_template or config.file is None:
        return config.chat_template
    return str(config.file.templates.get("", ""))
