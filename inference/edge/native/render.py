"""Steps of generations to llama-server's own shapes. Pure: no clock, no ids of its own.

The whole reply is made from the chunks of the stream, so the two can't differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

from inference.edge.errors import error_reply
from inference.edge.measures import TokenTimes, prob_items, progress_body, timings_body
from inference.edge.native.options import options_from_json
from inference.edge.native.settings import number_settings, text_settings
from inference.edge.steps import End, Piece, Prefill, Step
from inference.edge.wire import Encoding, Frame, ServerSentEvents
from inference.protocol.events import TokenLogprobs
from inference.protocol.requests import GenerateRequest, TextPrompt
from llamaweb.lib.errors import LlamawebError

Body: TypeAlias = dict[str, Any]
RESULTS = "results"  # of a whole reply: one object a generation
ANY_SLOT = -1  # which slot it was is nobody's business outside the engine
PROBS = "completion_probabilities"


class NativeWire:
    """See `Wire`; of a whole reply the route shows the `RESULTS`."""

    encoding: ClassVar[Encoding] = ServerSentEvents()
    tail: ClassVar = b""
    is_silent = True
    places: ClassVar = ()

    def __init__(self, requests: Sequence[GenerateRequest]) -> None:
        self._results = [ResultRenderer(request) for request in requests]

    def render(self, index: int, step: Step) -> list[Frame]:
        """See `Wire`."""
        return [Frame(body) for body in self._results[index].render(step)]

    def end(self) -> list[Frame]:
        """See `Wire`."""
        return []

    def error(self, error: LlamawebError) -> list[Frame]:
        """See `Wire`."""
        return [Frame(error_reply(error).body)]

    def whole(self, frames: Sequence[Frame]) -> Body:
        """See `Wire`."""
        bodies = [frame.data for frame in frames]
        return {RESULTS: [result.whole(bodies) for result in self._results]}


class ResultRenderer:
    """The chunks of one generation; the last one is the result, but for what chunks said before."""

    def __init__(self, request: GenerateRequest) -> None:
        self._request = request
        self._options = options_from_json(request.reply.options_json)
        self._has_new_line = False
        self._times = TokenTimes()

    def render(self, step: Step) -> list[Body]:
        """The chunks of a step; a Broken one has none, it becomes an error."""
        self._times.see(step)
        if isinstance(step, Prefill) and self._options.return_progress:
            return [{**self._chunk("", ()), "prompt_progress": progress_body(step)}]
        if isinstance(step, Piece):
            said = self._said(step.text, step.token_ids, step.logprobs)
            return [{**said, **self._times.fields(step)}]
        if isinstance(step, End):
            last = self._last(step)
            if self._options.stream:
                last = chosen_fields(last, self._options.fields)
            if step.token_ids or step.logprobs:
                return [self._said("", step.token_ids, step.logprobs), last]
            return [last]
        return []

    def whole(self, chunks: Sequence[Body]) -> Body:
        """The result, from the chunks of all generations."""
        mine = [chunk for chunk in chunks if chunk["index"] == self._options.index]
        *said, last = mine
        last = {**last, "content": "".join(chunk["content"] for chunk in said)}
        if self._options.return_tokens:
            last["tokens"] = [token for chunk in said for token in chunk["tokens"]]
        if self._options.top:
            last[PROBS] = [item for chunk in said for item in chunk.get(PROBS, ())]
        return chosen_fields(last, self._options.fields)

    def _said(self, text: str, token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs]) -> Body:
        self._has_new_line = self._has_new_line or "\n" in text
        chunk = self._chunk(text, token_ids)
        if self._options.top and logprobs:
            is_after = self._options.post_sampling
            chunk[PROBS] = prob_items(logprobs, self._options.top, post_sampling=is_after)
        return chunk

    def _chunk(self, text: str, token_ids: Sequence[int]) -> Body:
        return {
            "index": self._options.index,
            "content": text,
            "tokens": list(token_ids),
            "stop": False,
            "id_slot": ANY_SLOT,
            "tokens_predicted": self._times.num_tokens,
            "tokens_evaluated": self._times.prompt_len,
        }

    def _last(self, end: End) -> Body:
        request, usage = self._request, end.usage
        prompt = request.prompt
        return {
            "index": self._options.index,
            "content": "",
            "tokens": [],
            "id_slot": ANY_SLOT,
            "stop": True,
            "model": request.reply.model_name,
            "tokens_predicted": usage.completion_tokens,
            "tokens_evaluated": usage.prompt_tokens,
            "generation_settings": self._settings(),
            "prompt": prompt.text if isinstance(prompt, TextPrompt) else "",
            "has_new_line": self._has_new_line,
            "truncated": end.truncated,
            "stop_type": _stop_type(end),
            "stopping_word": end.stop_string or "",
            "tokens_cached": max(0, usage.prompt_tokens + usage.completion_tokens - 1),
            "timings": timings_body(usage, end.timings),
        }

    def _settings(self) -> Body:
        request = self._request
        return {
            "seed": request.seed,
            **number_settings(request.sampling, request.limits, request.context),
            **text_settings(request.sampling, request.limits, request.preserved_tokens),
            "stream": self._options.stream,
            "lora": [{"id": number, "scale": scale} for number, scale in request.adapters or ()],
        }


def chosen_fields(body: Body, fields: Sequence[str]) -> Body:
    """Those of `body` that are wanted, under the names they are asked by; all if none is named."""
    if not fields:
        return body
    out: Body = {}
    for name in fields:
        value: Any = body
        for key in name.split("/"):
            value = value.get(key, _ABSENT) if isinstance(value, dict) else _ABSENT
        if value is not _ABSENT:
            out[name] = value
    return out


_ABSENT = object()


def _stop_type(end: End) -> str:
    if end.stop_string is not None:
        return "word"
    return "limit" if end.reason == "length" else "eos"
