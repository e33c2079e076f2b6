"""Reading model configs."""

from __future__ import annotations

from dataclasses import dataclass

from inference.models import MODEL_NAME_LEN, ModelConfig
from llamaweb.lib.errors import NotFoundError, UnavailableError

DEFAULT_NAMES = ("", "default")  # what clients send that have nothing to choose
MAX_SHOWN_CHARS = 100  # of a caller's text in a message


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model as callers see it. `created`: seconds since the epoch. `is_demo`: the tiny one that
    comes along, to begin with. `is_loaded`: an engine is to run for it, so requests may wait.
    `num_adapters`: requests name them 0..num_adapters-1."""

    name: str
    created: int
    num_slots: int
    engine_class: str
    is_demo: bool = False
    is_loaded: bool = True
    num_adapters: int = 0


def model_info(config: ModelConfig) -> ModelInfo:
    """The one mapper from row to contract."""
    return ModelInfo(
        name=config.name,
        created=int(config.created_at.timestamp()),
        num_slots=config.num_slots,
        engine_class=config.engine_class,
        is_demo=config.is_starter and config.engine_class == "llama" and not config.model_path,
        is_loaded=config.wanted == ModelConfig.Wanted.LOADED,
        num_adapters=len(config.adapters),
    )


def not_loaded(name: str) -> str:
    """What is said of a model that an administrator has unloaded."""
    return f"model {name} is not loaded"


def model_list() -> list[ModelInfo]:
    """All enabled models, the default one first."""
    configs = ModelConfig.objects.filter(is_enabled=True).order_by("-is_default", "name")
    return [model_info(config) for config in configs]


def model_resolve(name: str | None) -> ModelInfo:
    """The model that `name` means; nothing or "default" means the default one.

    Raises:
        NotFoundError: there is no such model.
        UnavailableError: no model is configured at all.
    """
    configs = ModelConfig.objects.filter(is_enabled=True)
    if name is None or name in DEFAULT_NAMES:
        config = configs.order_by("-is_default", "name").first()
        if config is None:
            raise UnavailableError("no model is configured yet")
    else:
        config = configs.filter(name=name).first() if _may_be_name(name) else None
        if config is None:
            raise NotFoundError(f"the model {name[:MAX_SHOWN_CHARS]!r} does not exist")
    return model_info(config)


def _may_be_name(name: str) -> bool:
    """Whether a database can be asked for it: PostgreSQL takes no NUL."""
    return len(name) <= MODEL_NAME_LEN and "\0" not in name
