"""Prompts for models that fill a gap: what stands around it, between the vocabulary's marks.

Unlike other prompts these are cut: the nearer to the gap a text stands, the longer it is kept. Half
the context at most, and no more than `WINDOW_LEN` tokens, is for the file with the gap, three
quarters of it for what stands before; other files get the rest, but for the answer's room.
"""

from __future__ import annotations

from collections.abc import Sequence

from inference.protocol.requests import InfillFile, InfillPrompt
from inference.text.tokenizer import InfillTokens, Tokenizer
from llamaweb.lib.errors import NotSupportedError

WINDOW_LEN = 2048
NUM_MARKS = 8  # more than the tokens that are neither text nor a file's name
MAX_PIECE_CHARS = 128  # no longer text is looked at than so much for each token it may have
REPOSITORY, FILE = "repository\n", "file\n"  # nobody says how the user's are called
SNIPPET = "\n\n--- snippet ---\n\n"  # between files, where the vocabulary has no mark for one


def infill_tokens(
    prompt: InfillPrompt, tokenizer: Tokenizer, *, max_context: int, max_tokens: int | None
) -> tuple[int, ...]:
    """The prompt for a context of `max_context` tokens and an answer of `max_tokens`; marks that
    stand in the texts are text.

    Raises:
        NotSupportedError: the vocabulary can't mark a gap.
        TooLongError: what was begun in the gap doesn't fit by itself.
    """
    marks = tokenizer.infill_tokens
    if marks is None:
        raise NotSupportedError(
            "Infill is not supported by this model: its vocabulary has no tokens for a prefix, a "
            "suffix and what is between them"
        )
    window = min(WINDOW_LEN, max_context // 2)
    begun = tokenizer.tokenize(prompt.begun, add_special=False, parse_special=False, as_prompt=True)
    prefix = _last(tokenizer, prompt.prefix, window * 3 // 4)
    suffix = _first(tokenizer, prompt.suffix, max(0, window // 4 - 2 - len(begun)))
    answer = max_context // 4 if max_tokens is None else 2 * max_tokens
    extra = _extra(tokenizer, marks, prompt.extra, max_context - window - answer - NUM_MARKS)
    return (
        *_begin(tokenizer),
        *extra,
        marks.prefix,
        *prefix,
        *begun,
        marks.suffix,
        *suffix,
        marks.middle,
    )


def _extra(
    tokenizer: Tokenizer, marks: InfillTokens, files: Sequence[InfillFile], room: int
) -> list[int]:
    """The other files, and the name of the one with the gap, in `room` tokens."""
    head = [] if marks.repository is None else [marks.repository, *_plain(tokenizer, REPOSITORY)]
    tail = [] if marks.file is None else [marks.file, *_plain(tokenizer, FILE)]
    room -= len(head) + len(tail)
    found: list[int] = []
    for file in reversed(files):
        if len(found) >= room:
            break
        separator = SNIPPET if marks.file is None else f"{file.name}\n"
        mark = [] if marks.file is None else [marks.file]
        text = _last(tokenizer, file.text, room)
        found = [*mark, *_plain(tokenizer, separator), *text, *found]
    return [*head, *found[max(0, len(found) - max(0, room)) :], *tail]


def _begin(tokenizer: Tokenizer) -> list[int]:
    """The beginning-of-text token, where the model wants one."""
    added = tokenizer.tokenize("", add_special=True, parse_special=False)[:1]
    bos = tokenizer.bos_token.encode()
    return [token for token in added if bos and tokenizer.piece(token, special=True) == bos]


def _last(tokenizer: Tokenizer, text: str, length: int) -> list[int]:
    if length <= 0:
        return []
    return _plain(tokenizer, text[-length * MAX_PIECE_CHARS :])[-length:]


def _first(tokenizer: Tokenizer, text: str, length: int) -> list[int]:
    return _plain(tokenizer, text[: length * MAX_PIECE_CHARS])[:length]


def _plain(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.tokenize(text, add_special=False, parse_special=False)
