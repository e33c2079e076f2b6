"""A client's schema, checked keyword by keyword and written anew for the compiler of grammars.

Every keyword is either enforced or refused with its path. What is handed on has no keyword that the
compiler would read differently, no annotation, and only references to `$defs`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

from inference.text.schema import formats
from inference.text.schema.keywords import (
    ANNOTATIONS,
    BOUNDS,
    COUNTS,
    DRAFTS,
    LISTS,
    MAPS,
    ONE,
    is_refused,
)
from inference.text.schema.overlaps import MAX_MEETING, num_meeting
from inference.text.schema.paths import Keys, path_of, reference_keys, target_of
from inference.text.schema.patterns import MAX_PATTERN_CHARS, is_portable
from inference.text.schema.sizes import own_chars
from inference.text.schema.values import (
    MAX_STEPS,
    are_few,
    check_value,
    count_of,
    names_of,
    number_of,
    types_of,
)
from llamaweb.lib.errors import InvalidError

MAX_SCHEMA_CHARS = 128 * 1024
MAX_NODES = 5000  # schemas in a schema
MAX_READ_CHARS = 4 * MAX_SCHEMA_CHARS  # what is referred to counts each time it is read
MAX_INLINED = 16  # references followed inside each other
Node: TypeAlias = dict[str, Any] | bool
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Part:
    """A schema of its own within the prepared one, and where it came from: `keys` below `top`."""

    top: str
    keys: Keys
    node: dict[str, Any]

    @property
    def param(self) -> str:
        """The path of where it came from; made when it is to blame, since there are thousands."""
        return path_of(self.top, self.keys)


@dataclass(frozen=True, slots=True)
class Prepared:
    """`root` with its `$defs`; `parts`, inner ones first, tell which one can't be compiled."""

    root: dict[str, Any]
    parts: tuple[Part, ...]

    def text(self, part: Part | None = None) -> str:
        """JSON of the whole, or of one part with what it refers to."""
        node = self.root if part is None else {**part.node, "$defs": self.root.get("$defs", {})}
        return json.dumps(node, ensure_ascii=False)


def prepare(schema: Any, *, param: str) -> Prepared:
    """The schema as it will be enforced.

    Raises:
        InvalidError: with the path of the keyword that can't be, below `param`.
    """
    try:
        return _Preparing(schema, param).run()
    except RecursionError:
        raise InvalidError("its references lead too deep", param=param) from None


