"""How many regular expressions a text may have to fulfil at once.

The compiler intersects them before it begins to count its work, and each one more multiplies it.
"""

from __future__ import annotations

from typing import Any

from inference.text.schema.keywords import LISTS, MAPS, ONE

MAX_MEETING = 6


def num_meeting(node: Any, definitions: dict[str, Any], known: dict[int, int]) -> int:
    """The most expressions that can meet at one place in or below `node`, or more. `known` holds
    what was found of other nodes of the same schema."""
    if not isinstance(node, dict):
        return 0
    if id(node) not in known:
        known[id(node)] = 0  # where it comes back to itself
        known[id(node)] = _num_meeting(node, definitions, known)
    return known[id(node)]


def _num_meeting(node: dict[str, Any], definitions: dict[str, Any], known: dict[int, int]) -> int:
    def of(child: Any) -> int:
        return num_meeting(child, definitions, known)

    inside = [of(node[name]) for name in ONE if name in node]
    inside += [of(child) for name in MAPS for child in node.get(name, {}).values()]
    inside += [of(child) for child in node.get("prefixItems", ())]
    own = ("pattern" in node) + ("format" in node)
    instead = [of(child) for name in LISTS[:2] for child in node.get(name, ())]
    beside = [of(child) for child in node.get("allOf", ())]
    if "$ref" in node:
        beside.append(of(definitions[node["$ref"].rpartition("/")[2]]))
    return max(own, *inside, 0) + max(0, *instead, 0) + sum(beside)
