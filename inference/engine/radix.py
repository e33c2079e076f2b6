"""Who holds which prefix: a radix tree a space of sharing, found by elements.

Text lies in the tree of its own scope, and the server's own text also in the public tree. A lookup
sees those two trees and no other, so nobody can find what somebody else asked.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from inference.engine.prefix import CacheKey, Codes, Prefix

H = TypeVar("H", bound=Hashable)
Ids: TypeAlias = NDArray[np.signedinteger[Any]]
Space: TypeAlias = tuple[CacheKey, str | None]  # a scope's name; None: the public tree


class _Node(Generic[H]):
    """`edge` leads here from the parent; `holders` hold all of it, children's holders included."""

    __slots__ = ("children", "edge", "holders", "parent")

    def __init__(self, edge: Codes, parent: _Node[H] | None) -> None:
        self.edge = edge
        self.parent = parent
        self.children: dict[int, _Node[H]] = {}
        self.holders: set[H] = set()


class RadixIndex(Generic[H]):
    """`put` and `remove` come in pairs; a second `put` of a holder replaces the first."""

    def __init__(self) -> None:
        self._roots: dict[Space, _Node[H]] = {}
        self._leaves: dict[H, list[tuple[Space, _Node[H]]]] = {}

    def __contains__(self, holder: H) -> bool:
        return holder in self._leaves

    def __len__(self) -> int:
        return len(self._leaves)

    @property
    def num_nodes(self) -> int:
        """Nodes of all trees, roots not counted."""
        todo = list(self._roots.values())
        count = -len(todo)
        while todo:
            node = todo.pop()
            count += 1
            todo += node.children.values()
        return count

    def put(self, holder: H, key: CacheKey, scope: str, prefix: Prefix, public_len: int) -> None:
        """`holder` holds `prefix` now, of which the first `public_len` cells are everybody's."""
        self.remove(holder)
        if len(prefix.codes) == 0:
            return
        own: Space = (key, scope)
        leaves = [(own, self._insert(own, holder, prefix.codes))]
        public = prefix.codes[: prefix.whole(min(public_len, len(prefix.codes)))]
        if len(public):
            leaves.append(((key, None), self._insert((key, None), holder, public)))
        self._leaves[holder] = leaves

    def remove(self, holder: H) -> None:
        """Forget `holder`; unknown ones are ignored."""
        for space, leaf in self._leaves.pop(holder, ()):
            self._withdraw(leaf, holder)
            if not self._roots[space].children:
                del self._roots[space]

    def match(self, key: CacheKey, scope: str, prefix: Prefix, public_len: int) -> dict[H, int]:
        """Holders by the number of leading cells of `prefix` that may be taken from each."""
        public = prefix.codes[:public_len]
        found = self._walk((key, None), public)
        for holder, length in self._walk((key, scope), prefix.codes).items():
            found[holder] = max(length, found.get(holder, 0))
        return {h: whole for h, length in found.items() if (whole := prefix.whole(length))}

    def _walk(self, space: Space, codes: Codes) -> dict[H, int]:
        found: dict[H, int] = {}
        node = self._roots.get(space)
        depth = 0
        while node is not None and depth < len(codes):
            node = node.children.get(int(codes[depth]))
            if node is None:
                break
            common = common_len(node.edge, codes[depth:])
            depth += common
            found.update(dict.fromkeys(node.holders, depth))
            if common < len(node.edge):
                break
        return found

    def _insert(self, space: Space, holder: H, codes: Codes) -> _Node[H]:
        node = self._roots.get(space)
        if node is None:
            node = self._roots[space] = _Node(codes[:0], None)
        depth = 0
        while depth < len(codes):
            first = int(codes[depth])
            child = node.children.get(first)
            if child is None:
                child = node.children[first] = _Node(codes[depth:].copy(), node)
            else:
                common = common_len(child.edge, codes[depth:])
                if common < len(child.edge):
                    child = _split(child, common)
            child.holders.add(holder)
            depth += len(child.edge)
            node = child
        return node

    def _withdraw(self, leaf: _Node[H], holder: H) -> None:
        node = leaf
        while node.parent is not None:
            parent = node.parent
            node.holders.discard(holder)
            if not node.holders:
                del parent.children[int(node.edge[0])]
            elif len(node.children) == 1:
                self._join(node)
            node = parent

    def _join(self, node: _Node[H]) -> None:
        """Take the only child in, if nobody's prefix ends here."""
        (child,) = node.children.values()
        if child.holders != node.holders:
            return
        node.edge = np.concatenate((node.edge, child.edge))
        node.children = child.children
        for grandchild in node.children.values():
            grandchild.parent = node
        for holder in child.holders:
            leaves = self._leaves.get(holder, ())
            for index, (space, leaf) in enumerate(leaves):
                if leaf is child:
                    self._leaves[holder][index] = (space, node)


def common_len(left: Ids, right: Ids) -> int:
    """Length of the longest common prefix."""
    num = min(len(left), len(right))
    differs = left[:num] != right[:num]
    first = int(differs.argmax()) if num else 0
    return first if num and differs[first] else num


def _split(node: _Node[H], length: int) -> _Node[H]:
    """A new node over the first `length` cells of `node`'s edge; `node` keeps the rest."""
    parent = node.parent
    assert parent is not None
    head: _Node[H] = _Node(node.edge[:length], parent)
    head.holders = set(node.holders)
    parent.children[int(node.edge[0])] = head
    node.edge = node.edge[length:]
    node.parent = head
    head.children[int(node.edge[0])] = node
    return head
