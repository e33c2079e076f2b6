"""A stream that its client may take up again, as it is remembered while it lives."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from inference.protocol.codec import DecodeError, decode_request, encode_request
from inference.protocol.requests import GenerateRequest


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """What a stream's bytes can be made of again, with the logs of its generations.

    `family` names the API that it speaks. `requests`: of its generations, in order, without what
    replies don't show; `groups`: how many of them answer the same prompt, in a row. Times are wall
    times.
    """

    stream_id: str
    family: str
    model: str
    requests: tuple[GenerateRequest, ...]
    groups: tuple[int, ...]
    started_at: float
    expires_at: float

    @property
    def ids(self) -> tuple[str, ...]:
        """Of its generations."""
        return tuple(request.generation_id for request in self.requests)


def encode_record(record: StreamRecord) -> str:
    """JSON text."""
    fields = {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}
    requests = [encode_request(request) for request in record.requests]
    return json.dumps({**fields, "requests": requests, "ids": record.ids}, separators=(",", ":"))


def decode_record(text: str) -> StreamRecord:
    """The record in `text`; fields of a later version are ignored.

    Raises:
        DecodeError: it is none.
    """
    try:
        told = json.loads(text)
        known = {f.name for f in dataclasses.fields(StreamRecord)}
        fields = {name: value for name, value in told.items() if name in known}
        requests = tuple(map(decode_request, told["requests"]))
        if not all(isinstance(request, GenerateRequest) for request in requests):
            raise DecodeError("these requests make no stream")
        return StreamRecord(**{**fields, "requests": requests, "groups": tuple(told["groups"])})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DecodeError("this is no record of a stream") from error
