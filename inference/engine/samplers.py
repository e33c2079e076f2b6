"""The sampler of a request: chain, constraints, and what it remembers of the prompt."""

from __future__ import annotations

import functools
from typing import Any, cast

from llguidance import LLMatcher

from inference.engine.backend import Backend
from inference.engine.constraints import ConstrainedSampler, Constraint
from inference.engine.contract import SequenceRequest
from inference.engine.guidance import compile_grammar
from inference.engine.guided import guided
from inference.engine.lazy_grammar import LazyGrammar
from inference.engine.lenient import LenientGrammar
from inference.engine.picks import GreedySampler, Sampler
from inference.engine.sampling import resolve_chain
from inference.engine.thought_guard import ThoughtGuard
from inference.protocol.params import Grammar
from inference.text.gbnf import parse_gbnf
from inference.text.tokenizer import Tokenizer

GRAMMARS_KNOWN = 32  # whose check is remembered


def build_sampler(request: SequenceRequest, backend: Backend) -> Sampler:
    """The sampler of `request`, ready for its first token.

    Raises:
        InvalidError: a parameter is out of range, or the grammar can't be read.
    """
    tokenizer = backend.tokenizer
    params = request.sampling
    chain = resolve_chain(params, tokenizer, max_context=backend.max_context)
    sampler: Sampler = (
        GreedySampler(chain.bias, shows_probs=chain.num_after > 0)
        if chain.is_greedy
        else backend.sampler(chain, request.seed)
    )
    try:
        if chain.history_len:
            sampler.prime(request.tokens[-chain.history_len :])
        sampler = _constrained(sampler, request, backend)
    except BaseException:
        sampler.close()
        raise
    return sampler


def _constrained(sampler: Sampler, request: SequenceRequest, backend: Backend) -> Sampler:
    """`sampler` within what the request wants of its answer."""
    tokenizer, grammar = backend.tokenizer, request.sampling.grammar
    guard: ThoughtGuard | None = None
    constraints: list[Constraint] = []
    if request.thoughts is not None:
        guard = ThoughtGuard(
            request.thoughts,
            tokenizer,
            opened=request.opened,
            is_begun=request.is_begun,
            preserved=request.preserved,
            num_published=len(request.resume.token_ids) if request.resume else 0,
        )
        constraints.append(guard)
    if grammar is not None and grammar.text:
        constraints.append(_grammar(grammar, request, backend, guard))
    return ConstrainedSampler(sampler, constraints, tokenizer, guard) if constraints else sampler


def check_grammar(grammar: Grammar | None, tokenizer: Tokenizer) -> LLMatcher | None:
    """Refuse or compile a grammar early, outside the engine's loop; raises like `build_sampler`.
    None: there is none, or llama.cpp will read it."""
    if grammar is None or not grammar.text:
        return None
    if grammar.kind != "gbnf":
        return compile_grammar(grammar, tokenizer)
    _check(grammar.text, cast(Any, tokenizer))
    return None


@functools.lru_cache(GRAMMARS_KNOWN)
def _check(text: str, tokenizer: Tokenizer) -> None:
    def is_token(name: str) -> bool:
        return len(tokenizer.tokenize(name, add_special=False, parse_special=True)) == 1

    parse_gbnf(text, is_token)


def _grammar(
    grammar: Grammar, request: SequenceRequest, backend: Backend, guard: ThoughtGuard | None
) -> Constraint:
    rules: Constraint
    if grammar.kind == "gbnf":
        check_grammar(grammar, backend.tokenizer)
        rules = backend.grammar(grammar.text)
    else:
        rules = guided(grammar, backend.tokenizer, request.matcher)
    if grammar.lenient:
        rules = LenientGrammar(rules)
    if not grammar.lazy:
        return rules
    try:
        return LazyGrammar(rules, grammar.triggers, backend.tokenizer, request.preserved, guard)
    except BaseException:
        rules.close()
        raise
