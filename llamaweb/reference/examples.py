"""Requests that work: one for each route that takes a body, shown in the description.

A test sends each of them.
"""

from __future__ import annotations

from typing import Any, Final

Body = dict[str, Any]

_MESSAGES: Final = [{"role": "user", "content": "Name three colours."}]
_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]

# By path: none of them has two methods that take a body.
EXAMPLES: Final[dict[str, Body]] = {
    "/v1/chat/completions": {
        "messages": [{"role": "system", "content": "Be brief."}, *_MESSAGES],
        "max_tokens": 64,
        "temperature": 0.7,
        "tools": _TOOLS,
    },
    "/v1/chat/completions/control": {"id": "chatcmpl-0", "action": "reasoning_end"},
    "/v1/chat/completions/input_tokens": {"messages": _MESSAGES},
    "/v1/completions": {"prompt": "Once upon a time", "max_tokens": 32},
    "/v1/responses": {"input": "Name three colours.", "max_output_tokens": 64, "store": False},
    "/v1/responses/input_tokens": {"input": "Name three colours."},
    "/v1/embeddings": {"input": ["a cat", "a dog"]},
    "/v1/rerank": {"query": "pets", "documents": ["a cat", "a bridge"], "top_n": 1},
    "/v1/streams/lookup": {"conversation_ids": ["my-conversation"]},
    "/v1/messages": {"model": "default", "max_tokens": 64, "messages": _MESSAGES},
    "/v1/messages/count_tokens": {"model": "default", "messages": _MESSAGES},
    "/api/chat": {"model": "default", "messages": _MESSAGES, "stream": False},
    "/api/generate": {"model": "default", "prompt": "Name three colours.", "stream": False},
    "/api/embed": {"model": "default", "input": ["a cat", "a dog"]},
    "/api/embeddings": {"model": "default", "prompt": "a cat"},
    "/api/show": {"model": "default"},
    "/completion": {"prompt": "Once upon a time", "n_predict": 32},
    "/infill": {"input_prefix": "def add(a, b):\n    ", "input_suffix": "\n", "n_predict": 32},
    "/tokenize": {"content": "Hello, world", "with_pieces": True},
    "/detokenize": {"tokens": [72, 105]},
    "/apply-template": {"messages": _MESSAGES},
    "/embedding": {"content": "a cat"},
    "/rerank": {"query": "pets", "texts": ["a cat", "a bridge"]},
}
