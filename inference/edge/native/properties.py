"""llama-server's view of the server itself: /props and /slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from inference.api import EngineSummary
from inference.edge.asking import SubmitContext, fingerprint
from inference.edge.native.settings import number_settings
from inference.edge.native.tokens import utility_fields
from inference.edge.utilities import utility_answer
from inference.protocol.params import SamplingParams
from inference.protocol.requests import DescribeRequest
from inference.protocol.results import DescribeResult
from inference.protocol.slot_uses import SlotUse, decode_slot_uses
from inference.queues.contract import SUPERVISOR_ID, EngineStatus
from inference.registry.model_cards import ModelCard
from inference.registry.selectors import ModelInfo
from llamaweb.lib.errors import InvalidError, NotSupportedError

Body = dict[str, Any]
# llama-server's names of what a template takes, by ours.
CAPABILITIES: Final = {
    "supports_typed_content": "typed_content",
    "supports_tools": "tools",
    "supports_tool_calls": "tool_calls",
    "supports_system_role": "system",
    "supports_object_arguments": "object_arguments",
}
NOTHING_DESCRIBED: Final = DescribeResult("")
UNKNOWN: Final = -1  # how many tokens a slot may still write is known to its engine only


async def props_body(card: ModelCard, engine: EngineSummary, context: SubmitContext | None) -> Body:
    """GET /props; `context` None: the model isn't in memory, stays where it is, and tells less."""
    info, facts = card.info, card.facts
    told = NOTHING_DESCRIBED if context is None else await _described(context)
    return {
        "default_generation_settings": {
            "params": number_settings(SamplingParams(**info.sampling)),
            "n_ctx": engine.max_context or (facts.context_len if facts is not None else 0),
        },
        "total_slots": info.num_slots,
        "model_alias": info.name,
        "model_path": info.name,  # where its file lies is nobody's business
        "model_ftype": facts.quantization if facts is not None else "",
        "modalities": {"vision": False, "video": False, "audio": False},
        "media_marker": "",
        "endpoint_slots": True,
        "endpoint_props": False,
        "endpoint_metrics": True,
        "cors_proxy_enabled": False,
        "ui": True,
        "ui_settings": {},
        "chat_template": told.chat_template,
        "chat_template_caps": _capabilities(told),
        "bos_token": told.bos_token,
        "eos_token": told.eos_token,
        "build_info": fingerprint(),
        "is_sleeping": not engine.ready,
    }


def slot_bodies(
    info: ModelInfo, engines: Sequence[EngineStatus], owner_key: str | None
) -> list[Body]:
    """GET /slots: all slots of a model's engines. What is done in one is told of those of
    `owner_key` only, None for all."""
    bodies: list[Body] = []
    for engine in engines:
        if engine.is_silent or engine.engine_id == SUPERVISOR_ID:
            continue
        uses = decode_slot_uses(engine.info.get("slots"))
        context = int(engine.info.get("max_context", 0))
        for use in (*uses, *[None] * (info.num_slots - len(uses))):
            body = {
                "id": len(bodies),
                "n_ctx": context,
                "speculative": False,
                "is_processing": use is not None,
            }
            if use is not None and owner_key in (None, use.owner_key):
                body |= _use_body(use)
            bodies.append(body)
    return bodies


async def _described(context: SubmitContext) -> DescribeResult:
    request = DescribeRequest(**utility_fields(context))
    try:
        return await utility_answer(request, DescribeResult)
    except (InvalidError, NotSupportedError):  # a template that can't be used, another server's
        return NOTHING_DESCRIBED


def _capabilities(told: DescribeResult) -> Body:
    can = {name: ours in told.capabilities for name, ours in CAPABILITIES.items()}
    return {"supports_string_content": not can["supports_typed_content"], **can}


def _use_body(use: SlotUse) -> Body:
    return {
        "n_prompt_tokens": use.prompt_tokens,
        "n_prompt_tokens_processed": max(0, use.done_tokens - use.cached_tokens),
        "n_prompt_tokens_cache": use.cached_tokens,
        "next_token": [
            {"has_next_token": True, "n_remain": UNKNOWN, "n_decoded": use.generated_tokens}
        ],
    }
