"""What a model on the hub says of itself: the beginning of its file, fetched and read in the child
that reads all headers. For estimates only; what is served is read again when it is here."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import IO, Final

from django.conf import settings

from inference.registry.gguf.errors import GgufError
from inference.registry.gguf.facts import GgufFacts
from inference.registry.gguf.process import read_descriptor
from inference.registry.hub import HubModel, hub_headers, refusal
from llamaweb.lib.addresses import Allow
from llamaweb.lib.errors import FailedError
from llamaweb.lib.outbound import Response, UnreachableError, fetch

FETCH_S: Final = 20.0
MIB: Final = 1 << 20
# Small vocabularies take less than the first, the largest known ones less than the last.
STEPS: Final = (2 * MIB, 8 * MIB, 32 * MIB)
KEPT: Final = 128


def hub_facts(model: HubModel) -> GgufFacts:
    """The header of a model's first file, with the size of all its files; see `scaled`. Takes
    seconds the first time.

    Raises:
        InvalidError: it isn't a GGUF model, its header is too long, or the hub refuses.
        UnreachableError, ForbiddenError: the hub can't be asked.
        FailedError: this machine can't keep or read what comes.
    """
    first = model.files[0]
    try:
        facts = _read(model.url(first), first.sha256, first.size)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise FailedError(f"its beginning can't be kept here: {reason}") from error
    return scaled(facts, sum(file.size for file in model.files))


def scaled(facts: GgufFacts, size: int) -> GgufFacts:
    """Facts of the same model in other types of weights: `size` bytes of all its files. Its
    layers shrink or grow together; what is kept of a context stays as it is."""
    weights, held = facts.weights, facts.weights
    total = sum(held.layer_bytes) + held.input_bytes + held.output_bytes + held.other_bytes
    if total:
        weights = replace(
            held,
            layer_bytes=tuple(num * size // total for num in held.layer_bytes),
            input_bytes=held.input_bytes * size // total,
            output_bytes=held.output_bytes * size // total,
            other_bytes=held.other_bytes * size // total,
        )
    return replace(facts, size=size, weights=weights)


@functools.lru_cache(maxsize=KEPT)
def _read(url: str, _sha256: str, size: int) -> GgufFacts:
    """Read once for each content; what failed is tried again."""
    wanted = min(size, STEPS[-1])
    headers = {**hub_headers(url), "Range": f"bytes=0-{wanted - 1}"}
    allow = Allow.of(settings.OUTBOUND_ALLOW)
    with (
        tempfile.TemporaryFile() as file,
        fetch(url, allow=allow, total_s=FETCH_S, headers=headers) as response,
    ):
        if response.status not in (200, 206):
            raise refusal(response.status)
        problem = GgufError("the file is shorter than the hub says")
        for num_bytes in _fill(file, response, size, wanted):
            # Behind what has come the file is a hole. It reads as zeros, which no header survives.
            os.ftruncate(file.fileno(), size)
            try:
                return read_descriptor(file.fileno()).facts
            except GgufError as error:
                problem = error
            if num_bytes >= wanted:
                break
    raise problem


def _fill(file: IO[bytes], response: Response, size: int, wanted: int) -> Iterator[int]:
    """Write the body as it comes; yields the bytes so far at each of `STEPS` and at the end."""
    done, steps = 0, iter([step for step in STEPS if step < wanted] + [wanted])
    step = next(steps)
    for chunk in response.chunks(max_bytes=max(size, wanted)):
        file.write(chunk[: wanted - done])
        done = min(wanted, done + len(chunk))
        while done >= step:
            file.flush()
            yield done
            if done >= wanted:
                return
            step = next(steps)
    raise UnreachableError("the hub sends less than it says")
