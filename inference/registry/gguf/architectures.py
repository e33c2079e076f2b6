"""What llama.cpp knows of an architecture and files don't say."""

from __future__ import annotations

from typing import Final

# A state of constant size a layer instead of keys and values.
RECURRENT: Final = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
# Some layers have one, some the other; a layer without KV heads is recurrent.
HYBRID: Final = frozenset(
    {"jamba", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "kimi-linear", "kimi-k3"}
    | {"bailingmoe3", "glm5-next", "nemotron_h", "nemotron_h_moe"}
)
# Every n-th layer attends, the others are recurrent.
INTERVAL: Final = {
    "qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "qwen4exp": 4, "minimax-01": 8,
}  # fmt: skip
BOTH: Final = frozenset({"falcon-h1"})  # every layer has both
# A layer without KV heads is recurrent only if it has no feed-forward part either.
FEED_FORWARD_APART: Final = frozenset({"nemotron_h", "nemotron_h_moe"})

# Every n-th layer sees everything, the others a window; whether the first or the last of n does.
WINDOWS: Final = {
    "afmoe": (4, False), "cohere2": (4, False), "cohere2moe": (4, True), "exaone-moe": (4, False),
    "exaone4": (4, False), "gemma-embedding": (6, False), "gemma2": (2, False),
    "gemma3": (6, False), "gemma3n": (5, False), "laguna": (4, True), "llama4": (4, False),
    "mellum": (4, False), "modern-bert": (3, True), "muse-glimmer": (4, False),
    "olmo2": (4, False), "gpt-oss": (2, False), "plamo3": (8, False), "smallthinker": (4, True),
}  # fmt: skip
WINDOW_LENS: Final = {"gemma2": 4096, "llama4": 8192, "exaone-moe": 128}  # where a file is silent
SHARED_KV_FROM: Final = {"gemma3n": 20}  # later layers read what earlier ones keep

# They read a text and say what it means; they write none.
ENCODERS: Final = frozenset(
    {"bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2"}
    | {"jina-bert-v3", "eurobert", "gemma-embedding", "t5encoder", "llama-embed"}
)
DIFFUSION: Final = frozenset({"dream", "llada", "llada-moe", "rnd1"})
SPEECH: Final = frozenset({"wavtokenizer-dec", "qwen3tts", "pockettts"})
PAIRED: Final = frozenset({"t5"})  # an encoder beside the decoder
DRAFTS: Final = frozenset({"eagle3", "dflash", "gemma4-assistant"})
