"""From a request to what is sent to the other server, which templates and tokenises by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

from inference.engine.adapters import chosen_scales
from inference.engine.upstream.params import Fields, llama_server_fields, openai_fields
from inference.engine.upstream.tokens import estimated_tokens
from inference.engine.upstream.vectors import VectorsAsked, vectors_asked
from inference.protocol.events import Snapshot
from inference.protocol.fold import text_of
from inference.protocol.requests import (
    AnswerParams,
    ChatPrompt,
    EmbedRequest,
    GenerateRequest,
    InfillPrompt,
    Message,
    Prompt,
    RerankRequest,
    TextPrompt,
)
from inference.protocol.results import DescribeResult
from inference.protocol.spec import UpstreamSpec
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError, NotSupportedError

# With these the start of an answer isn't gone on from.
NOT_GONE_ON_WITH = frozenset(
    {"grammar", "json_schema", "response_format", "continue_final_message"}
)
CHAT_PATH, TEXT_PATH = "/chat/completions", "/completions"
# OpenAI's later models know the second name only, most other servers the first.
OLD_LENGTH, NEW_LENGTH = "max_tokens", "max_completion_tokens"


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """What is sent: `fields` to the server's address and `path`.

    `prompt_tokens`: estimated. `continues`: the server can go on from the start of an answer;
    `said` is that start where an earlier engine published one. `is_interrupted`: it did, and the
    server can't.
    """

    generation_id: str
    path: str
    fields: Fields
    deadline_at: float
    prompt_tokens: int
    continues: bool
    said: str = ""
    is_interrupted: bool = False
    accept: ClassVar[str] = "text/event-stream"

    def after(self, log: Snapshot | None, *, alone: bool) -> UpstreamRequest:
        """See `Prepared.after`; only whole content can be gone on from."""
        if log is None or not log.parts:
            return self
        kinds = {kind for kind, _ in log.parts}
        if not self.continues or log.parts[-1][0] != "content" or "tool_call" in kinds:
            return replace(self, is_interrupted=True)
        return replace(self, said=text_of(log))

    def body(self, length_field: str = OLD_LENGTH) -> bytes:
        """JSON text; `length_field`: what the server calls the longest answer."""
        fields = dict(self.fields)
        if self.said:
            fields |= self._going_on()
        if OLD_LENGTH in fields:
            fields[length_field] = fields.pop(OLD_LENGTH)
        return json.dumps(fields, allow_nan=False, separators=(",", ":")).encode()

    def _going_on(self) -> Fields:
        """The fields that change where `said` stands behind the prompt."""
        changed: Fields = {}
        if OLD_LENGTH in self.fields:
            changed[OLD_LENGTH] = max(1, self.fields[OLD_LENGTH] - estimated_tokens(self.said))
        if self.path == TEXT_PATH:
            return {**changed, "prompt": self.fields["prompt"] + self.said}
        messages: list[Fields] = list(self.fields["messages"])
        begun = ""
        if messages and messages[-1]["role"] == "assistant":
            begun = messages.pop()["content"] or ""
        messages.append({"role": "assistant", "content": begun + self.said})
        return {**changed, "messages": messages}


class UpstreamPipeline:
    """See `inference.engine.serving.Pipeline`; nothing is counted or rendered here."""

    def __init__(self, spec: UpstreamSpec) -> None:
        self._spec = spec

    def prepare(self, request: GenerateRequest) -> UpstreamRequest:
        """What to send.

        Raises:
            InvalidError: naming the field that this server can't be told.
            NotSupportedError: a gap is to be filled.
        """
        prompt = request.prompt
        chosen_scales((), request.adapters)  # there are none here
        if isinstance(prompt, ChatPrompt):
            path, fields = CHAT_PATH, self._chat(prompt, request.sampling.num_probs)
            fields |= self._answer_fields(prompt, request.answer)
        elif isinstance(prompt, TextPrompt):
            path, fields = TEXT_PATH, self._text(prompt, request.sampling.num_probs)
        elif isinstance(prompt, InfillPrompt):
            self._refuse("gaps are marked")
        else:
            raise InvalidError(
                "token ids can't be served: this model's tokens are known to another server only",
                param="prompt",
            )
        fields |= {
            "model": self._spec.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "seed": request.seed,
        }
        if self._is_llama_server:
            fields |= llama_server_fields(
                request.sampling, request.limits, request.context, request.preserved_tokens
            )
        else:
            fields |= openai_fields(request.sampling, request.limits, request.context)
        return UpstreamRequest(
            generation_id=request.generation_id,
            path=path,
            fields=fields,
            deadline_at=request.deadline_at,
            prompt_tokens=_prompt_tokens(prompt),
            continues=(self._spec.continues or path == TEXT_PATH)
            and not fields.keys() & NOT_GONE_ON_WITH,
        )

    def prepare_vectors(self, request: EmbedRequest | RerankRequest) -> VectorsAsked:
        """What to send.

        Raises:
            InvalidError: nothing is to be computed, or token ids are.
        """
        return vectors_asked(request, self._spec.model)

    def reader(self, request: GenerateRequest, prepared: UpstreamRequest) -> None:
        """None: what comes is taken apart already."""

    def count(self, prompt: Prompt, *, now_at: float = 0.0) -> int:
        """Not known here."""
        self._refuse("tokens are counted")

    def render(self, prompt: ChatPrompt, *, now_at: float = 0.0) -> str:
        """Not known here."""
        self._refuse("the chat template is filled in")

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        """Not known here."""
        self._refuse("text is tokenised")

    def pieces(self, tokens: Sequence[int]) -> tuple[str | tuple[int, ...], ...]:
        """Not known here."""
        self._refuse("tokens are told apart")

    def describe(self) -> DescribeResult:
        """Not known here."""
        self._refuse("the chat template is kept")

    def detokenize(self, tokens: Sequence[int]) -> str:
        """Not known here."""
        self._refuse("tokens are turned into text")

    def close(self) -> None:
        """Nothing was started."""

    @property
    def _is_llama_server(self) -> bool:
        return self._spec.dialect == "llama_server"

    def _refuse(self, what: str) -> NoReturn:
        raise NotSupportedError(f"{what} by another server for this model, which can't be asked")

    def _chat(self, prompt: ChatPrompt, num_probs: int) -> Fields:
        if not prompt.messages:
            raise InvalidError("at least one message is needed", param="messages")
        if prompt.continue_final and not self._spec.continues:
            raise InvalidError(
                "the server behind this model can't go on with an answer that was begun",
                param="messages",
            )
        fields: Fields = {"messages": [self._message(message) for message in prompt.messages]}
        if prompt.continue_reasoning and self._is_llama_server:
            either = prompt.continue_either
            fields["continue_final_message"] = True if either else "reasoning_content"
        elif prompt.continue_reasoning and not prompt.continue_either:
            raise InvalidError(
                "the server behind this model can't go on with reasoning that was begun",
                param="continue_final_message",
            )
        if num_probs:
            fields |= {"logprobs": True, "top_logprobs": num_probs}
        if self._is_llama_server:
            fields["return_progress"] = True
        return fields | self._template_fields(prompt.template_kwargs_json)

    def _answer_fields(self, prompt: ChatPrompt, answer: AnswerParams) -> Fields:
        """Tools, and what the answer has to be; the defaults are left to the server."""
        fields: Fields = {}
        if self._is_llama_server and not answer.splits_reasoning:
            fields["reasoning_format"] = "none"
        fields |= self._reasoning_fields(answer)
        if not prompt.tools_json:
            return fields
        tools = fields["tools"] = json.loads(prompt.tools_json)
        if answer.tool_choice == "required":
            fields["tool_choice"] = "required"
        if answer.tool_name and self._is_llama_server:
            # It takes no name: of one tool it has to call that one.
            fields["tools"] = [t for t in tools if t["function"]["name"] == answer.tool_name]
        elif answer.tool_name:
            named = {"type": "function", "function": {"name": answer.tool_name}}
            fields["tool_choice"] = named
        if not answer.parallel_tool_calls:
            fields["parallel_tool_calls"] = False
        return fields

    def _reasoning_fields(self, answer: AnswerParams) -> Fields:
        """What bounds its reasoning."""
        name = "reasoning_control"
        if not answer.reasoning_control:
            if answer.reasoning_budget is None:
                return {}
            if self._is_llama_server:
                message = answer.reasoning_message
                fields: Fields = {"reasoning_budget_tokens": answer.reasoning_budget}
                return fields | ({"reasoning_budget_message": message} if message else {})
            name = "reasoning_budget_tokens"
        raise InvalidError(f"the server behind this model doesn't know '{name}'", param=name)

    def _text(self, prompt: TextPrompt, num_probs: int) -> Fields:
        if not prompt.text:
            raise InvalidError("the prompt is empty", param="prompt")
        fields: Fields = {"prompt": valid_text(prompt.text)}
        if num_probs and not self._is_llama_server:
            raise InvalidError(
                "the server behind this model shows no 'logprobs' of text completions",
                param="logprobs",
            )
        if self._is_llama_server:
            fields["return_progress"] = True
            if num_probs:
                fields["n_probs"] = num_probs
        return fields

    def _message(self, message: Message) -> Fields:
        if message.media:
            raise InvalidError("this model takes text only", param="messages")
        out: Fields = {"role": message.role, "content": valid_text(message.content)}
        if message.tool_calls:
            out["content"] = out["content"] or None
            out["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in message.tool_calls
            ]
        if message.tool_call_id is not None:
            out["tool_call_id"] = message.tool_call_id
        if message.name is not None:
            out["name"] = message.name
        # OpenAI's API has no field for it: a model isn't shown its earlier reasoning.
        if message.reasoning and self._is_llama_server:
            out["reasoning_content"] = valid_text(message.reasoning)
        return out

    def _template_fields(self, kwargs_json: str | None) -> Fields:
        kwargs: dict[str, Any] = json.loads(kwargs_json) if kwargs_json else {}
        if not kwargs:
            return {}
        if self._is_llama_server:
            return {"chat_template_kwargs": kwargs}
        fields: Fields = {}
        for name, value in kwargs.items():
            if name == "reasoning_effort" and isinstance(value, str):
                fields["reasoning_effort"] = value
            elif name == "enable_thinking" and value is False:
                fields.setdefault("reasoning_effort", "none")
            elif name != "enable_thinking":
                raise InvalidError(
                    f"the server behind this model doesn't know the template variable '{name}'",
                    param="chat_template_kwargs",
                )
        return fields


def _prompt_tokens(prompt: ChatPrompt | TextPrompt) -> int:
    texts: Sequence[str]
    if isinstance(prompt, TextPrompt):
        texts = (prompt.text,)
    else:
        texts = [message.content for message in prompt.messages]
        texts.append(prompt.tools_json or "")
    return sum(map(estimated_tokens, map(valid_text, texts)))
