"""What an answer format consists of, and the formats of the families of models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from inference.text.answer.envelope import Envelope
from inference.text.answer.formats import CallFormat, Head, NamedCalls, object_head
from inference.text.answer.harmony import END, NEXT, THOUGHT
from inference.text.answer.harmony import MARKERS as HARMONY_MARKERS
from inference.text.answer.json_calls import JsonCalls
from inference.text.answer.pythonic_calls import PythonicCalls
from inference.text.answer.reasoning_tags import THINK, ReasoningTags
from inference.text.answer.tagged_calls import Parameter, TaggedCalls
from inference.text.answer.values import GEMMA


@dataclass(frozen=True)
class Section:
    """Markers around all calls. `noisy`: what is no call in there is dropped."""

    opener: str
    closer: str
    noisy: bool = False


@dataclass(frozen=True)
class AnswerFormat:
    """How a model writes its answers.

    `closers` mean nothing behind a call and are text elsewhere; `silent` markers mean nothing
    anywhere. `calls_in_reasoning`: a call inside reasoning is one; else it is a draft. `tokens`: of
    which markers are made, where these are no tokens themselves. `text_is_all`: an answer that
    begins as text is nothing else; no marker in it is one.
    """

    family: str
    calls: tuple[CallFormat, ...] = ()
    closers: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    silent: tuple[str, ...] = ()
    reasoning: ReasoningTags | None = None
    calls_in_reasoning: bool = False
    is_harmony: bool = False
    tokens: tuple[str, ...] = ()
    text_is_all: bool = False

    @cached_property
    def calls_by_opener(self) -> Mapping[str, tuple[CallFormat, ...]]:
        """The formats to try behind each opener, in order."""
        found: dict[str, tuple[CallFormat, ...]] = {}
        for call_format in self.calls:
            for opener in call_format.openers:
                found[opener] = (*found.get(opener, ()), call_format)
        return found

    @cached_property
    def bare_calls(self) -> tuple[CallFormat, ...]:
        """Formats without an opener."""
        return tuple(call_format for call_format in self.calls if not call_format.openers)

    @cached_property
    def markers(self) -> tuple[str, ...]:
        """All texts that must reach the parser though they may be special tokens."""
        found = [*self.tokens, *self.closers, *self.silent]
        for section in self.sections:
            found += [section.opener, section.closer]
        for call_format in self.calls:
            found += [*call_format.openers, *call_format.markers]
        if self.reasoning:
            found += [self.reasoning.opener.strip(), self.reasoning.closer.strip()]
        if self.is_harmony:
            found += HARMONY_MARKERS
        return tuple(dict.fromkeys(filter(None, found)))

    @property
    def is_plain(self) -> bool:
        """Whether all that is written is text."""
        return not (self.calls or self.reasoning or self.silent or self.is_harmony)

    @property
    def reasoning_start(self) -> str:
        """What begins reasoning; "" without any."""
        if self.is_harmony:
            return THOUGHT
        return self.reasoning.opener if self.reasoning else ""

    @property
    def reasoning_end(self) -> str:
        """What ends reasoning; "" without any."""
        if self.is_harmony:
            return END + NEXT
        return self.reasoning.closer if self.reasoning else ""

    def opened_by(self, prompt: str) -> str:
        """The markup at the end of `prompt` that the answer goes on inside of, or ""."""
        tail = prompt.rstrip()
        openers = [self.reasoning.opener] if self.reasoning else []
        openers += [o for o in self.calls_by_opener if o.strip()]
        for opener in openers:
            if tail.endswith(opener.rstrip()):
                return prompt[len(tail) - len(opener.rstrip()) :]
        return ""

    def without_calls(self) -> AnswerFormat:
        """The same where no tools are offered: there is nothing to call."""
        return replace(self, calls=(), sections=(), closers=())

    def in_a_form(self) -> AnswerFormat:
        """The same where the answer itself is in a form of the client's: nothing in that is markup,
        only reasoning may stand in front of it."""
        reasoning = self.reasoning and replace(self.reasoning, anywhere=False)
        return replace(self.without_calls(), silent=(), reasoning=reasoning)

    def with_calls_or_a_form(self) -> AnswerFormat:
        """The same where the answer, behind reasoning, is calls or in a form of the client's: a
        call's marker at its beginning tells which."""
        reasoning = self.reasoning and replace(self.reasoning, anywhere=False)
        return replace(
            self,
            calls=tuple(call_format for call_format in self.calls if call_format.openers),
            silent=(),
            reasoning=reasoning,
            calls_in_reasoning=False,
            text_is_all=True,
        )

    def without_reasoning(self) -> AnswerFormat:
        """The same, reasoning being text, tags and all."""
        return replace(self, reasoning=None)


