"""Which answer format a chat template stands for: by the markers that it writes or explains."""

from __future__ import annotations

import functools
from dataclasses import replace

from inference.text.answer import families as f
from inference.text.answer.families import AnswerFormat
from inference.text.answer.reasoning_tags import REASONING_TAGS

# The first whose texts all stand in the template. What is special comes before what is common:
# many templates have `<tool_call>`.
RULES: tuple[tuple[tuple[str, ...], AnswerFormat], ...] = (
    (("<|channel|>analysis<|message|>",), f.HARMONY),
    (("<|open|>", "<|sep|>"), f.KIMI_K3),
    (("｜DSML｜",), f.DEEPSEEK_DSML),
    (("<｜tool▁call▁begin｜>",), f.DEEPSEEK_V3),
    (("<|tool_call_argument_begin|>",), f.KIMI_K2),
    (("<|tool_call>call:",), f.GEMMA4),
    (("<|START_ACTION|>",), f.COMMAND_R7B),
    (("Action:", "tool_name"), f.COMMAND_R),
    (("<minimax:tool_call>",), f.MINIMAX_M2),
    (("]<]minimax[>[",), f.GENERIC),  # M3: arguments as nested elements, which nothing here reads
    (("<seed:tool_call>",), f.SEED_OSS),
    (("<arg_key{}>",), f.HUNYUAN),
    (("<arg_key>",), f.GLM),
    (("<function=", "<parameter="), f.QWEN3_CODER),
    ((">>>all",), f.FUNCTIONARY_V32),
    (("<function=", "</function>"), f.FUNCTIONARY_V31),
    (("[TOOL_CALLS]",), f.MISTRAL),
    (("<|tool_call:begin|>",), f.SOLAR),
    (("<TOOLCALL>",), f.NEMOTRON_NANO_V2),
    (("<|tools_prefix|>",), f.APERTUS),
    (("<|tool_list_start|>",), f.LFM2),
    (("<|tool_call_start|>",), f.LFM2),
    (("functools[",), f.FIREFUNCTION),
    (("<|role_sep|>", "function call"), f.GIGACHAT),
    (("<|function_call|>",), f.GIGACHAT),
    (("<tool_calls>",), f.TOOL_CALLS_TAG),
    (("<|tool_call|>",), f.GRANITE),
    (("<tool_call>",), f.HERMES),
    (("<|python_tag|>",), f.LLAMA),
    (("<|python_start|>",), f.LLAMA),
    (("<|start_header_id|>ipython",), f.LLAMA),
    (("<|header_start|>ipython",), f.LLAMA),
)


@functools.lru_cache(16)
def answer_format(template: str) -> AnswerFormat:
    """How answers to prompts of `template` are written; `GENERIC` where it shows no tools."""
    form = next((form for texts, form in RULES if all(t in template for t in texts)), f.GENERIC)
    if form.reasoning or form.is_harmony:
        return form
    tags = next((t for t in REASONING_TAGS if t.opener in template or t.closer in template), None)
    return replace(form, reasoning=tags)
