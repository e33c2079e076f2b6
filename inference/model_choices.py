"""Models as people choose among them: what each of them is, and how it stands now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from django.db.models import QuerySet

from inference.models import ModelConfig
from inference.protocol.reasons import NO_REASON, Reason, reason, reason_read
from inference.queues.contract import SUPERVISOR_ID, EngineStatus
from inference.registry.files import facts_of
from inference.registry.memory import DEFAULT_CONTEXT_LEN
from inference.registry.memory_plan import config_facts
from inference.registry.model_access import access_model_ids, access_models
from inference.registry.selectors import ModelInfo, in_order, model_info, not_loaded
from inference.text.answer.detect import answer_format
from inference.text.answer.families import GENERIC

Capability: TypeAlias = Literal["tools", "reasoning"]
State: TypeAlias = Literal[
    "loaded",  # an engine answers
    "loading",
    "unloaded",  # the next request has it loaded
    "draining",  # what runs ends, nothing more is taken
    "stopped",  # an administrator has unloaded it
    "failed",  # it can't be loaded, or what it asks can't be reached
    "unknown",  # nobody has told
]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model as its row and the files behind it describe it.

    `title`: its name in the file; `quantization` as there; `context_len`: tokens that one
    conversation will have. Each is "" or 0 where nobody knows. `capabilities`: what it was made
    for and can be asked here; an encoder of images beside it is of no use as yet.
    """

    info: ModelInfo
    title: str = ""
    quantization: str = ""
    context_len: int = 0
    capabilities: tuple[Capability, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelStand:
    """What its engines last said. `reason`: why it isn't loaded; `load_progress`: 0..1 while it is
    being loaded, where its engine tells; `max_context` in tokens, 0 before that."""

    state: State
    reason: Reason = NO_REASON
    load_progress: float | None = None
    max_context: int = 0


def model_choices_for(user_id: int) -> list[ModelChoice]:
    """Those that a user may use and that write answers; the first is what they get without a
    name."""
    return _choices(access_models(user_id))


def model_choices() -> list[ModelChoice]:
    """All enabled ones that write answers, whoever may use them, in the same order."""
    return _choices(ModelConfig.objects.filter(is_enabled=True))


def model_names_for(user_ids: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Names of the models that each of these users may use, in the order of their choices."""
    names = dict(in_order(ModelConfig.objects.all()).values_list("pk", "name"))
    return {
        user_id: tuple(name for pk, name in names.items() if pk in allowed)
        for user_id, allowed in access_model_ids(user_ids).items()
    }


def _choices(configs: QuerySet[ModelConfig]) -> list[ModelChoice]:
    rows = in_order(configs).select_related("file")
    return [choice for choice in map(model_choice, rows) if choice.info.task == "answers"]


def model_choice(config: ModelConfig) -> ModelChoice:
    """The one mapper from row to choice."""
    file = config.file
    facts = config_facts(config) if file is None else facts_of(file)
    context_len = config.context_len
    if facts is not None:
        asked = context_len or DEFAULT_CONTEXT_LEN
        context_len = min(asked, facts.context_len) if facts.context_len else asked
    return ModelChoice(
        model_info(config),
        title="" if facts is None else facts.name,
        quantization="" if facts is None else facts.quantization,
        context_len=context_len,
        capabilities=tuple(capabilities_of(config)),
    )


def capabilities_of(config: ModelConfig) -> Iterable[Capability]:
    """See `ModelChoice`."""
    file = config.file
    template = config.chat_template or ("" if file is None else str(file.templates.get("", "")))
    if _takes_tools(config, template):
        yield "tools"
    answers = answer_format(template)
    if answers.reasoning is not None or answers.is_harmony:
        yield "reasoning"


def _takes_tools(config: ModelConfig, template: str) -> bool:
    """Of the file's own template its rendering has shown it; another one has to name its calls."""
    if config.chat_template or config.file is None:
        return answer_format(template).family != GENERIC.family
    can = config.file.template_facts.get("can")
    return isinstance(can, dict) and can.get("tool_calls") is not None


def stand_of(info: ModelInfo, engines: Sequence[EngineStatus]) -> ModelStand:
    """How a model stands with these heartbeats."""
    heard = [engine for engine in engines if not engine.is_silent]
    ours = [engine for engine in heard if engine.engine_id != SUPERVISOR_ID]
    if not info.is_loaded:
        is_ending = any(engine.state in ("ready", "draining") for engine in ours)
        return ModelStand("draining" if is_ending else "stopped", reason(not_loaded(info.name)))
    for engine in ours:
        if engine.state == "ready":
            return ModelStand("loaded", max_context=int(engine.info.get("max_context", 0)))
    why = next((reason_read(e.info) for e in heard if e.info.get("reason")), NO_REASON)
    if any(engine.state == "draining" for engine in ours):
        return ModelStand("draining", why)
    if any(engine.state == "starting" and engine.info.get("reason") for engine in ours):
        return ModelStand("failed", why)  # it runs, but what it asks doesn't answer
    return _stand_before(info, (*ours, *heard), why)


def _stand_before(info: ModelInfo, heard: Sequence[EngineStatus], why: Reason) -> ModelStand:
    """Of a model that isn't in memory."""
    for engine in heard:  # the supervisor's says the same before an engine's first one
        if engine.state in ("loading", "starting"):
            doing = why or reason(f"model {info.name} is loading")
            return ModelStand("loading", doing, _load_progress(engine))
    if not heard:
        return ModelStand("unknown", reason("no engine has started yet"))
    is_rest = not why or any(engine.info.get("on_demand") for engine in heard)
    return ModelStand("unloaded" if is_rest else "failed", why)


def _load_progress(engine: EngineStatus) -> float | None:
    share = engine.info.get("load_progress")
    if isinstance(share, int | float) and 0 <= share <= 1:
        return float(share)
    return None
