"""The index finds what a comparison with every holder finds, and media stay whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference.engine.prefix import CacheKey, Element, Media, Prefix, encode
from inference.engine.radix import RadixIndex

KEY = CacheKey("model")
CAT = Media("cat", num_tokens=3, num_pos=1)
LONG_CAT = Media("cat", num_tokens=4, num_pos=1)
DOG = Media("dog", num_tokens=2, num_pos=2)
elements = st.lists(st.sampled_from([0, 1, CAT, LONG_CAT, DOG]), min_size=1, max_size=8)
scopes = st.sampled_from(["alice", "bob"])
holdings = st.tuples(scopes, elements, st.integers(0, 12))


def cells(of: list[Element]) -> int:
    return sum(item.num_tokens if isinstance(item, Media) else 1 for item in of)


def public_cells(of: list[Element], public_len: int) -> int:
    """Whole elements within the first `public_len` cells."""
    return max(n for i in range(len(of) + 1) if (n := cells(of[:i])) <= public_len)


def expected(
    scope: str, asked: list[Element], public_len: int, held: tuple[str, list[Element], int]
) -> int:
    owner, content, content_public = held
    count = 0
    for left, right in zip(asked, content, strict=False):
        if left != right:
            break
        count += 1
    if owner == scope:
        return cells(asked[:count])
    most = min(public_len, public_cells(content, content_public))
    return max(n for i in range(count + 1) if (n := cells(asked[:i])) <= most)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.none() | holdings), max_size=20),
    scopes,
    elements,
    st.integers(0, 12),
)
def test_a_lookup_finds_what_a_comparison_finds(
    acts: list[tuple[int, tuple[str, list[Element], int] | None]],
    scope: str,
    asked: list[Element],
    public_len: int,
) -> None:
    index: RadixIndex[int] = RadixIndex()
    held: dict[int, tuple[str, list[Element], int]] = {}
    for holder, holding in acts:
        if holding is None:
            index.remove(holder)
            held.pop(holder, None)
        else:
            index.put(holder, KEY, holding[0], encode(holding[1]), holding[2])
            held[holder] = holding
    wanted = {
        holder: length
        for holder, holding in held.items()
        if (length := expected(scope, asked, public_len, holding))
    }
    assert index.match(KEY, scope, encode(asked), public_len) == wanted
    assert len(index) == len(held)
    for holder in held:
        index.remove(holder)
    assert index.num_nodes == 0


def test_another_key_is_another_world() -> None:
    index: RadixIndex[str] = RadixIndex()
    index.put("a", CacheKey("model", ((0, 1.0),)), "s", encode([1, 2, 3]), 3)
    assert index.match(CacheKey("model", ((0, 0.5),)), "s", encode([1, 2, 3]), 3) == {}
    assert index.match(CacheKey("other", ((0, 1.0),)), "s", encode([1, 2, 3]), 3) == {}
    assert index.match(CacheKey("model", ((0, 1.0),)), "t", encode([1, 2, 4]), 3) == {"a": 2}


def test_a_match_ends_before_media_that_are_cut() -> None:
    index: RadixIndex[str] = RadixIndex()
    index.put("a", KEY, "s", encode([1, CAT, 2]), 0)
    whole = encode([1, CAT, 2])
    assert index.match(KEY, "s", whole, 0) == {"a": 5}
    assert whole.inside is not None
    cut = Prefix(whole.codes[:3], whole.inside[:3])
    assert cut.whole(3) == 3  # the caller cuts before it asks
    assert whole.whole(3) == 1
    assert index.match(KEY, "s", encode([1, LONG_CAT, 2]), 0) == {"a": 1}


def test_equal_tails_are_joined_again() -> None:
    index: RadixIndex[str] = RadixIndex()
    index.put("a", KEY, "s", encode([1, 2, 3, 4]), 0)
    index.put("b", KEY, "s", encode([1, 2, 9]), 0)
    assert index.num_nodes == 3
    index.remove("b")
    assert index.num_nodes == 1
    assert index.match(KEY, "s", encode([1, 2, 3]), 0) == {"a": 3}
