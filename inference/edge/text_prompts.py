"""Prompts that are no chats, in all forms: texts, token ids, both in one, and lists of them."""

from __future__ import annotations

from typing import Any, TypeAlias

from inference.protocol.requests import MixedPrompt, Prompt, TextPrompt, TokenPrompt
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

RawPrompt: TypeAlias = TextPrompt | TokenPrompt | MixedPrompt

MAX_CHOICES = 64  # prompts times answers to each
MAX_TEXT_PARTS = 1024  # of a prompt of ids and texts; each is tokenised by itself


def prompts_of(prompt: Any) -> list[Prompt]:
    """All prompts of a request: one text, one list with ids in it, or a list of such.

    Raises:
        InvalidError: `param` is the JSON path of the first that is none.
    """
    if prompt is None:
        raise InvalidError('"prompt" is required', param="prompt")
    if prompt == []:
        raise InvalidError('"prompt" must not be empty', param="prompt")
    is_many = is_list_of_prompts(prompt)
    items = prompt if is_many else [prompt]
    if len(items) > MAX_CHOICES:
        raise InvalidError(
            f"has {len(items)} prompts, at most {MAX_CHOICES} are allowed",
            param="prompt",
            bound="choices",
        )
    paths = [f"prompt[{i}]" if is_many else "prompt" for i in range(len(items))]
    return [_prompt(item, path) for item, path in zip(items, paths, strict=True)]


def is_list_of_prompts(prompt: Any) -> bool:
    """Whether it is a list of prompts, and not one prompt of token ids and texts."""
    return isinstance(prompt, list) and not any(map(_is_int, prompt))


def _prompt(item: Any, path: str) -> Prompt:
    if isinstance(item, dict) and isinstance(item.get("prompt_string"), str):
        if item.get("multimodal_data"):
            raise InvalidError(
                "Multimodal data provided, but model does not support multimodal requests.",
                param=f"{path}.multimodal_data",
            )
        item = item["prompt_string"]
    return prompt_of(item, path)


def prompt_of(item: Any, path: str) -> RawPrompt:
    """A text, token ids, or both in one list.

    Raises:
        InvalidError: `item`, which stands at `path`, is none of these.
    """
    if isinstance(item, str):
        return TextPrompt(valid_text(item))
    if isinstance(item, list) and item and all(_is_int(token) for token in item):
        return TokenPrompt(tuple(item))
    if isinstance(item, list) and item and all(_is_int(p) or isinstance(p, str) for p in item):
        return _mixed(item, path)
    raise InvalidError("must be text or a list of token ids and texts", param=path)


def _mixed(parts: list[int | str], path: str) -> MixedPrompt:
    num_texts = sum(isinstance(part, str) for part in parts)
    if num_texts > MAX_TEXT_PARTS:
        raise InvalidError(
            f"has {num_texts} texts between token ids, at most {MAX_TEXT_PARTS} are allowed",
            param=path,
        )
    return MixedPrompt(tuple(valid_text(p) if isinstance(p, str) else p for p in parts))


def _is_int(value: Any) -> bool:
    return type(value) is int