_NAME = r"\s*(?P<name>[^\s<>\[\]{}\"]+)\s*"


def _xml(prefix: str, key: str = "name") -> TaggedCalls:
    """`<invoke name="f"><parameter name="a">…</parameter></invoke>`, tag names behind `prefix`."""
    return TaggedCalls(
        openers=(f'<{prefix}invoke {key}="',),
        head=Head(re.compile(r'(?P<name>[^"]+)"\s*(?P<empty>/)?'), (">",)),
        parameter=Parameter(
            f'<{prefix}parameter {key}="',
            re.compile(r'(?P<key>[^"]+)"(?:\s+string="(?P<type>true|false)")?\s*'),
            ">",
            f"</{prefix}parameter>",
        ),
        closers=(f"</{prefix}invoke>",),
    )


def _glm(suffix: str = "", separator: str = "") -> TaggedCalls:
    """`<tool_call>f<arg_key>a</arg_key><arg_value>…</arg_value></tool_call>`."""
    closer, key = f"</tool_call{suffix}>", f"<arg_key{suffix}>"
    ends = (separator,) if separator else (key, closer)
    return TaggedCalls(
        openers=(f"<tool_call{suffix}>",),
        head=Head(re.compile(_NAME), ends, kept=not separator),
        parameter=Parameter(
            key,
            re.compile(r"(?P<key>[^<>]+)"),
            f"</arg_key{suffix}>",
            f"</arg_value{suffix}>",
            value_opener=f"<arg_value{suffix}>",
        ),
        closers=(closer,),
    )


_FUNCTION_TAGS = TaggedCalls(
    openers=("<function=",),
    head=Head(re.compile(_NAME), (">",)),
    parameter=Parameter("<parameter=", re.compile(r"(?P<key>[^<>\n]+)"), ">", "</parameter>"),
    closers=("</function>", "</tool_call>"),
    lines=True,
)
_K3_TAGS = TaggedCalls(
    openers=('<|open|>call tool="',),
    head=Head(re.compile(r'(?P<name>[^"]+)"(?:\s+index="\d+")?\s*'), ("<|sep|>",)),
    parameter=Parameter(
        '<|open|>argument key="',
        re.compile(r'(?P<key>[^"]+)"(?:\s+type="(?P<type>\w+)")?\s*'),
        "<|sep|>",
        "<|close|>argument<|sep|>",
        escaped=True,
    ),
    closers=("<|close|>call<|sep|>",),
)

