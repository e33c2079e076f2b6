"""What may be loaded, and what became of every owned generation."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models

MODEL_NAME_LEN = 128
MAX_SLOTS = 64


class ModelConfig(models.Model):
    """How one model is to be served. `model_path` "" with class "llama" is the starter model."""

    class FlashAttention(models.TextChoices):
        AUTO = "auto"
        ON = "on"
        OFF = "off"

    name = models.CharField(
        max_length=MODEL_NAME_LEN,
        unique=True,
        validators=[
            RegexValidator(
                r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$",
                "letters, digits and . _ : / - only, beginning with a letter or digit",
            )
        ],
    )
    engine_class = models.CharField(max_length=200, default="llama")
    model_path = models.CharField(max_length=4096, blank=True)
    is_default = models.BooleanField(default=False)
    is_starter = models.BooleanField(default=False, help_text="kept in step with the environment")
    is_enabled = models.BooleanField(default=True)
    num_slots = models.PositiveIntegerField(
        default=4, validators=[MinValueValidator(1), MaxValueValidator(MAX_SLOTS)]
    )
    context_len = models.PositiveIntegerField(
        default=0, help_text="tokens a slot; 0: the smaller of the model's and 8,192"
    )
    threads = models.PositiveIntegerField(default=0, help_text="0: cores - 1")
    flash_attention = models.CharField(
        max_length=4, choices=FlashAttention.choices, default=FlashAttention.AUTO
    )
    gpu_layers = models.IntegerField(default=0, help_text="layers on the GPU; -1: all")
    main_gpu = models.PositiveIntegerField(default=0)
    tensor_split = models.JSONField(default=list, blank=True)
    chat_template = models.TextField(blank=True, help_text="overrides the model's own")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"], condition=models.Q(is_default=True), name="one_default_model"
            ),
            models.UniqueConstraint(
                fields=["is_starter"], condition=models.Q(is_starter=True), name="one_starter_model"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Generation(models.Model):
    """An owned generation: the durable side of a request with `keep`.

    The row is committed before the request is queued, and is the truth about what became of it.
    States move by guarded updates only: queued → finished | cancelled | failed | interrupted.
    """

    class State(models.TextChoices):
        QUEUED = "queued"
        FINISHED = "finished"
        CANCELLED = "cancelled"
        FAILED = "failed"
        INTERRUPTED = "interrupted"

    id = models.CharField(primary_key=True, max_length=64)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="generations"
    )
    model_name = models.CharField(max_length=MODEL_NAME_LEN)
    request = models.TextField(help_text="the GenerateRequest as JSON")
    state = models.CharField(max_length=12, choices=State.choices, default=State.QUEUED)
    parts = models.JSONField(default=list, help_text="[kind, text] runs of the answer")
    finish_reason = models.CharField(max_length=32, blank=True)
    error_code = models.CharField(max_length=32, blank=True)
    error_message = models.TextField(blank=True)
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    cached_tokens = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    missing_since = models.DateTimeField(
        null=True, blank=True, help_text="since when the queue doesn't know it"
    )
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["created_at"],
                condition=models.Q(state="queued"),
                name="generation_open",
            )
        ]

    def __str__(self) -> str:
        return self.id
