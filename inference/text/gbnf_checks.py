"""Grammars that can be read and yet would hang llama.cpp: refused."""

from __future__ import annotations

from collections.abc import Iterator

from inference.text.gbnf_tree import MAX_NESTING, Element, Group, Options, Ref, grammar_error


def check_rules(rules: dict[str, Options]) -> None:
    """Refuse undefined rules, repetitions of nothing and rules that begin with themselves.

    Raises:
        InvalidError: one of these.
    """
    _refuse_undefined(rules)
    empty = _empty_rules(rules)
    _refuse_empty_loops(rules, empty)
    _refuse_left_recursion(rules, empty)


def _elements(rules: dict[str, Options]) -> Iterator[Element]:
    todo = list(rules.values())
    while todo:
        for sequence in todo.pop():
            for element in sequence:
                yield element
                if isinstance(element, Group):
                    todo.append(element.options)


def _refuse_undefined(rules: dict[str, Options]) -> None:
    for element in _elements(rules):
        if isinstance(element, Ref) and element.name not in rules:
            raise grammar_error("uses a rule that it doesn't define")


def _refuse_empty_loops(rules: dict[str, Options], empty: set[str]) -> None:
    for element in _elements(rules):
        if not isinstance(element, Group) or element.most in (0, 1):
            continue
        # Without end it is left recursion; with one, llama.cpp follows every way to count it.
        if _may_be_empty(element.options, empty):
            raise grammar_error("repeats what may be nothing")


def _refuse_left_recursion(rules: dict[str, Options], empty: set[str]) -> None:
    """A rule may not come back to itself before a character is read, however indirectly."""
    first = {name: _first_refs(options, empty) for name, options in rules.items()}
    done: set[str] = set()
    for name in rules:
        path: list[tuple[str, list[str]]] = [(name, list(first[name]))]
        while path:
            current, left = path[-1]
            if not left:
                done.add(current)
                path.pop()
                continue
            following = left.pop()
            if any(following == seen for seen, _ in path):
                raise grammar_error("has a rule that begins with itself")
            if following not in done:
                path.append((following, list(first[following])))
            if len(path) > MAX_NESTING:
                raise grammar_error(f"has more than {MAX_NESTING} rules that begin with each other")


def _empty_rules(rules: dict[str, Options]) -> set[str]:
    """Names of rules that may be nothing."""
    empty: set[str] = set()
    while True:
        more = {
            name
            for name, options in rules.items()
            if name not in empty and _may_be_empty(options, empty)
        }
        if not more:
            return empty
        empty |= more


def _may_be_empty(options: Options, empty: set[str]) -> bool:
    return any(all(_is_empty(element, empty) for element in sequence) for sequence in options)


def _is_empty(element: Element, empty: set[str]) -> bool:
    if isinstance(element, Group):
        return element.least == 0 or _may_be_empty(element.options, empty)
    return isinstance(element, Ref) and element.name in empty


def _first_refs(options: Options, empty: set[str]) -> set[str]:
    """Rules with which one of the options may begin."""
    found: set[str] = set()
    for sequence in options:
        for element in sequence:
            if isinstance(element, Ref):
                found.add(element.name)
            elif isinstance(element, Group):
                found |= _first_refs(element.options, empty)
            if not _is_empty(element, empty):
                break
    return found
