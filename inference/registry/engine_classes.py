"""Models of engine classes of the installation's own. Which code may run says the environment; an
administrator chooses among it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import transaction

from inference.models import ModelConfig
from inference.registry.config_services import config_added, model_config_add, name_check
from inference.registry.upstreams import ENGINE_CLASS as UPSTREAM
from llamaweb.lib.errors import InvalidError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

BUILT_IN: Final = ("llama", "mock", UPSTREAM)


def class_refusal(engine_class: str) -> str:
    """Why an engine class may not run here; "" if it may."""
    if engine_class in BUILT_IN or engine_class in settings.ENGINE_CLASSES:
        return ""
    return _refusal(engine_class)


def _refusal(engine_class: str) -> str:
    return f"the engine class {engine_class} isn't among LLAMAWEB_ENGINE_CLASSES"


def model_add(
    *,
    name: str,
    source: str,
    load: bool = False,
    actor: User | None = None,
    address: str | None = None,
) -> ModelConfig:
    """A model of a file that lies on this server, or of an engine class that the environment names.

    Raises:
        InvalidError: as `model_config_add`, `engine_model_add`.
    """
    if source in settings.ENGINE_CLASSES:
        return engine_model_add(
            name=name, engine_class=source, load=load, actor=actor, address=address
        )
    return model_config_add(name=name, path=source, load=load, actor=actor, address=address)


def engine_model_add(
    *,
    name: str,
    engine_class: str,
    load: bool = False,
    actor: User | None = None,
    address: str | None = None,
) -> ModelConfig:
    """A model of an engine class, which brings its own weights.

    Raises:
        InvalidError: the name can't be used, or the environment doesn't name that class.
    """
    if engine_class not in settings.ENGINE_CLASSES:
        raise InvalidError(_refusal(engine_class), param="engine_class")
    with transaction.atomic():
        name_check(name)
        config = ModelConfig.objects.create(
            name=name,
            engine_class=engine_class,
            wanted=ModelConfig.Wanted.LOADED if load else ModelConfig.Wanted.ON_DEMAND,
            num_slots=settings.ENGINE_SLOTS,
            threads=settings.ENGINE_THREADS,
        )
        return config_added(config, actor=actor, address=address, engine_class=engine_class)