HERMES = AnswerFormat(
    "hermes",
    calls=(JsonCalls(("<tool_call>",)),),
    closers=("</tool_call>",),
    calls_in_reasoning=True,
)
QWEN3_CODER = AnswerFormat(
    "qwen3-coder",
    calls=(_FUNCTION_TAGS,),
    sections=(Section("<tool_call>", "</tool_call>"),),
    closers=("</tool_call>",),
    calls_in_reasoning=True,
)
SEED_OSS = AnswerFormat(
    "seed-oss",
    calls=(replace(_FUNCTION_TAGS, closers=("</function>", "</seed:tool_call>")),),
    sections=(Section("<seed:tool_call>", "</seed:tool_call>"),),
    closers=("</seed:tool_call>",),
)
LLAMA = AnswerFormat(
    "llama",
    calls=(
        JsonCalls(("<|python_tag|>",)),
        PythonicCalls(("<|python_tag|>", "<|python_start|>")),
        JsonCalls(),
        PythonicCalls(),
    ),
    closers=("<|python_end|>", "<|eom_id|>"),
)
MISTRAL = AnswerFormat(
    "mistral",
    calls=(
        NamedCalls(
            ("[TOOL_CALLS]",),
            object_head(rf"{_NAME}(?:\[CALL_ID\](?P<id>[^\[\]\s]+)\s*)?\[ARGS\]\s*"),
            markers=("[ARGS]", "[CALL_ID]"),
        ),
        JsonCalls(("[TOOL_CALLS]",)),
    ),
)
DEEPSEEK_V3 = AnswerFormat(
    "deepseek-v3",
    calls=(
        NamedCalls(
            ("<｜tool▁call▁begin｜>",),
            object_head(
                r"(?:function<｜tool▁sep｜>(?=[^<]+```))?(?P<name>[^\s<]+)\s*"
                r"(?:<｜tool▁sep｜>|```(?:json)?)\s*"
            ),
            tail=("```",),
            markers=("<｜tool▁sep｜>",),
        ),
    ),
    sections=(Section("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", noisy=True),),
    closers=("<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"),
)
_DSML_SECTIONS = ("｜DSML｜function_calls", "｜DSML｜tool_calls", "｜DSML｜ calls")  # V3.2, 4, 4.1
DEEPSEEK_DSML = AnswerFormat(
    "deepseek-dsml",
    calls=(_xml("｜DSML｜"), _xml("｜DSML｜ ")),
    sections=tuple(Section(f"<{name}>", f"</{name}>") for name in _DSML_SECTIONS),
    closers=tuple(f"</{name}>" for name in _DSML_SECTIONS),
    reasoning=THINK,
    tokens=("｜DSML｜",),
)
COMMAND_R7B = AnswerFormat(
    "command-r7b",
    calls=(JsonCalls(("<|START_ACTION|>",), ("tool_name", "name"), ("parameters", "arguments")),),
    closers=("<|END_ACTION|>",),
    silent=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
)
COMMAND_R = AnswerFormat(
    "command-r",
    calls=(JsonCalls(("Action:\n```json", "Action: ```json"), ("tool_name",), ("parameters",)),),
    closers=("```",),
)
GRANITE = AnswerFormat(
    "granite",
    calls=(JsonCalls(("<|tool_call|>", "<tool_call>")),),
    closers=("</tool_call>", "<|/tool_call|>"),
    silent=("<response>", "</response>"),
)
GLM = AnswerFormat("glm", calls=(_glm(),), calls_in_reasoning=True)
HUNYUAN = AnswerFormat(
    "hunyuan-3",
    calls=(_glm(":opensource", "<tool_sep:opensource>"),),
    sections=(Section("<tool_calls:opensource>", "</tool_calls:opensource>"),),
    closers=("</tool_calls:opensource>",),
    reasoning=ReasoningTags("<think:opensource>", "</think:opensource>", anywhere=True),
)
KIMI_K2 = AnswerFormat(
    "kimi-k2",
    calls=(
        NamedCalls(
            ("<|tool_call_begin|>",),
            object_head(
                r"\s*(?P<id>(?:functions\.)?(?P<name>[^\s:<]+):\d+)\s*"
                r"<\|tool_call_argument_begin\|>\s*"
            ),
            markers=("<|tool_call_argument_begin|>",),
        ),
    ),
    sections=(Section("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", noisy=True),),
    closers=("<|tool_call_end|>", "<|tool_calls_section_end|>"),
)
KIMI_K3 = AnswerFormat(
    "kimi-k3",
    calls=(_K3_TAGS,),
    sections=(Section("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),),
    closers=("<|close|>tools<|sep|>",),
    silent=tuple(
        f"<|{act}|>{part}<|sep|>" for part in ("response", "message") for act in ("open", "close")
    ),
    reasoning=ReasoningTags(
        "<|open|>think<|sep|>",
        "<|close|>think<|sep|>",
        anywhere=True,
        other_closers=("<|open|>response<|sep|>",),
    ),
    calls_in_reasoning=True,
    tokens=("<|open|>", "<|close|>", "<|sep|>"),
)
MINIMAX_M2 = AnswerFormat(
    "minimax-m2",
    calls=(_xml(""),),
    sections=(Section("<minimax:tool_call>", "</minimax:tool_call>"),),
    closers=("</minimax:tool_call>",),
)
# MiniMax M1 writes an object a line, Apriel a list.
TOOL_CALLS_TAG = AnswerFormat(
    "tool-calls-tag", calls=(JsonCalls(("<tool_calls>",)),), closers=("</tool_calls>",)
)
FUNCTIONARY_V31 = AnswerFormat(
    "functionary-v3.1",
    calls=(
        NamedCalls(("<function=",), object_head(rf"{_NAME}>\s*")),
        JsonCalls(("<|python_tag|>",)),
    ),
    closers=("</function>",),
)
FUNCTIONARY_V32 = AnswerFormat(
    "functionary-v3.2",
    calls=(NamedCalls((">>>",), object_head(r"(?P<name>[^\s{]+)\n\s*")),),
    silent=(">>>all\n",),
)
HARMONY = AnswerFormat("gpt-oss", is_harmony=True)
LFM2 = AnswerFormat(
    "lfm2",
    calls=(
        PythonicCalls(("<|tool_call_start|>",)),
        JsonCalls(("<|tool_call_start|>",)),
    ),
    closers=("<|tool_call_end|>",),
)
GEMMA4 = AnswerFormat(
    "gemma-4",
    calls=(
        NamedCalls(
            ("<|tool_call>",),
            object_head(r"\s*call:\s*(?P<name>[^\s{]+)\s*"),
            notation=GEMMA,
            markers=('<|"|>',),
        ),
    ),
    closers=("<tool_call|>", "<|tool_response>"),
    reasoning=ReasoningTags("<|channel>thought\n", "<channel|>", anywhere=True),
)
NEMOTRON_NANO_V2 = AnswerFormat(
    "nemotron-nano-v2", calls=(JsonCalls(("<TOOLCALL>",)),), closers=("</TOOLCALL>",)
)
APERTUS = AnswerFormat(
    "apertus",
    calls=(JsonCalls(("<|tools_prefix|>",), named_by_key=True),),
    closers=("<|tools_suffix|>",),
)
SOLAR = AnswerFormat(
    "solar-open",
    calls=(
        NamedCalls(
            ("<|tool_call:begin|>",),
            object_head(r"(?P<id>[^<]*)<\|tool_call:name\|>(?P<name>[^<]+)<\|tool_call:args\|>\s*"),
            markers=("<|tool_call:name|>", "<|tool_call:args|>"),
        ),
    ),
    closers=("<|tool_call:end|>", "<|calls|>"),
    silent=("<|begin|>assistant", "<|content|>", "<|tool_calls|>", "<|end|>"),
    tokens=("<|begin|>",),
    reasoning=ReasoningTags("<|think|>", "<|end|>", anywhere=True),
)
FIREFUNCTION = AnswerFormat("firefunction", calls=(JsonCalls(("functools",)),))
GIGACHAT = AnswerFormat(
    "gigachat-3",
    calls=(JsonCalls(("function call<|role_sep|>\n", "<|function_call|>")),),
    closers=("<|message_sep|>",),
    silent=("<|message_sep|>\n\n",),
)
# The normaliser writes calls of the history as `<tool_call>`, and models imitate what they see.
GENERIC = AnswerFormat(
    "generic", calls=(Envelope(), JsonCalls(("<tool_call>",))), closers=("</tool_call>",)
)
FAMILIES = {
    form.family: form
    for form in (
        *(HERMES, QWEN3_CODER, SEED_OSS, LLAMA, MISTRAL, DEEPSEEK_V3, DEEPSEEK_DSML, COMMAND_R7B),
        *(COMMAND_R, GRANITE, GLM, HUNYUAN, KIMI_K2, KIMI_K3, MINIMAX_M2, TOOL_CALLS_TAG),
        *(FUNCTIONARY_V31, FUNCTIONARY_V32, HARMONY, LFM2, GEMMA4, NEMOTRON_NANO_V2, APERTUS),
        *(SOLAR, FIREFUNCTION, GIGACHAT, GENERIC),
    )
}
