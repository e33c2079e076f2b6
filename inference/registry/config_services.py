"""What an administrator does with models. Each act and its audit event share one transaction.

Engines are started and ended by the supervisor, which reads what is wanted here every second.
`is_default` is changed without touching `updated_at`: a new `updated_at` restarts the engine.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction

from inference.models import MODEL_NAME_LEN, ModelConfig, ModelFile
from inference.protocol.cache_types import check_cache_types
from inference.registry.adapters import adapters_check
from inference.registry.chat_checks import READ_FIELDS, chat_check, reads_check
from inference.registry.config_checks import SERVED as SERVED_PURPOSES
from inference.registry.config_checks import answers_check, purpose_check, serving_check
from inference.registry.config_fields import CALLERS_FIELDS, FIELDS
from inference.registry.files import (
    facts_of,
    file_add,
    file_check,
    model_facts,
    ready_check,
)
from inference.registry.sampling import sampling_check
from inference.registry.selectors import DEFAULT_NAMES, SERVED
from inference.registry.templates import template_check
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record
from llamaweb.lib.errors import InvalidError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

# Beside the default's: addresses of the API below /models.
RESERVED = frozenset({*DEFAULT_NAMES, "load", "unload", "sse"})
MAX_ALIASES = 16
MAX_TAGS = 16
TAG_LEN = 40
Wanted = ModelConfig.Wanted


def name_check(name: str, *, but: int | None = None) -> str:
    """`name`, if a model can be called so.

    Raises:
        InvalidError: out of bounds, reserved, or another model's (whose id isn't `but`).
    """
    try:
        ModelConfig._meta.get_field("name").clean(name, None)
    except ValidationError as error:
        raise InvalidError(" ".join(error.messages), param="name") from error
    if name.lower() in RESERVED:
        raise InvalidError("this name is reserved", param="name")
    if name in names_taken(but=but):
        raise InvalidError("there is a model of this name already", param="name")
    return name


def names_taken(*, but: int | None = None) -> set[str]:
    """Names and aliases of all models, but of the one whose id is `but`."""
    others = ModelConfig.objects.all() if but is None else ModelConfig.objects.exclude(pk=but)
    rows = others.values_list("name", "aliases")
    return {name for main, aliases in rows for name in (main, *aliases)}


def aliases_check(aliases: list[str], *, of: ModelConfig) -> list[str]:
    """`aliases` without doubles, if a model can have them.

    Raises:
        InvalidError: too many, or one can't be used (see `name_check`).
    """
    found = list(dict.fromkeys(aliases))
    if len(found) > MAX_ALIASES:
        raise InvalidError(f"at most {MAX_ALIASES} other names", param="aliases")
    for alias in found:
        if alias == of.name:
            raise InvalidError(f"{alias} is its name already", param="aliases")
        try:
            name_check(alias, but=of.pk)
        except InvalidError as error:
            raise InvalidError(
                f"{alias[:MODEL_NAME_LEN]}: {error.message}", param="aliases"
            ) from error
    return found


def tags_check(tags: list[str]) -> list[str]:
    """`tags` without doubles.

    Raises:
        InvalidError: too many, or one is too long or can't be shown.
    """
    found = list(dict.fromkeys(tags))
    if len(found) > MAX_TAGS or not all(0 < len(t) <= TAG_LEN and t.isprintable() for t in found):
        raise InvalidError(
            f"at most {MAX_TAGS} tags of up to {TAG_LEN} printable characters", param="tags"
        )
    return found


def model_config_add(
    *,
    name: str,
    path: str,
    load: bool = False,
    actor: User | None = None,
    address: str | None = None,
) -> ModelConfig:
    """A model of a file that lies on this server.

    Raises:
        InvalidError: the name can't be used, or there is no model in the file.
    """
    name_check(name)
    found = file_check(path)
    with transaction.atomic():
        name_check(name)
        file = file_add(found, created_by=actor)
        return config_of_file(file, name=name, load=load, actor=actor, address=address)


def config_of_file(
    file: ModelFile,
    *,
    name: str,
    load: bool,
    context_len: int = 0,
    actor: User | None,
    address: str | None = None,
) -> ModelConfig:
    """A model of a `ready` file, under a checked name; in a transaction.

    Raises:
        InvalidError: it isn't one that answers.
    """
    facts = model_facts(file)
    if facts is not None:
        purpose_check(facts)
    writes = facts is None or facts.purpose not in SERVED_PURPOSES
    config = ModelConfig.objects.create(
        name=name,
        file=file,
        wanted=Wanted.LOADED if load else Wanted.ON_DEMAND,
        is_default=writes and not ModelConfig.objects.filter(is_default=True).exists(),
        num_slots=settings.ENGINE_SLOTS,
        context_len=context_len,
        threads=settings.ENGINE_THREADS,
        gpu_layers=settings.GPU_LAYERS,
        kv_layout=settings.ENGINE_KV,
    )
    return config_added(config, actor=actor, address=address, file=str(file))


def config_added(
    config: ModelConfig, *, actor: User | None, address: str | None, **computed_by: str
) -> ModelConfig:
    """`config`, which is new, with an audit event that says what computes it."""
    audit_record(
        action=AuditAction.MODEL_CONFIG_ADDED,
        actor=actor,
        target=config,
        address=address,
        name=config.name,
        wanted=config.wanted,
        **computed_by,
    )
    return config


def model_config_of(
    *, file: ModelFile, actor: User | None = None, address: str | None = None
) -> ModelConfig:
    """A model of a file that is known already, under a free name like the file's; not loaded.

    Raises:
        InvalidError: it can't be loaded, or isn't a model that answers.
    """
    with transaction.atomic():
        row = ModelFile.objects.select_for_update().get(pk=file.pk)
        ready_check(row)
        if row.role != ModelFile.Role.MODEL or row.main_id is not None:
            raise InvalidError(f"{row} is no model by itself")
        name = free_name(str(row))
        return config_of_file(row, name=name, load=False, actor=actor, address=address)


def free_name(wanted: str) -> str:
    """A name that a model can be called by and that nobody has, as close to `wanted` as can be."""
    stem = re.sub(r"[^A-Za-z0-9._:/-]+", "-", wanted.removesuffix(".gguf")).strip("-._:/")
    stem = stem[: MODEL_NAME_LEN - 8] or "model"
    taken = names_taken()
    names = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    return next(name for name in names if name not in taken and name.lower() not in RESERVED)


def model_config_change(
    *, config: ModelConfig, actor: User | None = None, address: str | None = None
) -> bool:
    """Store what a form changed in `config` (FIELDS); the engine starts anew, if it is any of its
    business. False: nothing.

    Raises:
        InvalidError: the change isn't allowed now; see `change_check`, `adapters_check` and
            `template_check`.
    """
    kept = ModelConfig.objects.only("adapters", "chat_template").get(pk=config.pk)
    if config.adapters != kept.adapters:
        config.adapters = adapters_check(config.adapters, architecture=architecture_of(config))
    if config.chat_template != kept.chat_template:
        template_check(config.chat_template)
    with transaction.atomic():
        before = _locked()[config.pk]  # all: an alias has to be free among the others' names
        changed = [name for name in FIELDS if getattr(before, name) != getattr(config, name)]
        if not changed:
            return False
        change_check(before, config, changed)
        _keep(config, changed, name_before=before.name, actor=actor, address=address)
    return True


def adapters_scale(
    *,
    config: ModelConfig,
    scales: Mapping[int, float],
    actor: User | None = None,
    address: str | None = None,
) -> bool:
    """Keep checked `scales` of the adapters that `config` has now, by their places, 0 for all
    others; what else was changed meanwhile stays. False: nothing changed."""
    with transaction.atomic():
        row = _locked()[config.pk]
        before = row.adapters
        row.adapters = [
            {**one, "scale": scales.get(number, 0.0)} for number, one in enumerate(before)
        ]
        if row.adapters == before:
            return False
        _keep(row, ["adapters"], name_before=row.name, actor=actor, address=address)
    return True


def _keep(
    config: ModelConfig,
    changed: list[str],
    *,
    name_before: str,
    actor: User | None,
    address: str | None,
) -> None:
    """Store the fields `changed` and say so; the engine starts anew where it knows one of them."""
    restarts = [] if CALLERS_FIELDS.issuperset(changed) else ["updated_at"]
    config.save(update_fields=[*changed, *restarts])
    names = {"name_before": name_before} if "name" in changed else {}
    audit_record(
        action=AuditAction.MODEL_CONFIG_CHANGED,
        actor=actor,
        target=config,
        address=address,
        name=config.name,
        changed=changed,
        is_enabled=config.is_enabled,
        **names,
    )


def _locked() -> dict[int, ModelConfig]:
    """All models by their ids, locked in one order by everybody, so that nobody waits in a ring."""
    return {row.pk: row for row in ModelConfig.objects.select_for_update().order_by("pk")}


def change_check(before: ModelConfig, after: ModelConfig, changed: list[str]) -> None:
    """Whether the fields `changed` may go from `before` to `after`.

    The name is the queue's and the conversations': it changes only while nothing is served under
    it, and the environment's model is named by the environment.

    Raises:
        InvalidError: naming the field.
    """
    if "name" in changed:
        name_check(after.name, but=before.pk)
        if before.is_starter:
            raise InvalidError("the environment names this model", param="name")
        if is_served(before):
            raise InvalidError("unload the model before you rename it", param="name")
    if "aliases" in changed or "name" in changed:
        after.aliases = aliases_check(after.aliases, of=after)
    after.tags = tags_check(after.tags)
    after.sampling = sampling_check(after.sampling)
    chat_check(after)
    if not READ_FIELDS.isdisjoint(changed):
        reads_check(after)
    if "is_enabled" in changed and before.is_default and not after.is_enabled:
        raise InvalidError("make another model the default first", param="is_enabled")
    check_cache_types(
        cache_type_k=after.cache_type_k,
        cache_type_v=after.cache_type_v,
        flash_attention=after.flash_attention,
    )
    facts = None if after.file is None else model_facts(after.file)
    serving_check(facts, {name: getattr(after, name) for name in FIELDS})


def architecture_of(config: ModelConfig) -> str:
    """Of its file, "" where that isn't known before an engine has loaded it."""
    return config.file.architecture if config.file is not None else ""


