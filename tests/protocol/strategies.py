"""Random protocol values."""

from __future__ import annotations

from hypothesis import strategies as st

from inference.protocol.events import (
    CallRef,
    Cancelled,
    Delta,
    Failed,
    Finished,
    Progress,
    Result,
    Started,
    Timings,
    TokenLogprobs,
    TokenProb,
    Usage,
)
from inference.protocol.params import Grammar, GrammarTrigger, Limits, SamplingParams
from inference.protocol.requests import (
    ChatPrompt,
    CountRequest,
    DescribeRequest,
    DetokenizeRequest,
    GenerateRequest,
    InfillFile,
    InfillPrompt,
    MediaRef,
    Message,
    MixedPrompt,
    ReplyInfo,
    TextPrompt,
    TokenizeRequest,
    TokenPrompt,
    ToolCall,
)
from inference.protocol.results import (
    CountResult,
    DescribeResult,
    DetokenizeResult,
    TokenizeResult,
)

text = st.text(st.characters(codec="utf-8"), max_size=20)
number = st.integers(0, 10**6)
ratio = st.floats(0, 2, allow_nan=False)
usage = st.builds(Usage, number, number, number)
prob = st.builds(
    TokenProb, number, st.lists(st.integers(0, 255), max_size=4).map(tuple), st.floats(-99, 0)
)
logprobs = st.builds(TokenLogprobs, prob, st.lists(prob, max_size=2).map(tuple))
timings = st.builds(Timings, ratio, ratio, ratio)
deltas = st.builds(
    Delta,
    text,
    st.lists(number, max_size=3).map(tuple),
    st.integers(0, 3),
    st.sampled_from(["content", "reasoning"]),
    st.lists(logprobs, max_size=2).map(tuple),
    timings=st.none() | timings,
) | st.builds(
    Delta,
    text,
    st.lists(number, max_size=3).map(tuple),
    kind=st.just("tool_call"),
    call=st.builds(
        CallRef, st.integers(0, 3), text, text, st.sampled_from([None, "complete", "broken"])
    ),
)
terminals = st.one_of(
    st.builds(
        Finished,
        st.sampled_from(["stop", "length", "tool_calls"]),
        usage,
        timings,
        st.none() | text,
    ),
    st.builds(
        Failed,
        st.sampled_from(["busy", "engine_failed"]),
        text,
        st.booleans(),
        st.none() | text,
        st.lists(st.tuples(text, number), max_size=2).map(tuple),
        usage,
    ),
    st.builds(Cancelled, st.sampled_from(["user", "reader_gone"]), usage),
)
events = st.one_of(
    st.builds(Started, number, number),
    st.builds(Progress, number, number),
    deltas,
    st.builds(
        Result,
        st.one_of(
            st.builds(CountResult, number),
            st.builds(
                TokenizeResult,
                st.lists(number, max_size=4).map(tuple),
                st.lists(text | st.lists(number, max_size=2).map(tuple), max_size=4).map(tuple),
            ),
            st.builds(DetokenizeResult, text),
            st.builds(DescribeResult, text, st.lists(text, max_size=2).map(tuple), text, text),
        ),
    ),
    terminals,
)
messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    text,
    text,
    st.lists(st.builds(ToolCall, text, text, text), max_size=2).map(tuple),
    st.none() | text,
    st.none() | text,
    st.lists(st.builds(MediaRef, text, number, text), max_size=1).map(tuple),
)
prompts = st.one_of(
    st.builds(
        ChatPrompt,
        st.lists(messages, max_size=3).map(tuple),
        st.integers(0, 3),
        st.none() | text,
        st.none() | text,
        st.booleans(),
    ),
    st.builds(TextPrompt, text),
    st.builds(TokenPrompt, st.lists(number, max_size=5).map(tuple), st.integers(0, 5)),
    st.builds(MixedPrompt, st.lists(number | text, max_size=4).map(tuple)),
    st.builds(
        InfillPrompt,
        text,
        text,
        text,
        st.lists(st.builds(InfillFile, text, text), max_size=2).map(tuple),
    ),
)
triggers = st.builds(
    GrammarTrigger, st.sampled_from(["token", "word", "pattern", "pattern_full"]), text, number
)
grammars = st.builds(Grammar, text, st.booleans(), st.lists(triggers, max_size=2).map(tuple))
requests = st.one_of(
    st.builds(
        GenerateRequest,
        generation_id=text,
        model=text,
        owner_key=text,
        cache_scope=text,
        prompt=prompts,
        seed=number,
        submitted_at=ratio,
        deadline_at=ratio,
        lane=st.sampled_from(["interactive", "background"]),
        sampling=st.builds(
            SamplingParams,
            temperature=st.none() | ratio,
            top_k=st.none() | number,
            samplers=st.none() | st.lists(text, max_size=2).map(tuple),
            logit_bias=st.lists(st.tuples(number, st.none() | ratio), max_size=2).map(tuple),
            logit_bias_texts=st.lists(st.tuples(text, st.none() | ratio), max_size=2).map(tuple),
            ignore_eos=st.booleans(),
            adaptive_target=st.none() | ratio,
            grammar=st.none() | grammars,
        ),
        limits=st.builds(
            Limits, st.none() | number, st.lists(text, max_size=2).map(tuple), number, number
        ),
        preserved_tokens=st.lists(text, max_size=2).map(tuple),
        reply=st.builds(ReplyInfo, text, number, text, text, text, text),
        on_finish=st.none() | text,
        keep=st.booleans(),
    ),
    st.builds(
        TokenizeRequest,
        generation_id=text,
        model=text,
        owner_key=text,
        submitted_at=ratio,
        deadline_at=ratio,
        text=text,
        with_pieces=st.booleans(),
    ),
    st.builds(
        DetokenizeRequest,
        generation_id=text,
        model=text,
        owner_key=text,
        submitted_at=ratio,
        deadline_at=ratio,
        tokens=st.lists(number, max_size=4).map(tuple),
    ),
    st.builds(
        DescribeRequest,
        generation_id=text,
        model=text,
        owner_key=text,
        submitted_at=ratio,
        deadline_at=ratio,
    ),
    st.builds(
        CountRequest,
        generation_id=text,
        model=text,
        owner_key=text,
        submitted_at=ratio,
        deadline_at=ratio,
        prompt=prompts,
    ),
)
