"""What a model file says of itself, in words."""

from __future__ import annotations

from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _

from inference.models import ModelFile
from inference.registry.config_checks import NO_ANSWERS
from inference.registry.files import model_facts
from inference.registry.gguf.facts import GgufFacts

Line = tuple[str, str]
UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))


def summary(file: ModelFile) -> str:
    """One short line for a list: architecture, parameters, quantization."""
    facts = model_facts(file)
    if facts is None:
        return file.architecture
    params = short_count(facts.weights.num_params) if facts.weights.num_params else ""
    return " ".join(part for part in (facts.architecture, params, facts.quantization) if part)


def facts_html(file: ModelFile) -> str:
    """All of it, as a list of definitions."""
    facts = model_facts(file)
    lines = [] if facts is None else [line for line in _lines(file, facts) if line[1]]
    return _definitions(lines) if lines else "–"


def parts_html(file: ModelFile) -> str:
    """Its other files: what they are, how they stand."""
    rows = sorted(file.parts.all(), key=lambda part: (part.role, part.path))
    if not rows:
        return "–"
    items = ((part, ", ".join(t for t in (*_part_words(part), part.error) if t)) for part in rows)
    return format_html(
        '<ul class="lw-plain">{}</ul>', format_html_join("", "<li>{}: {}</li>", items)
    )


def templates_html(file: ModelFile) -> str:
    """Its chat templates, folded up."""
    found = sorted(file.templates.items())
    if not found:
        return "–"
    return format_html_join(
        "",
        '<details><summary>{}</summary><pre class="lw-source">{}</pre></details>',
        ((name or _("main"), text) for name, text in found),
    )


def short_count(count: int) -> str:
    """135 million as 135M."""
    for size, unit in UNITS:
        if count >= size:
            number = count / size
            return f"{number_format(number, 0 if number >= 100 else 1)}{unit}"
    return str(count)


def _part_words(part: ModelFile) -> tuple[str, str, str]:
    state = "" if part.state == ModelFile.State.READY else str(part.get_state_display())
    size = filesizeformat(part.size) if part.size is not None else ""
    return str(part.get_role_display()), size, state


def _lines(file: ModelFile, facts: GgufFacts) -> list[Line]:
    return [*_about(facts), *_shape(facts), *_positions(facts), *_texts(file, facts)]


def _about(facts: GgufFacts) -> list[Line]:
    weights = facts.weights
    bits = _("%(bits)s bits a weight") % {"bits": number_format(facts.bits_per_weight, 2)}
    kinds = dict.fromkeys((facts.quantization, weights.main_kind))
    return [
        (_("architecture"), facts.architecture),
        (_("does"), _purpose(facts)),
        (_("size label"), facts.size_label),
        (_("parameters"), number_format(weights.num_params, force_grouping=True)),
        (_("quantization"), ", ".join([*(kind for kind in kinds if kind), bits])),
        (_("size"), filesizeformat(facts.size)),
        (_("tensors"), number_format(weights.num_tensors, force_grouping=True)),
        (_("files"), str(facts.split.count)),
        (_("adapter"), _adapter(facts)),
        (_("reads"), ", ".join(facts.modalities)),
    ]


def _purpose(facts: GgufFacts) -> str:
    names = {"text": _("answers"), "embedding": _("vectors"), "reranking": _("ratings")}
    word = names.get(facts.purpose) or (facts.purpose if facts.purpose in NO_ANSWERS else "")
    return ", ".join(part for part in (word, _pooling(facts)) if part)


def _pooling(facts: GgufFacts) -> str:
    return _("pooling %(kind)s") % {"kind": facts.pooling} if facts.pooling else ""


def _adapter(facts: GgufFacts) -> str:
    if not facts.adapter.kind:
        return ""
    return f"{facts.adapter.kind}, alpha {number_format(facts.adapter.alpha)}"


def _shape(facts: GgufFacts) -> list[Line]:
    heads, experts = facts.heads, facts.experts
    num_states = sum(1 for state in facts.layers.state if state)
    num_windows = sum(facts.layers.is_windowed)
    words = [str(facts.num_layers)] if facts.num_layers else []
    if num_states:
        words.append(_("%(count)d with a state") % {"count": num_states})
    if num_windows:
        about = {"count": num_windows, "length": heads.window_len}
        words.append(_("%(count)d with a window of %(length)d tokens") % about)
    return [
        (_("trained context"), number_format(facts.context_len, force_grouping=True)),
        (_("embedding length"), _number(facts.embedding_len)),
        (_("layers"), ", ".join(words)),
        (_("attention heads"), _heads(facts)),
        (
            _("experts"),
            _("%(used)d of %(count)d") % {"used": experts.num_used, "count": experts.num}
            if experts.num
            else "",
        ),
    ]


def _heads(facts: GgufFacts) -> str:
    heads = facts.heads
    if not heads.num:
        return ""
    return _("%(count)d, %(kv)d of keys and values, %(key)d and %(value)d numbers each") % {
        "count": heads.num,
        "kv": heads.num_kv,
        "key": heads.key_len,
        "value": heads.value_len,
    }


def _positions(facts: GgufFacts) -> list[Line]:
    rope = facts.rope
    words = [] if rope.kind == "none" else [rope.kind]
    if rope.scaling:
        words.append(f"{rope.scaling} × {number_format(rope.factor)}")
    return [(_("positions"), ", ".join(words))]


def _texts(file: ModelFile, facts: GgufFacts) -> list[Line]:
    tokens = facts.tokens
    vocabulary = ", ".join(part for part in (tokens.model, tokens.pre, _number(tokens.num)) if part)
    return [(_("vocabulary"), vocabulary), (_("its template takes"), template_words(file))]


def template_words(file: ModelFile) -> str:
    """What the main chat template can take, or why it can't be used."""
    found: Any = file.template_facts
    if "error" in found:
        return str(found["error"])
    can = found.get("can")
    if not isinstance(can, dict):
        return ""
    words = {
        "system": _("a system message"),
        "later_system": _("system messages anywhere"),
        "role_runs": _("several messages in a row"),
        "typed_content": _("parts"),
        "tool_calls": _("tool calls"),
    }
    return ", ".join(word for name, word in words.items() if can.get(name)) or _("plain turns only")


def _number(count: int) -> str:
    return number_format(count, force_grouping=True) if count else ""


def _definitions(lines: list[Line]) -> str:
    return format_html(
        '<dl class="lw-details">{}</dl>', format_html_join("", "<dt>{}</dt><dd>{}</dd>", lines)
    )
