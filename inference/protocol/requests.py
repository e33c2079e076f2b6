"""What a caller asks of an engine. Everything goes through one door: `EngineRequest`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from inference.protocol.params import ContextParams, Limits, SamplingParams

PROTOCOL_VERSION = 1

Lane: TypeAlias = Literal["interactive", "background"]
Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
ToolChoice: TypeAlias = Literal["auto", "required"]


@dataclass(frozen=True, slots=True)
class MediaRef:
    """A file in the blob store; `size` in bytes. Media never travel inline."""

    sha256: str
    size: int
    mime: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function call the model made earlier; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. Text is joined already; `content` "" stands for absent and null."""

    role: Role
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    media: tuple[MediaRef, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """Messages for the model's chat template.

    `public_messages`: how many leading messages are the server's own text (model prompt), which
    every user may share in the prompt cache. `tools_json`: tool definitions as JSON text.
    `template_kwargs_json`: extra template variables as a JSON object;
    `public_kwargs_json`: those that the server gives whoever asks.
    `continue_final`: the last message is the assistant's and is to be continued;
    `continue_reasoning`: inside its reasoning, behind which it has nothing yet; if
    `continue_either`, in its content where the model has no reasoning to go on with.
    """

    messages: tuple[Message, ...]
    public_messages: int = 0
    tools_json: str | None = None
    template_kwargs_json: str | None = None
    continue_final: bool = False
    continue_reasoning: bool = False
    continue_either: bool = False
    public_kwargs_json: str | None = None

    @property
    def is_thinking_off(self) -> bool:
        """Whether the template is told that the model isn't to think."""
        variables = json.loads(self.template_kwargs_json or "{}")
        return isinstance(variables, dict) and variables.get("enable_thinking") is False


@dataclass(frozen=True, slots=True)
class AnswerParams:
    """How the answer to a chat is taken apart, and what it has to be.

    `splits_reasoning` False: reasoning stays part of the content, markers and all. `tool_choice`
    "required": a tool has to be called; `tool_name`: which one, "" for any.
    `parallel_tool_calls` False: an answer has one call at most. `reasoning_budget`: tokens that its
    reasoning may have, None: any number; then `reasoning_message` is said and the reasoning ends.
    `reasoning_control`: it may be ended from outside.
    """

    splits_reasoning: bool = True
    tool_choice: ToolChoice = "auto"
    tool_name: str = ""
    parallel_tool_calls: bool = True
    reasoning_budget: int | None = None
    reasoning_message: str = ""
    reasoning_control: bool = False


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """Raw text; special tokens are parsed, beginning-of-text is added as the model wants."""

    text: str


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """Token ids, used as they are. `public_len`: leading tokens that are the server's own text."""

    tokens: tuple[int, ...]
    public_len: int = 0


@dataclass(frozen=True, slots=True)
class MixedPrompt:
    """Token ids and texts in order; beginning-of-text is added only in front of a text."""

    parts: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class InfillFile:
    """Text of another file, for a model that fills a gap in one."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class InfillPrompt:
    """A gap between two texts, for models whose vocabulary can mark one. `begun`: what stands in
    the gap already, the answer goes on from there. `extra`: the last ones are the nearest."""

    prefix: str
    suffix: str
    begun: str = ""
    extra: tuple[InfillFile, ...] = ()


Prompt: TypeAlias = ChatPrompt | TextPrompt | TokenPrompt | MixedPrompt | InfillPrompt


@dataclass(frozen=True, slots=True)
class ReplyInfo:
    """What a reply shows besides the text, fixed at submit so that every reader renders the same.

    `options_json` belongs to the API family that made the request (include_usage, echo, …).
    `stream_id`: the client's name of a stream that it may take up again, "" if it won't.
    """

    reply_id: str = ""
    created_at: int = 0
    model_name: str = ""
    fingerprint: str = ""
    options_json: str = "{}"
    stream_id: str = ""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One model run.

    Made by the caller; `generation_id` makes submit idempotent. `owner_key` ("user:7", "key:12")
    is the unit of fairness and quota. `cache_scope` ("user:7", "group:3", "instance") bounds whose
    prompt text this one may share. `deadline_at`: wall time after which it ends wherever it is.
    `on_finish`: name in the jobs' allow-list, or None. `keep`: goes on without a reader.
    `adapters`: (number, scale) of the LoRA adapters to use, None: the model's defaults.
    `preserved_tokens`: special tokens whose text is part of the answer; others are invisible.
    `answer` counts for chats only: the answer to any other prompt is text.
    `account`: who has to answer for it, see `inference.protocol.accounts`; "" nobody.
    """

    generation_id: str
    model: str
    owner_key: str
    cache_scope: str
    prompt: Prompt
    seed: int
    submitted_at: float
    deadline_at: float
    lane: Lane = "interactive"
    sampling: SamplingParams = field(default_factory=SamplingParams)
    limits: Limits = field(default_factory=Limits)
    context: ContextParams = field(default_factory=ContextParams)
    reply: ReplyInfo = field(default_factory=ReplyInfo)
    on_finish: str | None = None
    keep: bool = False
    preserved_tokens: tuple[str, ...] = ()
    adapters: tuple[tuple[int, float], ...] | None = None
    answer: AnswerParams = field(default_factory=AnswerParams)
    account: str = ""
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class _Utility:
    """Shared by the requests that need a vocabulary or a model, but no slot of the context."""

    generation_id: str
    model: str
    owner_key: str
    submitted_at: float
    deadline_at: float
    account: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class TokenizeRequest(_Utility):
    """Text to token ids; `with_pieces`: also what each is."""

    text: str = ""
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class DetokenizeRequest(_Utility):
    """Token ids to text, that of special tokens too."""

    tokens: tuple[int, ...] = ()
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class DescribeRequest(_Utility):
    """What a model's chats are written with."""

    version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class CountRequest(_Utility):
    """How many tokens a prompt has."""

    prompt: Prompt = field(default_factory=lambda: TextPrompt(""))
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class RenderRequest(_Utility):
    """A chat as the template writes it."""

    prompt: ChatPrompt = field(default_factory=lambda: ChatPrompt(()))
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class EmbedRequest(_Utility):
    """Vectors of texts, one an input, or one a token where the model pools nothing.

    `normalize`: p of the p-norm that each vector of an input is divided by, 0: its largest number
    becomes 32,760, -1: as they are, None: as the model is set up. `dimensions`: how many leading
    numbers are wanted, of models that were trained for it; None: all. `is_pooled`: one vector an
    input is wanted. `truncates`: what is too long loses its end instead of being refused.
    """

    inputs: tuple[TextPrompt | TokenPrompt | MixedPrompt, ...] = ()
    normalize: int | None = None
    dimensions: int | None = None
    is_pooled: bool = False
    truncates: bool = False
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class RerankRequest(_Utility):
    """One score a document. `truncates`: what is too long loses its end, and isn't refused."""

    query: str = ""
    documents: tuple[str, ...] = ()
    truncates: bool = False
    version: int = PROTOCOL_VERSION


UtilityRequest: TypeAlias = (
    TokenizeRequest
    | DetokenizeRequest
    | DescribeRequest
    | CountRequest
    | RenderRequest
    | EmbedRequest
    | RerankRequest
)
EngineRequest: TypeAlias = GenerateRequest | UtilityRequest
