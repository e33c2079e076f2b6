"""The tree: paths, siblings, and where one stands after each change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.tree import Node, Tree, TreeError
from llamaweb.lib.errors import NotFoundError

#  a ─ b ─ c
#    └ d ─ e
#        └ f
TREE = Tree(
    [
        Node("a", None, 1),
        Node("b", "a", 2),
        Node("c", "b", 3),
        Node("d", "a", 4),
        Node("e", "d", 5),
        Node("f", "d", 6),
    ]
)
# Each number says which earlier message is the parent; 0: none.
SHAPES = st.lists(st.integers(0, 40), max_size=40)


def tree_of(shape: list[int]) -> Tree:
    nodes: list[Node] = []
    for index, pick in enumerate(shape):
        at = pick % (index + 1)
        nodes.append(Node(str(index), nodes[at - 1].id if at else None, index + 1))
    return Tree(nodes)


def test_paths_siblings_and_positions() -> None:
    assert TREE.path("f") == ("a", "d", "f")
    assert TREE.path(None) == ()
    assert TREE.siblings("e") == ("e", "f")
    assert (TREE.position("e"), TREE.position("f"), TREE.position("a")) == ((1, 2), (2, 2), (1, 1))
    assert TREE.branch("d") == ("d", "e", "f")
    assert (TREE.leaf_below("a"), TREE.leaf_below("b")) == ("f", "c")


@pytest.mark.parametrize(
    ("deleted", "leaf", "after"),
    [
        ("c", "c", "b"),  # the parent
        ("e", "e", "f"),  # the sibling after it
        ("f", "f", "e"),  # the sibling before it
        ("d", "f", "c"),  # the end of the sibling before it
        ("b", "c", "f"),  # the newest end of the sibling after it
        ("a", "f", None),
        ("b", "f", "f"),  # elsewhere: unchanged
        ("b", None, None),
    ],
)
def test_the_leaf_after_a_delete(deleted: str, leaf: str | None, after: str | None) -> None:
    assert TREE.leaf_after_delete(deleted, leaf) == after


@pytest.mark.parametrize(
    "nodes",
    [
        [Node("a", "a", 1)],
        [Node("a", "b", 1), Node("b", "a", 2)],
        [Node("a", None, 1), Node("b", "a", 1)],
        [Node("a", None, 1), Node("a", None, 2)],
        [Node("a", "nobody", 1)],
    ],
)
def test_what_is_no_tree_is_refused(nodes: list[Node]) -> None:
    with pytest.raises(TreeError):
        Tree(nodes)


def test_an_unknown_message_is_not_found() -> None:
    for call in (TREE.path, TREE.siblings, TREE.branch, TREE.leaf_below, TREE.position):
        with pytest.raises(NotFoundError):
            call("x")


@given(SHAPES)
def test_every_path_ends_and_every_message_is_on_one(shape: list[int]) -> None:
    tree = tree_of(shape)
    seen: set[str] = set()
    for node in tree.nodes:
        path = tree.path(tree.leaf_below(node.id))
        assert node.id in path
        assert len(set(path)) == len(path) <= len(tree)
        index, count = tree.position(node.id)
        assert 1 <= index <= count
        seen.update(path)
    assert seen == {node.id for node in tree.nodes}


@given(SHAPES, st.integers(0, 40), st.integers(0, 40))
def test_after_a_delete_one_stands_on_a_living_leaf(shape: list[int], pick: int, on: int) -> None:
    tree = tree_of(shape)
    if not len(tree):
        return
    target = tree.nodes[pick % len(tree)].id
    leaf = tree.leaf_below(tree.nodes[on % len(tree)].id)
    after = tree.leaf_after_delete(target, leaf)
    rest = tree.without_branch(target)
    assert len(rest) == len(tree) - len(tree.branch(target))
    if after is None:
        assert len(rest) == 0 or tree.get(target).parent_id is None
        assert not rest.children(None)
    else:
        assert after in rest
        assert not rest.children(after)
        assert target in tree.path(leaf) or after == leaf


def test_a_long_branch_needs_no_recursion() -> None:
    nodes = [Node(str(n), str(n - 1) if n else None, n + 1) for n in range(5000)]
    tree = Tree(nodes)
    assert len(tree.path("4999")) == len(tree.branch("0")) == 5000
