"""The servers of others behind models of engine class "upstream"."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

URL_LEN = 2048
REMOTE_MODEL_LEN = 256


class Upstream(models.Model):
    """How the server behind a model is asked.

    `url`: what `/chat/completions` is put behind. `sealed_key`: its key, encrypted and bound to the
    address's origin, "" for none; written by the service, opened for the engine, shown nowhere.
    """

    class Dialect(models.TextChoices):
        OPENAI = "openai", _("OpenAI")
        LLAMA_SERVER = "llama_server", _("llama-server")

    config = models.OneToOneField(
        "inference.ModelConfig",
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="upstream",
        verbose_name=_("model"),
    )
    url = models.CharField(
        _("address"), max_length=URL_LEN, help_text=_("such as https://api.example.org/v1")
    )
    remote_model = models.CharField(
        _("model there"), max_length=REMOTE_MODEL_LEN, help_text=_("what that server calls it")
    )
    sealed_key = models.TextField(blank=True, editable=False)
    dialect = models.CharField(
        _("dialect"),
        max_length=12,
        choices=Dialect.choices,
        default=Dialect.OPENAI,
        help_text=_("llama-server, and servers like this one, also take its own fields"),
    )
    continues = models.BooleanField(
        _("goes on with an answer"),
        default=False,
        help_text=_("a last message of the assistant is continued by it, not answered"),
    )

    class Meta:
        verbose_name = _("upstream server")
        verbose_name_plural = _("upstream servers")

    def __str__(self) -> str:
        return self.remote_model
