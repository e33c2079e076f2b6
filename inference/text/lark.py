"""What of a client's Lark grammar would get past the bounds of its compiler, found beforehand.

Schemas in it would escape what `inference.text.schema` refuses, and regular expressions that have
to match the same text are intersected before the compiler begins to count its work.
"""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter

from inference.text.schema.overlaps import MAX_MEETING
from llamaweb.lib.errors import InvalidError

NESTED = ("%json", "%lark")
# Every alternative takes what it began with, closed or not, so that the time stays linear.
_LITERAL = re.compile(
    r"""(?:\#|//)[^\n]*
      | "(?:\\.|[^"\\\n])*"?i?
      | (?P<regex>/(?:\\.|[^/\\])*/?[imslux]*)
      | <[^<>]*>?
    """,
    re.VERBOSE,
)
_TERMINAL = r"(?<![A-Z0-9_-])_?[A-Z][A-Z0-9_-]*"
_STATEMENT = r"%(?:declare|ignore|import|llguidance|override)"
_NAME = re.compile(_TERMINAL)
# A terminal's definition, or where a rule's or a statement may begin.
_BEGIN = re.compile(rf"(?P<name>{_TERMINAL})[ \t]*:(?!:)|(?:^|\n)[ \t]*[!?_]*[a-z]|{_STATEMENT}")


def refuse_unbounded(text: str, *, param: str) -> None:
    """Refuse what can't be bounded; whether `text` is a grammar at all is for the compiler to say.

    Raises:
        InvalidError: a grammar or a schema inside of it, or too many regular expressions that one
            text has to match.
    """
    for word in NESTED:
        if word in text:
            raise InvalidError(
                f"'{word}' can't be used here; 'response_format' takes schemas", param=param
            )
    if "&" not in text:
        return
    bodies = _bodies(_LITERAL.sub(lambda found: " / " if found["regex"] else " ", text))
    if _num_meeting(bodies) > MAX_MEETING:
        raise InvalidError(
            f"more than {MAX_MEETING} regular expressions of one text can't be enforced",
            param=param,
        )


def _bodies(text: str) -> dict[str, str]:
    """What stands behind the name of each terminal; behind "" everything else."""
    begins = list(_BEGIN.finditer(text))
    ends = [*(begin.start() for begin in begins[1:]), len(text)]
    bodies: dict[str, list[str]] = {"": []}
    for begin, end in zip(begins, ends, strict=False):
        bodies.setdefault(begin["name"] or "", []).append(text[begin.end() : end])
    others = bodies.pop("")
    # Rules don't meet each other, so each stands for itself.
    rules = {f"{number}": body for number, body in enumerate(others)}
    return rules | {name: " ".join(parts) for name, parts in bodies.items()}


def _num_meeting(bodies: dict[str, str]) -> int:
    """The most regular expressions that meet in one of `bodies`, or more."""
    uses = {name: _NAME.findall(body) for name, body in bodies.items()}
    counts: dict[str, int] = {}
    try:
        for name in TopologicalSorter(uses).static_order():
            body = bodies.get(name, "")
            inside = [counts[other] for other in uses.get(name, ())]
            inside += [1] * body.count("/")
            num_sides = body.count("&") + 1
            counts[name] = max(
                min(sum(inside), MAX_MEETING + 1) if num_sides > 1 else max(inside, default=0),
                num_sides,
            )
    except CycleError:
        return MAX_MEETING + 1  # a terminal in itself; the compiler refuses it as well
    return max(counts.values(), default=0)
