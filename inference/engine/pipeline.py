"""From a request to a sequence: the text side of one model in front of its engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from inference.engine.adapters import Adapter, chosen_scales
from inference.engine.answering import form_of, plan_answer, request_tools
from inference.engine.contract import SequenceRequest
from inference.engine.embedding import EmbeddingInfo, VectorRequest
from inference.engine.joint import ONLY_VECTORS
from inference.engine.stopping import Answer
from inference.engine.vector_requests import VectorPipeline
from inference.protocol.requests import (
    ChatPrompt,
    EmbedRequest,
    GenerateRequest,
    Prompt,
    RerankRequest,
)
from inference.protocol.results import DescribeResult
from inference.text.answer.detect import answer_format
from inference.text.answer.families import AnswerFormat
from inference.text.answer.parser import AnswerParser
from inference.text.answer.reader import AnswerReader, call_ids
from inference.text.answer.tools import tools_of
from inference.text.chat_renderer import ChatRenderer, renderer_for, template_of
from inference.text.prompts import DEFAULT_CONTEXT_LEN, TextPipeline
from inference.text.tokenizer import Tokenizer
from llamaweb.lib.errors import NotSupportedError, WrongModelError


class Pipeline:
    """Templates, tokens and answers of one model; `close` ends the renderer's child process."""

    def __init__(
        self,
        text: TextPipeline,
        renderer: ChatRenderer,
        form: AnswerFormat,
        adapters: Sequence[Adapter] = (),
        *,
        special: bool = False,
        template: str = "",
        vectors: VectorPipeline | None = None,
        answers: bool = True,
    ) -> None:
        """`special`: its engine shows the text of special tokens. `template`: the renderer's.
        `vectors`: for an engine that makes any; `answers`: whether it writes any."""
        self._text = text
        self._renderer = renderer
        self._form = form
        self._adapters = adapters
        self._special = special
        self._template = template
        self._vectors = vectors
        self._answers = answers

    def prepare(self, request: GenerateRequest) -> SequenceRequest:
        """Render and tokenise `request`.

        Raises:
            InvalidError: the template refuses the messages, the prompt is empty, the grammar
                can't be read, a call can't be forced, or there is no such adapter.
            NotSupportedError: the vocabulary has no marks for a gap.
            WrongModelError: the model writes no answers.
        """
        if not self._answers:
            raise WrongModelError(ONLY_VECTORS)
        adapters = chosen_scales(self._adapters, request.adapters)
        prepared = self._text.prepare(
            request.prompt,
            now_at=request.submitted_at,
            max_tokens=request.limits.max_tokens,
        )
        plan = plan_answer(request, form_of(request, self._form), prepared.text, self._text)
        return SequenceRequest(
            generation_id=request.generation_id,
            tokens=prepared.tokens,
            owner_key=request.owner_key,
            cache_scope=request.cache_scope,
            seed=request.seed,
            public_len=prepared.public_len,
            lane=request.lane,
            sampling=replace(request.sampling, grammar=plan.grammar),
            limits=request.limits,
            preserved=self._text.preserved_tokens((*request.preserved_tokens, *plan.markers)),
            context=request.context,
            adapters=adapters,
            opened=plan.opened,
            is_begun=plan.is_begun,
            thoughts=plan.thoughts,
            matcher=plan.matcher,
        )

    def prepare_vectors(self, request: EmbedRequest | RerankRequest) -> VectorRequest:
        """Tokenise texts; raises as `VectorPipeline.prepare`, and NotSupportedError."""
        if self._vectors is None:
            raise NotSupportedError("this engine makes no vectors and scores of texts")
        return self._vectors.prepare(request)

    def reader(self, request: GenerateRequest, prepared: SequenceRequest) -> AnswerReader | None:
        """What takes the answer apart; it has read what was published of it."""
        form, params = form_of(request, self._form), request.answer
        if form is None:
            return None
        parser = AnswerParser(
            form if params.splits_reasoning else form.without_reasoning(),
            tools=tools_of(request_tools(request)),
            make_id=call_ids(request.generation_id),
            opened=prepared.opened,
            is_begun=prepared.is_begun,
        )
        reader = AnswerReader(parser, one_call=not params.parallel_tool_calls)
        if prepared.resume is not None:
            reader.skip(self._text_of(prepared, prepared.resume.token_ids))
        return reader

    def _text_of(self, prepared: SequenceRequest, token_ids: Sequence[int]) -> str:
        """What the engine said with these tokens: the same rules over again."""
        answer = Answer(
            self._text.tokenizer,
            replace(prepared.limits, max_tokens=None),
            room=len(token_ids) + 1,
            preserved=prepared.preserved,
            special=self._special,
        )
        return "".join(answer.push(token)[0] for token in token_ids)

    def count(self, prompt: Prompt, *, now_at: float = 0.0) -> int:
        """Length of `prompt` in tokens; raises like `prepare`."""
        return self._text.count(prompt, now_at=now_at)

    def render(self, prompt: ChatPrompt, *, now_at: float = 0.0) -> str:
        """The chat as the template writes it; raises like `prepare`."""
        return self._text.render(prompt, now_at=now_at)

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        """Token ids of `text`."""
        return tuple(
            self._text.tokenize(text, add_special=add_special, parse_special=parse_special)
        )

    def describe(self) -> DescribeResult:
        """What chats are written with.

        Raises:
            InvalidError: the template can't be used at all.
        """
        can, tokenizer = self._renderer.capabilities(), self._text.tokenizer
        names = [field.name for field in fields(can) if getattr(can, field.name)]
        if can.tool_calls == "object":
            names.append("object_arguments")
        return DescribeResult(
            self._template, tuple(names), tokenizer.bos_token, tokenizer.eos_token
        )

    def pieces(self, tokens: Sequence[int]) -> tuple[str | tuple[int, ...], ...]:
        """What each of these tokens is."""
        return self._text.pieces(tokens)

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of `tokens`; see `TextPipeline.detokenize`."""
        return self._text.detokenize(tokens)

    def close(self) -> None:
        """End what it started."""
        self._renderer.close()


def build_pipeline(
    tokenizer: Tokenizer,
    chat_template: str | None = None,
    adapters: Sequence[Adapter] = (),
    *,
    special: bool = False,
    max_context: int = DEFAULT_CONTEXT_LEN,
    vectors: EmbeddingInfo | None = None,
    answers: bool = True,
) -> Pipeline:
    """The pipeline of a model and its engine's `adapters`; `chat_template` overrides the model's
    own. `special`: the engine shows the text of special tokens. `max_context`: its tokens.
    `vectors`: what it makes of texts; `answers`: whether it writes any."""
    template = template_of(tokenizer, chat_template)
    renderer = renderer_for(tokenizer, chat_template)
    form = answer_format(template)
    text = TextPipeline(tokenizer, renderer, max_context=max_context)
    return Pipeline(
        text,
        renderer,
        form,
        adapters,
        special=special,
        template=template,
        vectors=VectorPipeline(tokenizer, vectors) if vectors is not None else None,
        answers=answers,
    )
