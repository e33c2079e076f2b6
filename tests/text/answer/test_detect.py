"""Formats chosen by the text of chat templates that models really have."""

from __future__ import annotations

import pytest

from inference.text.answer.families import FAMILIES
from inference.text.chat_template import ChatTemplate, RenderJob
from tests.sdist import chat_template, llama_models
from tests.text.answer.answers import format_of

THINK = "<think>"
# Each of llama.cpp's templates: the family, and what opens reasoning.
TEMPLATES = {
    "Apertus-8B-Instruct": ("apertus", "<|inner_prefix|>"),
    "Apriel-1.6-15b-Thinker-fixed": ("tool-calls-tag", "Here are my reasoning steps:\n"),
    "Bielik-11B-v3.0-Instruct": ("hermes", THINK),
    "ByteDance-Seed-OSS": ("seed-oss", "<seed:think>"),
    "Cohere2MoE": ("command-r7b", "<|START_THINKING|>"),
    "CohereForAI-c4ai-command-r-plus-tool_use": ("command-r", None),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": ("command-r7b", "<|START_THINKING|>"),
    "GLM-4.6": ("glm", THINK),
    "GLM-4.7-Flash": ("glm", THINK),
    "GigaChat3-10B-A1.8B": ("gigachat-3", None),
    "GigaChat3.1-10B-A1.8B": ("gigachat-3", None),
    "HuggingFaceTB-SmolLM3-3B": ("generic", THINK),
    "Kimi-K2-Instruct": ("kimi-k2", None),
    "Kimi-K2-Thinking": ("kimi-k2", THINK),
    "Kimi-K3": ("kimi-k3", "<|open|>think<|sep|>"),
    "LFM2-8B-A1B": ("lfm2", None),
    "LFM2.5-8B-A1B": ("lfm2", THINK),
    "LFM2.5-Instruct": ("generic", THINK),
    "MiMo-VL": ("hermes", None),
    "MiniMax-M1": ("tool-calls-tag", None),
    "MiniMax-M2": ("minimax-m2", THINK),
    "MiniMax-M3": ("generic", "<mm:think>"),
    "Mistral-Small-3.2-24B-Instruct-2506": ("mistral", None),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": ("qwen3-coder", THINK),
    "NVIDIA-Nemotron-Nano-v2": ("nemotron-nano-v2", THINK),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": ("hermes", None),
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": ("hermes", None),
    "Qwen-QwQ-32B": ("hermes", THINK),
    "Qwen-Qwen2.5-7B-Instruct": ("hermes", None),
    "Qwen-Qwen3-0.6B": ("hermes", THINK),
    "Qwen3-Coder": ("qwen3-coder", None),
    "Qwen3.5-4B": ("qwen3-coder", THINK),
    "Reka-Edge": ("hermes", THINK),
    "Spark2.5": ("glm", THINK),
    "StepFun3.5-Flash": ("qwen3-coder", THINK),
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": ("deepseek-v3", THINK),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": ("deepseek-v3", THINK),
    "deepseek-ai-DeepSeek-V3.1": ("deepseek-v3", THINK),
    "deepseek-ai-DeepSeek-V3.2": ("deepseek-dsml", THINK),
    "deepseek-ai-DeepSeek-V4": ("deepseek-dsml", THINK),
    "deepseek-ai-DeepSeek-V4-Flash-0731": ("deepseek-dsml", THINK),
    "fireworks-ai-llama-3-firefunction-v2": ("firefunction", None),
    "google-gemma-2-2b-it": ("generic", None),
    "google-gemma-4-31B-it": ("gemma-4", "<|channel>thought\n"),
    "google-gemma-4-31B-it-interleaved": ("gemma-4", "<|channel>thought\n"),
    "ibm-granite-granite-3.3-2B-Instruct": ("granite", THINK),
    "ibm-granite-granite-4.0": ("hermes", None),
    "ibm-granite-granite-4.1": ("hermes", None),
    "inclusionai-ling-3.0-flash": ("glm", THINK),
    "llama-cpp-deepseek-r1": ("deepseek-v3", THINK),
    "llama-cpp-rwkv-world": ("generic", THINK),
    "meetkai-functionary-medium-v3.1": ("functionary-v3.1", None),
    "meetkai-functionary-medium-v3.2": ("functionary-v3.2", None),
    "meta-llama-Llama-3.1-8B-Instruct": ("llama", None),
    "meta-llama-Llama-3.2-3B-Instruct": ("llama", None),
    "meta-llama-Llama-3.3-70B-Instruct": ("llama", None),
    "microsoft-Phi-3.5-mini-instruct": ("generic", None),
    "mistralai-Ministral-3-14B-Reasoning-2512": ("mistral", "[THINK]"),
    "mistralai-Mistral-Nemo-Instruct-2407": ("mistral", None),
    "moonshotai-Kimi-K2": ("kimi-k2", None),
    "muse-glimmer": ("generic", None),
    "openai-gpt-oss-120b": ("gpt-oss", None),
    "openbmb-MiniCPM5-1B": ("generic", THINK),
    "poolside-Laguna-S-2.1": ("glm", THINK),
    "poolside-Laguna-XS-2.1": ("glm", THINK),
    "poolside-Laguna-XS.2": ("glm", THINK),
    "tencent-Hy3": ("hunyuan-3", "<think:opensource>"),
    "unsloth-Apriel-1.5": ("tool-calls-tag", "Here are my reasoning steps:\n"),
    "unsloth-mistral-Devstral-Small-2507": ("mistral", None),
    "upstage-Solar-Open-100B": ("solar-open", "<|think|>"),
}
# What the prompt of a template leaves open, with and without thinking.
OPENED = {
    "llama-cpp-deepseek-r1": ("<think>\n", "<think>\n"),
    "Qwen-QwQ-32B": ("<think>\n", ""),
    "Qwen-Qwen3-0.6B": ("", ""),
    "Qwen3.5-4B": ("<think>\n", ""),
    "GLM-4.6": ("", ""),
    "GLM-4.7-Flash": ("<think>", ""),
    "MiniMax-M2": ("<think>\n", "<think>\n"),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": ("<think>\n", ""),
    "Kimi-K3": ("<|open|>think<|sep|>", "<|open|>think<|sep|>"),
    "Apriel-1.6-15b-Thinker-fixed": (
        "Here are my reasoning steps:\n",
        "Here are my reasoning steps:\n",
    ),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": ("", ""),
    "google-gemma-4-31B-it": ("", ""),
    "meetkai-functionary-medium-v3.2": (">>>", ">>>"),
    "openai-gpt-oss-120b": ("", ""),
}


