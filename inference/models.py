"""What may be loaded, and what became of every owned generation."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from inference.calibration_models import Calibration as Calibration  # Django looks for them here
from inference.calibration_models import MachineProbe as MachineProbe
from inference.protocol.cache_types import CACHE_TYPES
from inference.protocol.vectors import EUCLIDEAN, MAX_NORM, UNCHANGED
from inference.response_models import StoredResponse as StoredResponse
from inference.upstream_models import Upstream as Upstream
from inference.usage_models import UsageRecord as UsageRecord
from inference.use_models import ModelUse

MODEL_NAME_LEN = 128
MAX_SLOTS = 64
MAX_CONTEXT_LEN = 16_777_216
MAX_UBATCH_LEN = 2048  # the batch that an engine computes in pieces of this
PATH_LEN = 4096
URL_LEN = 2048
SHA256_LEN = 64
HEADER_TEXT_LEN = 128  # kept of a name in a file's header
SIGNATURE_LEN = 128  # device, inode, size and times

CACHE_TYPE_CHOICES = [(name, name) for name in CACHE_TYPES]

name_validator = RegexValidator(
    r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$",
    _("letters, digits and . _ : / - only, beginning with a letter or digit"),
)


class ModelFile(models.Model):
    """A GGUF file on this server, or one on its way here.

    `queued` → `downloading` → `ready` | `failed` | `cancelled`, by guarded updates, and `paused`
    until somebody resumes it; an upload is `uploading` instead. What was ready and isn't any more
    is `missing`, `incomplete` (a shard is) or `damaged`, and `error` says why; it becomes ready
    again when the file does. Only a `ready` file can be served.

    A model of several files is a row for each: `main` is the one that is loaded (the first shard),
    None for that itself; its state, and the sums in its `facts`, are those of all shards. Two
    models of one folder share what lies beside them, so a path may have a row for each.

    `path`: absolute, "" until it is ready. `is_owned`: we put it into the data directory and may
    remove it again. `size` in bytes, None while it isn't known. `label`: the model's name in the
    models directory. `facts`: what its header says, see `inference.registry.gguf.facts`.
    `templates`: its chat templates by name, "" the main one; `template_facts`: what the main one
    can take, or the reason why it can't be used. `signature`: of the file that was read. `etag`:
    what the source called the version that is being fetched. `bytes_done`: safely on the disk.
    `taken_by` and `heartbeat_at`: the job that fetches it, and its last sign of life.
    `config_name`: the model that is made of it when it is ready, "" for none, with
    `config_context_len` tokens a slot (0: the usual). `expected_sha256` and `expected_size`: what
    a file on its way has to have; its `sha256` is set once that was checked.
    """

    class State(models.TextChoices):
        QUEUED = "queued", _("waiting")
        DOWNLOADING = "downloading", _("downloading")
        PAUSED = "paused", _("paused")
        UPLOADING = "uploading", _("uploading")
        READY = "ready", _("ready")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")
        MISSING = "missing", _("missing")
        INCOMPLETE = "incomplete", _("incomplete")
        DAMAGED = "damaged", _("damaged")

    class Role(models.TextChoices):
        MODEL = "model", _("model")
        SHARD = "shard", _("part of a model")
        MMPROJ = "mmproj", _("image or audio encoder")
        DRAFT = "draft", _("draft model")
        ADAPTER = "adapter", _("adapter")
        OTHER = "other", _("other")

    path = models.CharField(_("path"), max_length=PATH_LEN, blank=True)
    role = models.CharField(_("role"), max_length=7, choices=Role.choices, default=Role.MODEL)
    main = models.ForeignKey(
        "self",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="parts",
        verbose_name=_("part of"),
    )
    label = models.CharField(_("name"), max_length=PATH_LEN, blank=True)
    is_owned = models.BooleanField(_("downloaded by us"), default=False)
    state = models.CharField(_("state"), max_length=11, choices=State.choices, default=State.QUEUED)
    size = models.PositiveBigIntegerField(_("size"), null=True, blank=True)
    bytes_done = models.PositiveBigIntegerField(default=0)
    source_url = models.CharField(_("source"), max_length=URL_LEN, blank=True)
    expected_sha256 = models.CharField(max_length=SHA256_LEN, blank=True)
    expected_size = models.PositiveBigIntegerField(null=True, blank=True)
    sha256 = models.CharField("SHA-256", max_length=SHA256_LEN, blank=True)
    etag = models.CharField(max_length=256, blank=True)
    error = models.CharField(_("error"), max_length=500, blank=True)
    architecture = models.CharField(_("architecture"), max_length=HEADER_TEXT_LEN, blank=True)
    title = models.CharField(_("name in the file"), max_length=HEADER_TEXT_LEN, blank=True)
    context_len = models.PositiveBigIntegerField(_("trained context"), default=0)
    has_chat_template = models.BooleanField(_("chat template"), default=False)
    facts = models.JSONField(default=dict, blank=True)
    templates = models.JSONField(default=dict, blank=True)
    template_facts = models.JSONField(default=dict, blank=True)
    signature = models.CharField(max_length=SIGNATURE_LEN, blank=True)
    config_name = models.CharField(max_length=MODEL_NAME_LEN, blank=True)
    config_context_len = models.PositiveIntegerField(default=0)
    load_when_ready = models.BooleanField(default=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("added by"),
    )
    taken_by = models.CharField(max_length=64, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(_("added"), auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name = _("model file")
        verbose_name_plural = _("model files")
        constraints = [
            models.UniqueConstraint(
                fields=["path"],
                condition=models.Q(main=None) & ~models.Q(path=""),
                name="one_file_a_path",
            ),
            models.UniqueConstraint(
                fields=["main", "path"],
                condition=models.Q(main__isnull=False) & ~models.Q(path=""),
                name="one_part_a_path",
            ),
        ]

    def __str__(self) -> str:
        """The model's or the file's name; the whole path says too much in a list."""
        if self.label:
            return self.label
        named = self.path or self.source_url.partition("?")[0]
        return named.rstrip("/").rpartition("/")[2] or str(self.pk)

    @property
    def is_open(self) -> bool:
        """Whether it is still on its way."""
        return self.state in (self.State.QUEUED, self.State.DOWNLOADING)


class ModelConfig(ModelUse):
    """How one model is to be served.

    The file is `file`, or for what the environment describes `model_path` ("" with class "llama":
    the starter model). `wanted` is what an administrator asked for, and the supervisor brings
    about: `loaded` while there is room, `auto` from the first request that waits for it until
    others need the room, `drained` lets running answers end first, `unloaded` gives them seconds.
    `restart_at`: when its engine was last to start anew.
    """

    class FlashAttention(models.TextChoices):
        AUTO = "auto", _("auto")
        ON = "on", _("on")
        OFF = "off", _("off")

    class KvLayout(models.TextChoices):
        AUTO = "auto", _("auto")
        STREAMS = "streams", _("each slot its own")
        UNIFIED = "unified", _("one pool for all slots")

    class Pooling(models.TextChoices):
        AUTO = "auto", _("as the file says")
        NONE = "none", _("a vector of each token")
        MEAN = "mean", _("the mean of all tokens")
        CLS = "cls", _("the first token")
        LAST = "last", _("the last token")
        RANK = "rank", _("a score")

    class Wanted(models.TextChoices):
        LOADED = "loaded", _("loaded")
        ON_DEMAND = "auto", _("on demand")
        DRAINED = "drained", _("drained")
        UNLOADED = "unloaded", _("not loaded")

    name = models.CharField(
        _("name"), max_length=MODEL_NAME_LEN, unique=True, validators=[name_validator]
    )
    file = models.ForeignKey(
        ModelFile,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="configs",
        verbose_name=_("file"),
    )
    engine_class = models.CharField(_("engine class"), max_length=200, default="llama")
    model_path = models.CharField(_("path"), max_length=PATH_LEN, blank=True)
    is_default = models.BooleanField(_("default"), default=False)
    is_starter = models.BooleanField(
        _("from the environment"), default=False, help_text=_("kept in step with the environment")
    )
    is_enabled = models.BooleanField(_("enabled"), default=True)
    wanted = models.CharField(
        _("wanted"), max_length=8, choices=Wanted.choices, default=Wanted.ON_DEMAND
    )
    is_pinned = models.BooleanField(
        _("pinned"), default=False, help_text=_("never unloaded for another model")
    )
    restart_at = models.DateTimeField(null=True, blank=True, editable=False)
    num_slots = models.PositiveIntegerField(
        _("slots"),
        default=4,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_SLOTS)],
        help_text=_("answers written side by side"),
    )
    context_len = models.PositiveIntegerField(
        _("context"),
        default=0,
        validators=[MaxValueValidator(MAX_CONTEXT_LEN)],
        help_text=_("tokens a slot; 0: the smaller of the model's and 8,192"),
    )
    threads = models.PositiveIntegerField(
        _("threads"),
        default=0,
        validators=[MaxValueValidator(1024)],
        help_text=_("0: auto, cores - 1 or what is measured to be faster"),
    )
    flash_attention = models.CharField(
        _("flash attention"),
        max_length=4,
        choices=FlashAttention.choices,
        default=FlashAttention.AUTO,
    )
    kv_layout = models.CharField(
        _("KV layout"),
        max_length=7,
        choices=KvLayout.choices,
        default=KvLayout.AUTO,
        help_text=_("where what was computed of prompts and answers lies"),
    )
    ubatch_len = models.PositiveIntegerField(
        _("micro-batch"),
        default=0,
        validators=[MaxValueValidator(MAX_UBATCH_LEN)],
        help_text=_("tokens computed in one pass; 0: auto, 512 or what is measured to be faster"),
    )
    cache_type_k = models.CharField(
        _("type of keys"), max_length=8, choices=CACHE_TYPE_CHOICES, default="f16"
    )
    cache_type_v = models.CharField(
        _("type of values"),
        max_length=8,
        choices=CACHE_TYPE_CHOICES,
        default="f16",
        help_text=_("smaller than 16 bits: needs flash attention"),
    )
    load_mode = models.CharField(
        _("load mode"),
        max_length=8,
        choices=[
            ("auto", _("as llama.cpp thinks best")),
            ("read", _("read into memory")),
            ("map", _("mapped from the file")),
            ("lock", _("read, never swapped out")),
            ("map_lock", _("mapped, never swapped out")),
            ("direct", _("read past the page cache")),
        ],
        default="auto",
    )
    gpu_layers = models.IntegerField(
        _("GPU layers"),
        default=0,
        validators=[MinValueValidator(-1), MaxValueValidator(10_000)],
        help_text=_("layers on the GPU; -1: all"),
    )
    split_mode = models.CharField(
        _("split mode"),
        max_length=8,
        choices=[
            ("layer", _("whole layers to each GPU")),
            ("row", _("rows of matrices to all GPUs")),
            ("tensor", _("tensors to all GPUs")),
            ("none", _("everything to the main GPU")),
        ],
        default="layer",
    )
    main_gpu = models.PositiveIntegerField(_("main GPU"), default=0)
    tensor_split = models.JSONField(_("tensor split"), default=list, blank=True)
    chat_template = models.TextField(
        _("chat template"), blank=True, help_text=_("overrides the model's own")
    )
    special_tokens = models.BooleanField(
        _("show special tokens"), default=False, help_text=_("their text is part of answers")
    )
    pooling = models.CharField(
        _("pooling"),
        max_length=4,
        choices=Pooling.choices,
        default=Pooling.AUTO,
        help_text=_("what becomes the vector of a text"),
    )
    vector_norm = models.IntegerField(
        _("normalisation"),
        default=EUCLIDEAN,
        validators=[MinValueValidator(UNCHANGED), MaxValueValidator(MAX_NORM)],
        help_text=_(
            "of vectors, where a request doesn't say; 2: length 1; other p: divided by the p-norm; "
            "0: the largest number becomes 32,760; -1: as they are"
        ),
    )
    adapters = models.JSONField(
        _("LoRA adapters"),
        default=list,
        blank=True,
        help_text=_(
            'such as [{"path": "style.gguf", "scale": 1, "name": "style"}]; with scale 0, only '
            "where a request asks for it"
        ),
    )
    created_at = models.DateTimeField(_("added"), auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = _("model")
        verbose_name_plural = _("models")
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
        QUEUED = "queued", _("queued")
        FINISHED = "finished", _("finished")
        CANCELLED = "cancelled", _("cancelled")
        FAILED = "failed", _("failed")
        INTERRUPTED = "interrupted", _("interrupted")

    id = models.CharField(primary_key=True, max_length=64)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="generations",
        verbose_name=_("owner"),
    )
    model_name = models.CharField(_("model"), max_length=MODEL_NAME_LEN)
    request = models.TextField(help_text="the GenerateRequest as JSON")
    state = models.CharField(_("state"), max_length=12, choices=State.choices, default=State.QUEUED)
    parts = models.JSONField(default=list, help_text="[kind, text] runs of the answer")
    finish_reason = models.CharField(_("ended by"), max_length=32, blank=True)
    error_code = models.CharField(_("error"), max_length=32, blank=True)
    error_message = models.TextField(blank=True)
    prompt_tokens = models.PositiveIntegerField(_("prompt tokens"), default=0)
    completion_tokens = models.PositiveIntegerField(_("answer tokens"), default=0)
    cached_tokens = models.PositiveIntegerField(_("cached tokens"), default=0)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    missing_since = models.DateTimeField(
        null=True, blank=True, help_text="since when the queue doesn't know it"
    )
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        verbose_name = _("generation")
        verbose_name_plural = _("generations")
        indexes = [
            models.Index(
                fields=["created_at"],
                condition=models.Q(state="queued"),
                name="generation_open",
            )
        ]

    def __str__(self) -> str:
        return self.id
