"""Models that another server computes: add one, change how it is asked, open its key.

The key is encrypted under the installation's secret key and bound to the origin of the address:
whoever can change the address, but doesn't know the key, can't have it sent elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from inference.models import ModelConfig
from inference.registry.chat_checks import dialect_check
from inference.registry.config_services import config_added, name_check
from inference.upstream_models import REMOTE_MODEL_LEN, URL_LEN, Upstream
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record
from llamaweb.lib.errors import FailedError, InvalidError
from llamaweb.lib.outbound import check_url
from llamaweb.lib.sealing import UnsealError, seal, unseal

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

ENGINE_CLASS = "upstream"
FIELDS = ("url", "remote_model", "dialect", "continues")  # what a form may change, beside the key
MAX_KEY_CHARS = 4096
ENDINGS = ("/chat/completions", "/completions", "/models")  # which we put behind it ourselves
PORTS = {"http": 80, "https": 443}
Wanted = ModelConfig.Wanted


def url_check(url: str) -> str:
    """`url` without a slash at its end.

    Raises:
        InvalidError: not an address that can be asked, or more than its beginning.
    """
    if len(url) > URL_LEN:
        raise InvalidError("this address is too long", param="url")
    parsed = check_url(url)
    if "?" in url or "#" in url or parsed.path.rstrip("/").endswith(ENDINGS):
        raise InvalidError(
            "give the address up to where /chat/completions follows, such as "
            "https://api.example.org/v1",
            param="url",
        )
    return url.rstrip("/")


def key_check(key: str) -> str:
    """`key`, if it can stand in a header.

    Raises:
        InvalidError: it can't.
    """
    if len(key) > MAX_KEY_CHARS or not key.isascii() or not all("!" <= c <= "~" for c in key):
        raise InvalidError("a key has printable characters only, without spaces", param="key")
    return key


def remote_model_check(name: str) -> str:
    """`name`, if a model may be called so elsewhere.

    Raises:
        InvalidError: it may not.
    """
    if not 0 < len(name) <= REMOTE_MODEL_LEN or not name.isprintable():
        raise InvalidError("give the name of the model on that server", param="remote_model")
    return name


def origin_of(url: str) -> str:
    """Scheme, host and port of an address: what a key is given for."""
    parsed = check_url(url)
    return f"{parsed.scheme}://{parsed.host}:{parsed.port or PORTS[parsed.scheme]}"


def upstream_add(
    *,
    name: str,
    url: str,
    remote_model: str,
    key: str = "",
    dialect: str = Upstream.Dialect.OPENAI,
    continues: bool = False,
    num_slots: int = 4,
    context_len: int = 0,
    load: bool = False,
    actor: User | None = None,
    address: str | None = None,
) -> ModelConfig:
    """A model that the server at `url` computes. `context_len` 0: as that server says.

    Raises:
        InvalidError: naming the field.
    """
    with transaction.atomic():
        upstream = Upstream(
            url=url_check(url),
            remote_model=remote_model_check(remote_model),
            dialect=dialect,
            continues=continues,
        )
        upstream.sealed_key = _sealed(key, upstream.url)
        config = ModelConfig.objects.create(
            name=name_check(name),
            engine_class=ENGINE_CLASS,
            wanted=Wanted.LOADED if load else Wanted.ON_DEMAND,
            is_default=not ModelConfig.objects.filter(is_default=True).exists(),
            num_slots=num_slots,
            context_len=context_len,
        )
        upstream.config = config
        upstream.save(force_insert=True)
        origin = origin_of(upstream.url)
        return config_added(config, actor=actor, address=address, upstream=origin)


def upstream_change(
    *,
    upstream: Upstream,
    key: str | None = None,
    actor: User | None = None,
    address: str | None = None,
) -> bool:
    """Store what a form changed in `upstream` (FIELDS) and a new `key`, "" for none, None to keep
    the one there is; the engine starts anew. False: nothing changed.

    Raises:
        InvalidError: naming the field; the key, where it was given for another server.
    """
    with transaction.atomic():
        config = ModelConfig.objects.select_for_update().get(pk=upstream.pk)
        before = Upstream.objects.get(pk=upstream.pk)
        upstream.url = url_check(upstream.url)
        remote_model_check(upstream.remote_model)
        changed = [name for name in FIELDS if getattr(before, name) != getattr(upstream, name)]
        change_check(before, url=upstream.url, has_key=key is not None)
        dialect_check(upstream.dialect, config.template_kwargs)
        if key is not None:
            upstream.sealed_key = _sealed(key, upstream.url)
            changed.append("key")
        if not changed:
            return False
        upstream.save()
        ModelConfig.objects.filter(pk=config.pk).update(updated_at=timezone.now())
        audit_record(
            action=AuditAction.MODEL_CONFIG_CHANGED,
            actor=actor,
            target=config,
            address=address,
            name=config.name,
            changed=changed,
            upstream=origin_of(upstream.url),
        )
    return True


def change_check(before: Upstream, *, url: str, has_key: bool) -> None:
    """Whether the address may become `url`, with or without a key of its own.

    Raises:
        InvalidError: the key that is kept was given for another server.
    """
    if before.sealed_key and not has_key and origin_of(url) != origin_of(before.url):
        raise InvalidError(
            "the address is another server's: enter its key, or remove the old one", param="key"
        )


def upstream_key(upstream: Upstream) -> str:
    """The key in clear, for the engine alone; "" for none.

    Raises:
        FailedError: it was stored under another secret key.
    """
    if not upstream.sealed_key:
        return ""
    try:
        return unseal(upstream.sealed_key, key=settings.SECRET_KEY, context=origin_of(upstream.url))
    except UnsealError as error:
        raise FailedError(
            "the upstream's key was stored under another secret key; enter it again"
        ) from error


def _sealed(key: str, url: str) -> str:
    if not key:
        return ""
    return seal(key_check(key), key=settings.SECRET_KEY, context=origin_of(url))
