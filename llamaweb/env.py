"""The environment, typed: the one list of everything that can be set from outside.

`Env` is the table: a field `port` is read from `LLAMAWEB_PORT` (`database_url` from `DATABASE_URL`,
`aip_mode` from `AIP_MODE`) and its metadata make docs/configuration.md. `llamaweb.env_load` reads
and checks it.
"""

# ruff: noqa: RUF009  (`var` returns a dataclass field)

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llamaweb import env_kinds as kinds
from llamaweb.env_kinds import Kind, Network

PREFIX = "LLAMAWEB_"
FILE_SUFFIX = "_FILE"
FOREIGN = ("DATABASE_URL", "AIP_")  # how names begin that others gave
VERTEX_MODE = "PREDICTION"


def var(kind: Kind, default: Any, help_text: str, *, unset: str = "", secret: bool = False) -> Any:
    """A field of `Env`. `unset` says in words what happens without the variable."""
    metadata = {"kind": kind, "help": help_text, "unset": unset, "secret": secret}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Env:
    """Every setting of an instance, checked."""

    # --- address
    host: str = var(kinds.LISTEN_ADDRESS, "127.0.0.1", "Address the web server listens on.")
    port: int = var(kinds.integer(1, 65535), 8000, "Port the web server listens on.")
    public_url: str = var(
        kinds.ORIGIN,
        "",
        "Address people type; https:// turns on secure cookies and HSTS.",
        unset="http://HOST:PORT, with TLS_CERTIFICATE https://HOST:PORT",
    )
    allowed_hosts: tuple[str, ...] = var(
        kinds.listing(kinds.HOST_NAME),
        (),
        "Host names the server answers to.",
        unset="localhost, 127.0.0.1, [::1], HOST and PUBLIC_URL's host",
    )
    trusted_proxies: tuple[Network, ...] = var(
        kinds.listing(kinds.NETWORK),
        (),
        "Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.",
    )
    cors_origins: tuple[str, ...] = var(
        kinds.listing(kinds.ORIGIN_OR_LOCALHOST),
        (),
        "Origins whose pages may call the API, localhost for all of the reader's own machine; "
        "none: no CORS.",
    )
    tls_certificate: Path | None = var(
        kinds.path(),
        None,
        "Certificate with its chain (PEM), for https without a proxy; read again when it changes.",
        unset="no TLS",
    )
    tls_key: Path | None = var(
        kinds.path(), None, "Private key of TLS_CERTIFICATE (PEM).", unset="no TLS"
    )
    tls_client_ca: Path | None = var(
        kinds.path(),
        None,
        "Certificates (PEM) one of which must have signed that of a client; needs TLS_CERTIFICATE.",
        unset="no certificate is asked for",
    )
    email_url: str = var(
        kinds.EMAIL_URL,
        "",
        "Mail server for password resets.",
        unset="no e-mail; an administrator sets new passwords",
        secret=True,
    )
    email_from: str = var(
        kinds.text("an e-mail address", r"[^@\s<>]+@[^@\s<>]+"),
        "",
        "Sender of e-mails.",
        unset="llamaweb@ PUBLIC_URL's host",
    )
    aip_mode: str = var(
        kinds.text(),
        "",
        "PREDICTION, as Vertex AI sets it: its two routes are served.",
        unset="off",
    )
    aip_predict_route: str = var(
        kinds.ROUTE, "/predict", "With AIP_MODE: where predictions are asked for."
    )
    aip_health_route: str = var(
        kinds.ROUTE, "/health", "With AIP_MODE: where it is asked whether an engine is ready."
    )
    aip_http_port: int = var(
        kinds.integer(1, 65535), 8080, "With AIP_MODE: the port, where LLAMAWEB_PORT isn't set."
    )
    # --- state
    data_dir: Path = var(
        kinds.path(),
        Path("var"),
        "Folder for everything this instance keeps (mode 0700).",
    )
    database_url: str = var(
        kinds.DATABASE_URL,
        "",
        "Database.",
        unset="SQLite, DATA_DIR/db.sqlite3",
        secret=True,
    )
    database_pool: int = var(
        kinds.integer(1, 200), 10, "PostgreSQL connections a process holds at most."
    )
    redis_url: str = var(
        kinds.REDIS_URL,
        "",
        "Redis or Valkey server.",
        unset="an embedded server on a socket in DATA_DIR/run",
        secret=True,
    )
    redis_prefix: str = var(
        kinds.text("letters, digits and . _ : -", r"[A-Za-z0-9._:-]{1,64}"),
        "llamaweb:",
        "Start of every Redis key; give each instance on one server its own.",
    )
    # --- engine
    model: Path | None = var(
        kinds.path(), None, "GGUF file of the first model.", unset="the starter model"
    )
    engine: str = var(
        kinds.choice("llama", "mock"), "llama", "Engine class; mock needs no model and no CPU."
    )
    engine_classes: tuple[str, ...] = var(
        kinds.listing(kinds.DOTTED_PATH),
        (),
        "Engine classes of your own that administrators may make models of.",
    )
    engine_slots: int = var(kinds.integer(1, 64), 4, "Generations one engine runs side by side.")
    engine_context: int = var(
        kinds.integer(0, 16_777_216), 0, "Tokens a slot; 0: the smaller of the model's and 8192."
    )
    engine_threads: int = var(
        kinds.integer(0, 1024), 0, "Threads an engine; 0: cores - 1, or all where that is faster."
    )
    engine_step_ms: float = var(
        kinds.decimal(5, 60_000),
        200.0,
        "Milliseconds a step with prompt work may stall answers that are being written.",
    )
    engine_cache_mib: int = var(
        kinds.integer(0, 1_048_576), 512, "Memory for evicted prompts an engine, in MiB; 0: none."
    )
    engine_kv: str = var(
        kinds.choice("auto", "streams", "unified"),
        "auto",
        "KV memory: each slot its own, or one pool of ENGINE_CONTEXT tokens for all slots; auto: "
        "what is measured to be faster, with as much room as streams have.",
    )
    engine_calibration: bool = var(
        kinds.FLAG,
        True,
        "Measure once, before its first start on a machine, how a model is served best there.",
    )
    engine_context_shift: bool = var(
        kinds.FLAG, False, "A full context drops its older half instead of ending the answer."
    )
    engine_yields_cores: bool = var(
        kinds.FLAG, True, "Engines compute with fewer threads while other processes need the cores."
    )
    engine_memory_mib: int = var(
        kinds.integer(0, 67_108_864),
        0,
        "Memory that all engines may take together, in MiB; 0: what others leave, but a reserve.",
    )
    engine_gpu_memory_mib: int = var(
        kinds.integer(0, 67_108_864),
        0,
        "Memory of all GPUs that engines may take together, in MiB; 0: what was free before the "
        "first engine took some, but a reserve.",
    )
    engine_max_loaded: int = var(
        kinds.integer(0, 1000), 0, "Models in memory at the same time; 0: as many as fit."
    )
    gpu_layers: int = var(kinds.integer(-1, 10_000), 0, "Layers put on the GPU; -1: all.")
    mock_reply: str = var(kinds.text(), "", "Mock: the answer; empty: echo the last message.")
    mock_load_ms: float = var(kinds.decimal(0, 60_000), 0.0, "Mock: milliseconds a load.")
    mock_delay_ms: float = var(kinds.decimal(0, 60_000), 0.0, "Mock: milliseconds a decode step.")
    mock_prefill_ms_per_token: float = var(
        kinds.decimal(0, 60_000), 0.0, "Mock: milliseconds a prompt token."
    )
    mock_fail_after: int = var(
        kinds.integer(0, 10**9), 0, "Mock: fail a generation after that many tokens; 0: never."
    )
    mock_crash_after: int = var(
        kinds.integer(0, 10**9), 0, "Mock: die after that many tokens of the process; 0: never."
    )
    mock_memory_mib: int = var(
        kinds.integer(0, 67_108_864), 0, "Mock: MiB of memory that each model claims to need."
    )
    # --- bounds
    web_workers: int = var(kinds.integer(1, 64), 1, "Web processes sharing the port.")
    web_max_connections: int = var(
        kinds.integer(1, 100_000), 1000, "Open connections a web process; more are turned away."
    )
    max_body_bytes: int = var(
        kinds.integer(1024, 1024**3), 10 * 1024**2, "Largest request body, in bytes."
    )
    request_timeout_s: int = var(
        kinds.integer(1, 86_400), 600, "Seconds after which a request is given up wherever it is."
    )
    max_queued: int = var(kinds.integer(1, 100_000), 256, "Requests that wait for one model.")
    max_queued_per_owner: int = var(
        kinds.integer(1, 100_000), 64, "Requests of one user that wait for one model."
    )
    max_resumable_per_owner: int = var(
        kinds.integer(1, 1024),
        32,
        "Answers in streams that one user can take up again; each keeps 4 MiB at most.",
    )
    stream_keep_s: int = var(
        kinds.integer(1, 86_400),
        300,
        "Seconds that an ended answer's log is kept: so long its stream can be taken up again.",
    )
    max_responses: int = var(
        kinds.integer(1, 100_000), 1000, "Responses of the API that are stored for one user."
    )
    response_days: int = var(
        kinds.integer(1, 3650), 30, "Days a stored response is kept since it was last gone on from."
    )
    key_rate: int = var(
        kinds.integer(0, 1_000_000), 0, "Requests a minute with one API key; 0: no limit."
    )
    key_burst: int = var(
        kinds.integer(0, 1_000_000),
        0,
        "Of KEY_RATE, requests that may come at once; 0: all of a minute.",
    )
    address_rate: int = var(
        kinds.integer(0, 1_000_000),
        0,
        "API requests a minute without a key from one address (IPv6: one /64); 0: no limit.",
    )
    user_streams: int = var(
        kinds.integer(0, 100_000), 0, "Answers of one user at a time, over the API; 0: no limit."
    )
    user_tokens_minute: int = var(
        kinds.integer(0, 10**12),
        0,
        "Tokens of prompts and answers a minute for one user, over the API; 0: no limit.",
    )
    user_tokens_day: int = var(
        kinds.integer(0, 10**12), 0, "The same within 24 hours, chats included; 0: no limit."
    )
    key_tokens_minute: int = var(
        kinds.integer(0, 10**12), 0, "Tokens a minute with one API key; 0: no limit."
    )
    key_tokens_day: int = var(kinds.integer(0, 10**12), 0, "The same within 24 hours; 0: no limit.")
    max_request_tokens: int = var(
        kinds.integer(0, 16_777_216),
        0,
        "Tokens that one API request may have generated, all its answers together; 0: as many as "
        "fit the context.",
    )
    usage_keep_days: int = var(
        kinds.integer(0, 36_500), 90, "Days that the usage ledger goes back; 0: none is kept."
    )
    failed_key_rate: int = var(
        kinds.integer(1, 1_000_000), 30, "Wrong API keys a minute from one address (IPv6: one /64)."
    )
    login_rate: int = var(
        kinds.integer(1, 1_000_000), 10, "Failed logins a minute for one address and user name."
    )
    login_address_rate: int = var(
        kinds.integer(1, 1_000_000),
        100,
        "Failed logins a minute from one address (IPv6: one /64), whatever the user name.",
    )
    sse_ping_s: int = var(
        kinds.integer(1, 3600), 15, "Seconds of silence after which a stream says it is alive."
    )
    download_max_bytes: int = var(
        kinds.integer(1024**2, 1024**5),
        256 * 1024**3,
        "Largest model fetched or uploaded, in bytes.",
    )
    hub_url: str = var(
        kinds.ORIGIN, "https://huggingface.co", "Hub that user/repository:QUANT is fetched from."
    )
    hub_token: str = var(
        kinds.SECRET,
        "",
        "Token for the hub, for models that not everybody may fetch; sent to no other host.",
        unset="no token",
        secret=True,
    )
    upstream_idle_s: float = var(
        kinds.decimal(1, 3600), 300.0, "Seconds of silence after which an upstream is given up."
    )
    outbound_allow: tuple[str | Network, ...] = var(
        kinds.listing(kinds.NAME_OR_NETWORK),
        (),
        "Hosts and networks that may be asked though their addresses aren't public.",
        unset="public addresses only",
    )
    # --- watching
    metrics_token: str = var(
        kinds.SECRET,
        "",
        "Bearer token of /metrics.",
        unset="generated, DATA_DIR/keys/metrics_token",
        secret=True,
    )
    secret_key: str = var(
        kinds.SECRET,
        "",
        "Key that signs sessions and links.",
        unset="generated, DATA_DIR/keys/django_secret",
        secret=True,
    )
    api_key_hmac_key: str = var(
        kinds.SECRET,
        "",
        "Key under which API keys are stored; changing it voids all of them.",
        unset="generated, DATA_DIR/keys/api_key_hmac",
        secret=True,
    )
    log_level: str = var(
        kinds.choice("DEBUG", "INFO", "WARNING", "ERROR"), "INFO", "Least severe level logged."
    )
    log_json: bool = var(kinds.FLAG, False, "Log one JSON object a line.")
    # --- development
    debug: bool = var(kinds.FLAG, False, "Development only; refused unless HOST is loopback.")
    vite_port: int = var(kinds.integer(1, 65535), 5173, "Development: port of the Vite server.")

    @property
    def vertex_routes(self) -> tuple[str, ...]:
        """Addresses of predictions and of health for Vertex AI, none outside of it."""
        is_on = self.aip_mode == VERTEX_MODE
        return (self.aip_predict_route, self.aip_health_route) if is_on else ()

    @property
    def url(self) -> str:
        """The public address without a slash at the end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "http" if self.tls_certificate is None else "https"
        return self.public_url or f"{scheme}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Variable:
    """One row of the table."""

    name: str
    field: str
    kind: Kind
    default: Any
    help: str
    unset: str
    secret: bool


def _variable(field: dataclasses.Field[Any]) -> Variable:
    bare = field.name.upper()
    name = bare if bare.startswith(FOREIGN) else PREFIX + bare
    return Variable(name=name, field=field.name, default=field.default, **field.metadata)


VARIABLES: tuple[Variable, ...] = tuple(_variable(field) for field in dataclasses.fields(Env))
