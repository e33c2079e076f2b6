"""The tree of messages. Pure.

Every message has a number that is larger than its parent's, and a parent is never changed: a
cycle can't be said. Branches are paths; a leaf names the path that ends in it. Several first
messages are siblings too (somebody edited the very first one).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llamaweb.lib.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class Node:
    """A message's place. `number` rises with each message of a conversation."""

    id: str
    parent_id: str | None
    number: int


class TreeError(ValueError):
    """These nodes are no tree: our own fault, never a client's."""


class Tree:
    """A tree of living messages; a value: changes return another one.

    Every method that takes an id raises NotFoundError for one that isn't in the tree.
    """

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._nodes: dict[str, Node] = {}
        self._children: dict[str | None, list[Node]] = {}
        for node in sorted(nodes, key=lambda node: node.number):
            self._put(node)

    def _put(self, node: Node) -> None:
        if node.id in self._nodes:
            raise TreeError("two messages have one id")
        if node.number <= self.last_number:
            raise TreeError("a message's number must be larger than all before it")
        if node.parent_id is not None and node.parent_id not in self._nodes:
            raise TreeError("a message must come after its parent")
        self._nodes[node.id] = node
        self._children.setdefault(node.parent_id, []).append(node)

    @property
    def last_number(self) -> int:
        """The largest number; 0 in an empty tree."""
        return next(reversed(self._nodes.values())).number if self._nodes else 0

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self._nodes == other._nodes

    __hash__ = None  # type: ignore[assignment]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes by number."""
        return tuple(self._nodes.values())

    def get(self, node_id: str) -> Node:
        """The node of this id."""
        node = self._nodes.get(node_id)
        if node is None:
            raise NotFoundError("there is no such message")
        return node

    def with_node(self, node: Node) -> Tree:
        """This tree and one more message.

        Raises:
            TreeError: its number isn't the largest, or its parent isn't here.
        """
        return Tree([*self.nodes, node])

    def without_branch(self, node_id: str) -> Tree:
        """This tree without a message and all that follows it."""
        gone = set(self.branch(node_id))
        return Tree(node for node in self.nodes if node.id not in gone)

    def path(self, leaf_id: str | None) -> tuple[str, ...]:
        """Ids from the first message to `leaf_id`; nothing for None."""
        ids: list[str] = []
        at = leaf_id
        while at is not None:
            node = self.get(at)
            ids.append(node.id)
            at = node.parent_id
        return tuple(reversed(ids))

    def siblings(self, node_id: str) -> tuple[str, ...]:
        """Messages with the same parent, itself included, oldest first."""
        return tuple(node.id for node in self._children[self.get(node_id).parent_id])

    def position(self, node_id: str) -> tuple[int, int]:
        """The ‹2/5› of a message: its place among its siblings, from 1, and their number."""
        siblings = self.siblings(node_id)
        return siblings.index(node_id) + 1, len(siblings)

    def children(self, node_id: str | None) -> tuple[str, ...]:
        """What follows a message, oldest first; the first messages for None."""
        return tuple(node.id for node in self._children.get(node_id, ()))

    def branch(self, node_id: str) -> tuple[str, ...]:
        """A message and all that follows it, parents before children."""
        ids = [self.get(node_id).id]
        for at in ids:  # grows while it is walked
            ids.extend(self.children(at))
        return tuple(ids)

    def leaf_below(self, node_id: str) -> str:
        """Where a branch ends if one follows its newest messages."""
        at = self.get(node_id).id
        while children := self.children(at):
            at = children[-1]
        return at

    def leaf_after_delete(self, node_id: str, leaf_id: str | None) -> str | None:
        """The current leaf once `node_id` and what follows it is gone.

        Unchanged if the current path doesn't hold it; otherwise the end of the sibling before it,
        of the one after it, or the parent.
        """
        if leaf_id is None or node_id not in self.path(leaf_id):
            return leaf_id
        siblings = self.siblings(node_id)
        at = siblings.index(node_id)
        if at > 0:
            return self.leaf_below(siblings[at - 1])
        if len(siblings) > 1:
            return self.leaf_below(siblings[1])
        return self.get(node_id).parent_id