def is_served(config: ModelConfig) -> bool:
    """Whether an engine is to run for it, now or when a request waits for one."""
    return config.is_enabled and config.wanted in SERVED


def model_config_delete(
    *, config: ModelConfig, actor: User | None = None, address: str | None = None
) -> None:
    """Forget a model; its file stays.

    Raises:
        InvalidError: it is the default, the environment's, or loaded.
    """
    with transaction.atomic():
        row = ModelConfig.objects.select_for_update().get(pk=config.pk)
        reason = delete_refusal(row)
        if reason:
            raise InvalidError(reason)
        audit_record(
            action=AuditAction.MODEL_CONFIG_DELETED,
            actor=actor,
            target=row,
            address=address,
            name=row.name,
        )
        row.delete()


def delete_refusal(config: ModelConfig) -> str:
    """Why a model can't be deleted now; "" if it can."""
    if config.is_default:
        return f"{config.name} is the default model; make another one the default first"
    if config.is_starter:
        return f"{config.name} comes from the environment and would come back; disable it"
    if is_served(config):
        return f"{config.name} is loaded; unload it first"
    return ""


def model_default_set(
    *, config: ModelConfig, actor: User | None = None, address: str | None = None
) -> bool:
    """Make `config` the default, the only one. False: it was.

    Raises:
        InvalidError: it is disabled, or writes no answers.
    """
    with transaction.atomic():
        rows = _locked()
        row = rows[config.pk]
        if row.is_default:
            return False
        if not row.is_enabled:
            raise InvalidError(f"{row.name} is disabled; enable it first")
        facts = facts_of(row.file) if row.file is not None else None
        if facts is not None:
            answers_check(facts)
        before = next((other.name for other in rows.values() if other.is_default), "")
        ModelConfig.objects.filter(is_default=True).update(is_default=False)
        ModelConfig.objects.filter(pk=row.pk).update(is_default=True)
        audit_record(
            action=AuditAction.MODEL_DEFAULT_SET,
            actor=actor,
            target=row,
            address=address,
            name=row.name,
            name_before=before,
        )
    return True