def test_no_template_is_left_out() -> None:
    assert set(TEMPLATES) == {p.stem for p in (llama_models() / "templates").glob("*.jinja")}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_tells_its_format(name: str) -> None:
    form = format_of(name)

    opener = form.reasoning.opener if form.reasoning else None
    assert (form.family, opener) == TEMPLATES[name]


def test_every_family_is_some_template_s() -> None:
    assert {family for family, _ in TEMPLATES.values()} == set(FAMILIES)


@pytest.mark.parametrize("thinks", [True, False])
@pytest.mark.parametrize("name", OPENED)
def test_a_prompt_tells_what_it_leaves_open(name: str, thinks: bool) -> None:
    template = ChatTemplate(chat_template(name), bos_token="<s>", eos_token="</s>")
    prompt = template.render(
        RenderJob([{"role": "user", "content": "Hi <think>"}], None, {"enable_thinking": thinks})
    )

    assert format_of(name).opened_by(prompt) == OPENED[name][0 if thinks else 1]


def test_a_question_that_ends_with_a_tag_opens_nothing() -> None:
    prompt = "<|im_start|>user\nWhat is <think><|im_end|>\n<|im_start|>assistant\n"

    assert format_of("Qwen-Qwen3-0.6B").opened_by(prompt) == ""


@pytest.mark.parametrize("name", TEMPLATES)
def test_markers_name_every_text_that_the_parser_looks_for(name: str) -> None:
    """What may be a special token must be kept visible for the parser to see it."""
    form = format_of(name)

    for opener in form.calls_by_opener:
        assert opener in form.markers
    if form.reasoning:
        assert form.reasoning.closer.strip() in form.markers
    assert all(marker for marker in form.markers)
