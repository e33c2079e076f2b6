"""Reading model configs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from django.db.models import Case, IntegerField, Q, QuerySet, Value, When

from inference.models import MODEL_NAME_LEN, ModelConfig
from inference.registry.chat_defaults import ChatDefaults, variables_of
from inference.registry.model_access import access_models
from llamaweb.lib.errors import NotFoundError, UnavailableError, WrongModelError

Task: TypeAlias = Literal["answers", "embedding", "reranking"]  # what a model is made for
INSTEAD: Final[dict[Task, str]] = {
    "answers": "writes answers",
    "embedding": "turns texts into vectors",
    "reranking": "rates texts",
}
DEFAULT_NAMES = ("", "default")  # what clients send that have nothing to choose
MAX_SHOWN_CHARS = 100  # of a caller's text in a message
SERVED = (ModelConfig.Wanted.LOADED, ModelConfig.Wanted.ON_DEMAND)  # requests for them may wait


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model as callers see it. `created`: seconds since the epoch. `is_demo`: the tiny one that
    comes along, to begin with. `is_loaded`: an engine runs or will for it, so requests may wait.
    `num_adapters`: requests name them 0..num_adapters-1. `sampling`: its defaults, by the names of
    `SamplingParams`; `chat`: those of chats. `task`: what it is made for; one that writes answers
    makes vectors, too."""

    name: str
    created: int
    num_slots: int
    engine_class: str
    is_demo: bool = False
    is_loaded: bool = True
    num_adapters: int = 0
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)
    chat: ChatDefaults = field(default_factory=ChatDefaults)
    task: Task = "answers"

    @property
    def can_end_reasoning(self) -> bool:
        """Whether its engine can be told to; servers of others can't."""
        return self.engine_class != "upstream"


def model_info(config: ModelConfig) -> ModelInfo:
    """The one mapper from row to contract."""
    return ModelInfo(
        name=config.name,
        created=int(config.created_at.timestamp()),
        num_slots=config.num_slots,
        engine_class=config.engine_class,
        is_demo=config.is_starter and config.engine_class == "llama" and not config.model_path,
        is_loaded=config.wanted in SERVED,
        num_adapters=len(config.adapters),
        aliases=tuple(config.aliases),
        tags=tuple(config.tags),
        sampling=config.sampling,
        chat=chat_defaults(config),
        task=task_of(config),
    )


def task_of(config: ModelConfig) -> Task:
    """What the header of its file says; answers where nobody has read one."""
    purpose = config.file.facts.get("purpose") if config.file is not None else None
    if purpose == "embedding" or purpose == "reranking":
        return purpose  # type: ignore[no-any-return]
    return "answers"


def refuse_other_task(info: ModelInfo, task: Task) -> None:
    """Raises WrongModelError where a model is made for something else; whether one that writes
    answers can rate texts too is for its engine to say."""
    if info.task != task and info.task != "answers":
        raise WrongModelError(f"model {info.name} {INSTEAD[info.task]}; it can't be used for this")


def chat_defaults(config: ModelConfig) -> ChatDefaults:
    """What chats with it get that say nothing themselves."""
    variables = variables_of(
        config.template_kwargs,
        thinking=config.thinking,
        reasoning_effort=config.reasoning_effort,
    )
    return ChatDefaults(config.system_prompt, variables)


def not_loaded(name: str) -> str:
    """What is said of a model that an administrator has unloaded."""
    return f"model {name} is not loaded"


def model_list() -> list[ModelInfo]:
    """All enabled models, the default one first."""
    return [model_info(config) for config in _with_files(in_order(_enabled()))]


def model_list_for(user_id: int, only: Collection[str] = ()) -> list[ModelInfo]:
    """As `model_list`, those of `access_models`."""
    return [model_info(config) for config in _with_files(in_order(access_models(user_id, only)))]


def model_resolve(name: str | None) -> ModelInfo:
    """The model that `name`, or an alias, means; nothing or "default" means the default one.

    Raises:
        NotFoundError: there is no such model.
        UnavailableError: no model is configured at all.
    """
    return model_info(config_resolve(_enabled(), name))


def model_resolve_for(user_id: int, name: str | None, only: Collection[str] = ()) -> ModelInfo:
    """As `model_resolve`, among those of `access_models`: without a name the first of these, where
    they may not use the default one.

    Raises:
        NotFoundError: there is no such model for them.
        UnavailableError: there is none at all.
    """
    return model_info(config_resolve(access_models(user_id, only), name))


def config_resolve(configs: QuerySet[ModelConfig], name: str | None) -> ModelConfig:
    """The row among `configs` that `name` means; raises as `model_resolve`."""
    configs = _with_files(configs)
    if name is None or name in DEFAULT_NAMES:
        config = configs.filter(is_default=True).first()  # mostly the first in order: asked plainly
        if config is None or task_of(config) != "answers":
            config = in_order(configs).first()
        if config is None:
            raise UnavailableError("no model is configured yet")
        return config
    found = _named(configs, name) if _may_be_name(name) else None
    if found is None:
        raise NotFoundError(f"the model {name[:MAX_SHOWN_CHARS]!r} does not exist")
    return found


def in_order(configs: QuerySet[ModelConfig]) -> QuerySet[ModelConfig]:
    """The default one first, models that write no answers last."""
    is_other = Case(
        When(Q(file__facts__purpose__in=("embedding", "reranking")), then=Value(1)),
        default=Value(0),
        output_field=IntegerField(),
    )
    return configs.order_by(is_other, "-is_default", "name")


def _with_files(configs: QuerySet[ModelConfig]) -> QuerySet[ModelConfig]:
    """With what `task_of` looks at, and without the long texts beside it."""
    return configs.select_related("file").defer("file__templates", "file__template_facts")


def _enabled() -> QuerySet[ModelConfig]:
    return ModelConfig.objects.filter(is_enabled=True)


def _named(configs: QuerySet[ModelConfig], name: str) -> ModelConfig | None:
    config = configs.filter(name=name).first()
    if config is not None:
        return config
    return next((row for row in configs.exclude(aliases=[]) if name in row.aliases), None)


def _may_be_name(name: str) -> bool:
    """Whether a database can be asked for it: PostgreSQL takes no NUL."""
    return len(name) <= MODEL_NAME_LEN and "\0" not in name
