"""Where a long text may be cut so that its pieces tokenise to the tokens of the whole.

llama.cpp first finds special tokens and then tokenises what lies between them, each part by itself.
It finds them in time quadratic in their number, so a text with many is given to it in pieces that
end behind a special token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# Special tokens in one piece: cut behind the first that may be cut behind, at last behind any.
MIN_SPECIALS = 256
MAX_SPECIALS = 4096
# Longer ones aren't looked for: a text that is allowed can't hold enough of them to matter.
MAX_SPECIAL_BYTES = 128


class SpecialCuts:
    """The special tokens of a vocabulary, as UTF-8; `stripping`: those that eat the white space
    behind them, where no piece may end.

    A token is clean when no other can overlap it but from inside. Longer tokens are found first, so
    a clean one is found wherever it stands, in a whole text and in a piece alike: pieces that end
    behind clean tokens are exact. Vocabularies with runs of white space as tokens have others too;
    only where `MAX_SPECIALS` of these follow each other is a cut made that may change tokens, never
    the text they stand for.
    """

    def __init__(self, texts: Iterable[bytes], stripping: Iterable[bytes] = ()) -> None:
        known = {text for text in texts if 0 < len(text) <= MAX_SPECIAL_BYTES}
        self._pattern = re.compile(_trie_pattern(known)) if known else None
        self.clean = _clean(known, self._pattern) - set(stripping) if self._pattern else set()

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """`data` in order and whole; one empty piece for no data. Lazy."""
        start = count = 0
        for match in self._pattern.finditer(data) if self._pattern else ():
            count += 1
            if count >= MAX_SPECIALS or (count >= MIN_SPECIALS and match[0] in self.clean):
                yield data[start : match.end()]
                start, count = match.end(), 0
        if start < len(data) or not data:
            yield data[start:]


def _trie_pattern(texts: set[bytes]) -> bytes:
    """A pattern of all texts, longest first, that looks at each byte of a text once."""
    tails: dict[bytes, set[bytes]] = {}
    for text in texts - {b""}:
        tails.setdefault(text[:1], set()).add(text[1:])
    if not tails:
        return b""
    ways = [re.escape(head) + _trie_pattern(tails[head]) for head in sorted(tails)]
    if b"" in texts:
        return b"(?:" + b"|".join(ways) + b")?"
    return ways[0] if len(ways) == 1 else b"(?:" + b"|".join(ways) + b")"


def _clean(texts: set[bytes], pattern: re.Pattern[bytes]) -> set[bytes]:
    heads = {text[:end] for text in texts for end in range(1, len(text))}
    tails = {text[start:] for text in texts for start in range(1, len(text))}
    inside = {
        match[0]
        for text in texts
        for start in range(1, len(text))
        if (match := pattern.match(text, start))
    }
    return {
        text
        for text in texts - heads - tails - inside
        if not any(text[start:] in heads or text[:start] in tails for start in range(1, len(text)))
    }
