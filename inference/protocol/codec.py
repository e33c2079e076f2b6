"""Protocol values to JSON text and back.

A dataclass becomes an object without the fields that hold their default; where a field may hold
several types, the object carries its class name under "t". Infinite numbers are refused.

Requests and specs are strict: what isn't of this version is refused as a whole. Events, snapshots
and results are read tolerantly, since readers of one version follow engines of a later one.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from inference.protocol import events, requests, results

T = TypeVar("T")
TAG = "t"
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_quote = json.encoder.encode_basestring
_EVENT_NAMES = frozenset(cls.__name__ for cls in get_args(events.Event))
VERSION = "version"  # always written, so that a later version is never taken for this one


_TOLERANT = frozenset({events.__name__, results.__name__})  # modules of such classes


class DecodeError(ValueError):
    """The text isn't a value of this protocol version; nothing of it is used."""


@dataclasses.dataclass(frozen=True)
class _Field:
    name: str
    hint: Any
    default: Any  # dataclasses.MISSING where required


@functools.cache
def _fields(cls: type) -> tuple[_Field, ...]:
    hints = get_type_hints(cls)
    out = []
    for f in dataclasses.fields(cls):
        default = f.default
        if f.default_factory is not dataclasses.MISSING:
            default = f.default_factory()
        out.append(_Field(f.name, hints[f.name], default))
    return tuple(out)


def to_plain(value: Any) -> Any:
    """Return `value` as JSON-ready objects; dataclasses carry their class name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        out: dict[str, Any] = {TAG: type(value).__name__}
        for f in _fields(type(value)):
            item = getattr(value, f.name)
            if f.default is dataclasses.MISSING or item != f.default or f.name == VERSION:
                out[f.name] = to_plain(item)
        return out
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return value


def from_plain(hint: Any, data: Any) -> Any:
    """Return `data` as the type `hint`.

    Raises:
        DecodeError: wrong shape, unknown class, missing field, or a field unknown to a class that
            isn't of an event or result.
    """
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _union_from_plain(get_args(hint), data)
    if origin is tuple:
        return _tuple_from_plain(get_args(hint), data)
    if origin is Literal:
        if data not in get_args(hint):
            raise DecodeError(f"{data!r} is none of {get_args(hint)}")
        return data
    if dataclasses.is_dataclass(hint):
        return _dataclass_from_plain(typing.cast(type, hint), data)
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if hint is type(None):
        hint = types.NoneType
    if type(data) is not hint:
        raise DecodeError(f"expected {hint.__name__}, got {type(data).__name__}")
    return data


def _union_from_plain(options: tuple[Any, ...], data: Any) -> Any:
    if data is None and types.NoneType in options:
        return None
    classes = [option for option in options if dataclasses.is_dataclass(option)]
    if isinstance(data, dict):
        for cls in classes:
            if typing.cast(type, cls).__name__ == data.get(TAG):
                return from_plain(cls, data)
        raise DecodeError(f"unknown type {data.get(TAG)!r}")
    for option in options:
        if option in classes or option is types.NoneType:
            continue
        try:
            return from_plain(option, data)
        except DecodeError:
            continue
    raise DecodeError(f"a {type(data).__name__} fits none of {options}")


def _tuple_from_plain(args: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise DecodeError(f"expected a list, got {type(data).__name__}")
    if len(args) == 2 and args[1] is Ellipsis:
        if args[0] is int:  # token ids: the longest lists by far
            if not all(type(item) is int for item in data):
                raise DecodeError("expected integers")
            return tuple(data)
        return tuple(from_plain(args[0], item) for item in data)
    if len(args) != len(data):
        raise DecodeError(f"expected {len(args)} items, got {len(data)}")
    return tuple(from_plain(arg, item) for arg, item in zip(args, data, strict=True))


def _dataclass_from_plain(cls: type, data: Any) -> Any:
    if not isinstance(data, dict) or data.get(TAG) != cls.__name__:
        raise DecodeError(f"expected {cls.__name__}")
    values: dict[str, Any] = {}
    for f in _fields(cls):
        if f.name in data:
            values[f.name] = from_plain(f.hint, data[f.name])
            if f.name == VERSION and data[f.name] != requests.PROTOCOL_VERSION:
                raise DecodeError(f"protocol version {data[f.name]} isn't known here")
        elif f.default is dataclasses.MISSING or f.name == VERSION:
            raise DecodeError(f"{cls.__name__}.{f.name} is missing")
    unknown = data.keys() - {f.name for f in _fields(cls)} - {TAG}
    if unknown and cls.__module__ not in _TOLERANT:
        raise DecodeError(f"{cls.__name__} has no {sorted(unknown)}")
    return cls(**values)


def _dumps(value: Any) -> str:
    return _ENCODER.encode(to_plain(value))


def _parse(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def _loads(hint: Any, text: str | bytes) -> Any:
    return from_plain(hint, _parse(text))


def _plain_delta(data: Any) -> events.Delta | None:
    """The delta in `data` if it is one of text, token ids and draws; else None."""
    if type(data) is not dict or data.get(TAG) != "Delta":
        return None
    text, ids, draws = data.get("text"), data.get("token_ids"), data.get("draws")
    if type(text) is not str or type(ids) is not list or len(data) != 3 + (draws is not None):
        return None
    if not all(type(token_id) is int for token_id in ids) or type(draws) not in (int, type(None)):
        return None
    return events.Delta(text, tuple(ids), draws or 0)


def encode_request(request: requests.EngineRequest) -> str:
    """JSON text of a request."""
    return _dumps(request)


def decode_request(text: str | bytes) -> requests.EngineRequest:
    """The request in `text`.

    Raises:
        DecodeError: not a request of this version.
    """
    return typing.cast(requests.EngineRequest, _loads(requests.EngineRequest, text))


def encode_event(event: events.Event) -> str:
    """JSON text of an event."""
    if (
        type(event) is events.Delta
        and event.kind == "content"
        and not event.logprobs
        and event.timings is None
    ):  # one a token: the short way to the same text
        ids = ",".join(map(str, event.token_ids))
        draws = f',"draws":{event.draws}' if event.draws else ""
        return f'{{"t":"Delta","text":{_quote(event.text)},"token_ids":[{ids}]{draws}}}'
    return _dumps(event)


def decode_event(text: str | bytes) -> events.Event:
    """The event in `text`; `Unknown` if it is of a class that this version doesn't have.

    Raises:
        DecodeError: not an event, or an event with a value that this version doesn't allow.
    """
    data = _parse(text)
    delta = _plain_delta(data)  # one a token: the short way to the same value
    if delta is not None:
        return delta
    name = data.get(TAG) if isinstance(data, dict) else None
    if isinstance(name, str) and name not in _EVENT_NAMES:
        return events.Unknown(name)
    return typing.cast(events.Event, from_plain(events.Event, data))


def encode_snapshot(snapshot: events.Snapshot) -> str:
    """JSON text of a snapshot."""
    return _dumps(snapshot)


def decode_snapshot(text: str | bytes) -> events.Snapshot:
    """The snapshot in `text`.

    Raises:
        DecodeError: not a snapshot, or one with a value that this version doesn't allow.
    """
    return typing.cast(events.Snapshot, _loads(events.Snapshot, text))