@dataclass(slots=True)
class _Preparing:
    document: Any
    param: str
    parts: list[Part] = field(default_factory=list)
    names: dict[Keys, str] = field(default_factory=dict)  # of definitions by where they stand
    todo: list[Keys] = field(default_factory=list)
    inlined: list[Keys] = field(default_factory=list)  # inside each other, here
    multiples: set[Decimal] = field(default_factory=set)  # few, as long as `are_few`
    sizes: dict[int, int] = field(default_factory=dict)  # of schemas by their identity
    num_nodes: int = 0
    num_chars: int = 0

    def run(self) -> Prepared:
        if not isinstance(self.document, dict):
            raise InvalidError("must be an object", param=self.param)
        draft = self.document.get("$schema")
        if draft is not None and (not isinstance(draft, str) or draft.rstrip("#") not in DRAFTS):
            raise self._error("is no draft that is known here", ("$schema",))
        # A schema without a word about the value stands for any object, as in llama-server.
        root = self._object(self.document, ()) or {"type": "object"}
        parts = self._take_parts()
        definitions: dict[str, Node] = {}
        while self.todo:
            keys = self.todo.pop(0)
            target, _ = target_of(self.document, keys)
            definitions[self.names[keys]] = self._node(target, keys)
            parts = self._take_parts() + parts
        known: dict[int, int] = {}
        for part in parts:
            if num_meeting(part.node, definitions, known) > MAX_MEETING:
                raise InvalidError(
                    f"more than {MAX_MEETING} regular expressions and formats of one text can't be "
                    "enforced",
                    param=part.param,
                )
        if definitions:
            root["$defs"] = definitions
        return Prepared(root, tuple(parts))

    def _take_parts(self) -> list[Part]:
        parts, self.parts = self.parts, []
        return parts

    def _node(self, schema: Any, keys: Keys) -> Node:
        self.num_nodes += 1
        if self.num_nodes > MAX_NODES:
            raise InvalidError(f"has more than {MAX_NODES} schemas in it", param=self.param)
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise self._error("must be a schema: an object, true or false", keys)
        return self._object(schema, keys)

    def _object(self, schema: dict[str, Any], keys: Keys) -> dict[str, Any]:
        self._count(schema, keys)
        out: dict[str, Any] = {}
        for name, value in schema.items():
            here = (*keys, name)
            if value is None and name != "const":
                continue  # as everywhere in a request
            if is_refused(name, value):
                raise self._error(f"'{name}' can't be enforced", here)
            if (rule := _RULES.get(name)) is not None:
                rule(self, out, name, value, here)
        self._finish(out, keys)
        return out

    def _count(self, schema: dict[str, Any], keys: Keys) -> None:
        """Bounds the work, and what is handed on: references multiply both."""
        if id(schema) not in self.sizes:
            self.sizes[id(schema)] = own_chars(schema)
        self.num_chars += self.sizes[id(schema)]
        if self.num_chars > MAX_READ_CHARS:
            raise self._error(
                f"with all that references lead to, the schema has more than {MAX_READ_CHARS} "
                "characters",
                keys,
            )

    def _alternative(self, schema: Any, keys: Keys) -> Node:
        """One of `oneOf`. A reference is followed, so that alternatives can be told apart."""
        if isinstance(schema, dict) and schema.keys() - ANNOTATIONS == {"$ref"}:
            target, path = self._target(schema["$ref"], (*keys, "$ref"))
            if path not in self.inlined and len(self.inlined) < MAX_INLINED:
                self.inlined.append(path)
                node = self._node(target, path)
                self.inlined.pop()
                return node
        return self._node(schema, keys)

    def _target(self, pointer: Any, keys: Keys) -> tuple[Any, Keys]:
        path = reference_keys(pointer) if isinstance(pointer, str) else None
        if path is None:
            raise self._error("must be a JSON pointer within this schema, such as #/$defs/x", keys)
        try:
            return target_of(self.document, path)
        except LookupError:
            raise self._error("there is nothing at this place", keys) from None

    def _finish(self, out: dict[str, Any], keys: Keys) -> None:
        """What depends on several keywords, and the parts that may be refused on their own."""
        least = out.get("minProperties", 0)
        if least > 1:
            # Names of other properties may come twice and count once, so only required ones count.
            if least > len(out.get("required", ())):
                raise self._error("more than 1 can't be enforced", (*keys, "minProperties"))
            del out["minProperties"]
        for name in ("pattern", "oneOf", "allOf", "multipleOf"):
            if name in out:
                self._part({name: out[name]}, (*keys, name))
        if len(out) > 1 or not out.keys() & {"oneOf", "allOf"}:
            self._part(out, keys)

    def _part(self, node: dict[str, Any], keys: Keys) -> None:
        self.parts.append(Part(self.param, keys, node))

    def _error(self, message: str, keys: Keys) -> InvalidError:
        return InvalidError(message, param=path_of(self.param, keys))

    def _read(self, read: Callable[[Any], _Read], value: Any, keys: Keys) -> _Read:
        try:
            return read(value)
        except InvalidError as error:
            raise self._error(error.message, keys) from None

    # One for each keyword that is enforced: (out, name, value, where).

    def one(self, out: dict[str, Any], name: str, value: Any, keys: Keys) -> None:
        if isinstance(value, list):
            raise self._error("a list is of an older draft: 'prefixItems' has its place", keys)
        out[name] = self._node(value, keys)

    def many(self, out: dict[str, Any], name: str, value: Any, keys: Keys) -> None:
        if not isinstance(value, list) or not value:
            raise self._error("must be a list of schemas", keys)
        make = self._alternative if name == "oneOf" else self._node
        nodes = [make(item, (*keys, index)) for index, item in enumerate(value)]
        out[name] = out.get(name, []) + nodes

    def named(self, out: dict[str, Any], name: str, value: Any, keys: Keys) -> None:
        if not isinstance(value, dict):
            raise self._error("must be an object of schemas", keys)
        if name == "patternProperties":
            for pattern in value:
                self._check_pattern(pattern, (*keys, pattern))
        out[name] = {key: self._node(item, (*keys, key)) for key, item in value.items()}
        if name == "patternProperties":
            for pattern in value:
                self._part({name: {pattern: True}, "type": "object"}, (*keys, pattern))

    def ref(self, out: dict[str, Any], name: str, value: Any, keys: Keys) -> None:
        _, path = self._target(value, keys)
        if path not in self.names:
            self.names[path] = f"d{len(self.names)}"
            self.todo.append(path)
        out[name] = f"#/$defs/{self.names[path]}"

    def kind(self, out: dict[str, Any], name: str, value: Any, keys: Keys) -> None:
        out[name] = self._read(types_of, value, keys)

    def literals(self, out: dict[str, Any], name: str, value: Any, keys: Keys) -> None:
        if name == "enum" and (not isinstance(value, list) or not value):
            raise self._error("must be a list of values", keys)
        self._read(check_value, value, keys)
        out[name] = value

    def count(self, out: dict[str, Any], name: str, value: Any, keys: Keys) -> None:
        out[name] = self._read(count_of, value, keys)

    def number(self, out: dict[str, Any], name: str, value: Any, keys: Keys) -> None:
        out[name] = self._read(number_of, value, keys)

    def multiple(self, out: dict[str, Any], name: str, value: Any, keys: Keys) -> None:
        number = self._read(number_of, value, keys)
        if number <= 0:
            raise self._error("must be above 0", keys)
        self.multiples.add(Decimal(str(number)))
        if not are_few(self.multiples):
            raise self._error(
                f"all steps of a schema must go into {MAX_STEPS} of the smallest", keys
            )
        out[name] = number

    def required(self, out: dict[str, Any], name: str, value: Any, keys: Keys) -> None:
        out[name] = self._read(names_of, value, keys)

    def pattern(self, out: dict[str, Any], name: str, value: Any, keys: Keys) -> None:
        self._check_pattern(value, keys)
        out[name] = value

    def format(self, out: dict[str, Any], name: str, value: Any, keys: Keys) -> None:
        if value not in formats.KNOWN:
            known = ", ".join(formats.KNOWN)
            raise self._error(f"this format can't be enforced; those that can: {known}", keys)
        if value in formats.COMPILED:
            out[name] = value
        elif value in formats.PATTERNS:
            _also(out, {"pattern": formats.PATTERNS[value]})
        elif value in formats.RANGES:
            _also(out, dict(formats.RANGES[value]))

    def _check_pattern(self, pattern: Any, keys: Keys) -> None:
        if not isinstance(pattern, str):
            raise self._error("must be a regular expression", keys)
        if len(pattern) > MAX_PATTERN_CHARS:
            raise self._error(f"is longer than {MAX_PATTERN_CHARS} characters", keys)
        if not is_portable(pattern):
            raise self._error("this regular expression can't be enforced", keys)


def _also(out: dict[str, Any], more: dict[str, Any]) -> None:
    """Ask for `more` beside what the schema says itself."""
    out["allOf"] = [*out.get("allOf", []), more]


_Rule: TypeAlias = Callable[[_Preparing, dict[str, Any], str, Any, Keys], None]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(ONE, _Preparing.one),
    **dict.fromkeys(LISTS, _Preparing.many),
    **dict.fromkeys(MAPS, _Preparing.named),
    **dict.fromkeys(COUNTS, _Preparing.count),
    **dict.fromkeys(BOUNDS, _Preparing.number),
    **dict.fromkeys(("enum", "const"), _Preparing.literals),
    "$ref": _Preparing.ref,
    "type": _Preparing.kind,
    "multipleOf": _Preparing.multiple,
    "required": _Preparing.required,
    "pattern": _Preparing.pattern,
    "format": _Preparing.format,
}
