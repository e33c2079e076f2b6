"""Django's settings, made from `llamaweb.boot`; what can be set from outside: `llamaweb.env`."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from csp.constants import NONCE, NONE, SELF

from llamaweb.admin_nav import UNFOLD as ADMIN_LOOK
from llamaweb.boot import boot
from llamaweb.job_schedule import SCHEDULE, SHORT_JOBS
from llamaweb.logs import configure_structlog, logging_config
from llamaweb.service_urls import celery_url, database_config, email_config, sqlite_config

BOOT = boot()
ENV = BOOT.env
ROOT = Path(__file__).resolve().parent.parent
IS_HTTPS = ENV.url.startswith("https://")

# --- the environment's values by their names, for code that reads `django.conf.settings`

PUBLIC_URL = ENV.url
DATA_DIR = BOOT.data_dir
REDIS_URL = BOOT.redis_url
REDIS_PREFIX = ENV.redis_prefix
VERTEX_ROUTES = ENV.vertex_routes
API_KEY_HMAC_KEY = BOOT.api_key_hmac_key
METRICS_TOKEN = BOOT.metrics_token
MODEL = ENV.model
ENGINE = ENV.engine
ENGINE_CLASSES = ENV.engine_classes
ENGINE_SLOTS = ENV.engine_slots
ENGINE_CONTEXT = ENV.engine_context
ENGINE_THREADS = ENV.engine_threads
ENGINE_STEP_MS = ENV.engine_step_ms
ENGINE_CACHE_MIB = ENV.engine_cache_mib
ENGINE_KV = ENV.engine_kv
ENGINE_MEMORY_MIB = ENV.engine_memory_mib
ENGINE_GPU_MEMORY_MIB = ENV.engine_gpu_memory_mib
ENGINE_MAX_LOADED = ENV.engine_max_loaded
ENGINE_CALIBRATION = ENV.engine_calibration
ENGINE_CONTEXT_SHIFT = ENV.engine_context_shift
ENGINE_YIELDS_CORES = ENV.engine_yields_cores
GPU_LAYERS = ENV.gpu_layers
MOCK_REPLY = ENV.mock_reply
MOCK_LOAD_MS = ENV.mock_load_ms
MOCK_DELAY_MS = ENV.mock_delay_ms
MOCK_PREFILL_MS_PER_TOKEN = ENV.mock_prefill_ms_per_token
MOCK_FAIL_AFTER = ENV.mock_fail_after
MOCK_CRASH_AFTER = ENV.mock_crash_after
MOCK_MEMORY_MIB = ENV.mock_memory_mib
MAX_BODY_BYTES = ENV.max_body_bytes
REQUEST_TIMEOUT_S = ENV.request_timeout_s
MAX_QUEUED = ENV.max_queued
MAX_QUEUED_PER_OWNER = ENV.max_queued_per_owner
MAX_RESUMABLE_PER_OWNER = ENV.max_resumable_per_owner
STREAM_KEEP_S = ENV.stream_keep_s
MAX_RESPONSES = ENV.max_responses
RESPONSE_DAYS = ENV.response_days
KEY_RATE = ENV.key_rate
KEY_BURST = ENV.key_burst
ADDRESS_RATE = ENV.address_rate
USER_STREAMS = ENV.user_streams
USER_TOKENS_MINUTE = ENV.user_tokens_minute
USER_TOKENS_DAY = ENV.user_tokens_day
KEY_TOKENS_MINUTE = ENV.key_tokens_minute
KEY_TOKENS_DAY = ENV.key_tokens_day
MAX_REQUEST_TOKENS = ENV.max_request_tokens
USAGE_KEEP_DAYS = ENV.usage_keep_days
FAILED_KEY_RATE = ENV.failed_key_rate
LOGIN_RATE = ENV.login_rate
LOGIN_ADDRESS_RATE = ENV.login_address_rate
CORS_ORIGINS = ENV.cors_origins
SSE_PING_S = ENV.sse_ping_s
DOWNLOAD_MAX_BYTES = ENV.download_max_bytes
HUB_URL = ENV.hub_url
HUB_TOKEN = ENV.hub_token
UPSTREAM_IDLE_S = ENV.upstream_idle_s
OUTBOUND_ALLOW = ENV.outbound_allow

# --- what is installed

INSTALLED_APPS = [
    *(["daphne"] if ENV.debug else []),
    "llamaweb.apps.LlamawebConfig",
    "llamaweb.accounts.apps.AccountsConfig",
    "inference.apps.InferenceConfig",
    "tools_api.apps.ToolsApiConfig",
    "conversations.apps.ConversationsConfig",
    "frontend.apps.FrontendConfig",
    "unfold.apps.BasicAppConfig",
    "unfold.contrib.filters",
    "llamaweb.admin_config.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "channels",
    "django_vite",
    "csp",
]

MIDDLEWARE = [
    "llamaweb.middleware.RequestContext",
    "llamaweb.middleware.Cors",
    "llamaweb.page_middleware.Security",
    "servestatic.middleware.ServeStaticMiddleware",
    "llamaweb.page_middleware.Csp",
    "llamaweb.page_middleware.Session",
    "llamaweb.page_middleware.Locale",
    "llamaweb.page_middleware.Common",
    "llamaweb.page_middleware.Csrf",
    "llamaweb.page_middleware.Authentication",
    "allauth.account.middleware.AccountMiddleware",
    "llamaweb.page_middleware.UserSessions",
    "llamaweb.page_middleware.Messages",
    "llamaweb.page_middleware.FrameOptions",
]

ROOT_URLCONF = "llamaweb.urls"
ASGI_APPLICATION = "llamaweb.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
APPEND_SLASH = False

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
            ],
        },
    }
]

# --- state

DATABASES: dict[str, Any] = {
    "default": database_config(ENV.database_url, pool_size=ENV.database_pool)
    if ENV.database_url
    else sqlite_config(str(BOOT.data_dir.database))
}
CACHES = {
    "default": {
        "BACKEND": "llamaweb.json_cache.JsonRedisCache",
        "LOCATION": BOOT.redis_url,
        "KEY_PREFIX": f"{ENV.redis_prefix}cache",
        "TIMEOUT": 300,
        "OPTIONS": {"socket_timeout": 5.0, "socket_connect_timeout": 5.0},
    }
}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {
            # The layer blocks on the server by itself: a socket time-out would close idle sockets.
            "hosts": [{"address": BOOT.redis_url, "socket_timeout": None}],
            "prefix": f"{ENV.redis_prefix}layer",
            "serializer_format": "json",
        },
    }
}
# Rows only: what ends a session ends it everywhere at once, and Redis away signs nobody out.
SESSION_ENGINE = "django.contrib.sessions.backends.db"
SESSION_SERIALIZER = "django.contrib.sessions.serializers.JSONSerializer"
MEDIA_ROOT = BOOT.data_dir.media
FILE_UPLOAD_PERMISSIONS = 0o600
FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o700

# --- jobs: messages carry ids only, durability is the database row plus the sweep

CELERY_BROKER_URL = celery_url(BOOT.redis_url)
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,
    "global_keyprefix": f"{ENV.redis_prefix}celery:",
    "socket_connect_timeout": 5,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_STORE_EAGER_RESULT = False
CELERY_TASK_DEFAULT_QUEUE = "work"
CELERY_TASK_CREATE_MISSING_QUEUES = False
CELERY_TASK_QUEUES = {"turns": {"routing_key": "turns"}, "work": {"routing_key": "work"}}
CELERY_TASK_ROUTES = {name: {"queue": "turns"} for name in SHORT_JOBS}
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_TIMEZONE = "UTC"
# Keeps its times in memory: the usual one writes a pickle.
CELERY_BEAT_SCHEDULER = "celery.beat:Scheduler"
CELERY_BEAT_SCHEDULE = SCHEDULE
# What an engine's `on_finish` may name; engines never name a task themselves.
ON_FINISH_TASKS = {
    "generation_finalise": "inference.tasks.generation_finalise",
    "turn_advance": "conversations.tasks.turn_advance",
}
SWEEP_LIMIT = 200  # open generations, and open turns, looked at in one sweep

# --- addresses and security


def _allowed_hosts() -> list[str]:
    if ENV.allowed_hosts:
        return list(ENV.allowed_hosts)
    own = f"[{ENV.host}]" if ":" in ENV.host else ENV.host
    public = urlsplit(ENV.url).hostname or own
    public = f"[{public}]" if ":" in public else public
    return list(dict.fromkeys(["localhost", "127.0.0.1", "[::1]", own, public]))


DEBUG = ENV.debug
SECRET_KEY = BOOT.secret_key
ALLOWED_HOSTS = _allowed_hosts()
CSRF_TRUSTED_ORIGINS = [ENV.public_url] if ENV.public_url else []
SESSION_COOKIE_NAME = "llamaweb_session"
CSRF_COOKIE_NAME = "llamaweb_csrf"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if IS_HTTPS else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# Bodies stay in memory up to their bound: a temporary file would hold prompts.
DATA_UPLOAD_MAX_MEMORY_SIZE = FILE_UPLOAD_MAX_MEMORY_SIZE = ENV.max_body_bytes
SILENCED_SYSTEM_CHECKS = [
    # Known only by their own names: see llamaweb.page_middleware.
    *("security.W001", "security.W002", "security.W003"),
    # https is PUBLIC_URL's and the proxy's matter; without it these can't be on.
    *("security.W004", "security.W005", "security.W008", "security.W010"),
    *("security.W012", "security.W016", "security.W021"),
]

_VITE = [f"http://127.0.0.1:{ENV.vite_port}"] if ENV.debug else []
_VITE_SOCKET = [f"ws://127.0.0.1:{ENV.vite_port}"] if ENV.debug else []
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE, *_VITE],
        "style-src": [SELF, *(["'unsafe-inline'"] if ENV.debug else [NONCE]), *_VITE],
        "img-src": [SELF, "data:", "blob:", *_VITE],
        "media-src": [SELF, "blob:"],
        "font-src": [SELF, *_VITE],
        "connect-src": [SELF, *_VITE, *_VITE_SOCKET],
        "manifest-src": [SELF],
        "worker-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "object-src": [NONE],
        "frame-ancestors": [NONE],
    }
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
AUTHENTICATION_BACKENDS = ["llamaweb.accounts.login.ThrottledBackend"]
LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/accounts/login/"

# --- account pages (allauth); see llamaweb.accounts.adapter

EMAIL_IS_CONFIGURED = bool(ENV.email_url)
if EMAIL_IS_CONFIGURED:
    globals().update(email_config(ENV.email_url))
DEFAULT_FROM_EMAIL = ENV.email_from or f"llamaweb@{urlsplit(ENV.url).hostname}"
EMAIL_TIMEOUT = 10
ACCOUNT_ADAPTER = "llamaweb.accounts.adapter.AccountAdapter"
ACCOUNT_FORMS = {
    "signup": "llamaweb.accounts.forms.SignupForm",
    "change_password": "llamaweb.accounts.forms.ChangePasswordForm",
}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = [
    "username*",
    *(["email"] if EMAIL_IS_CONFIGURED else []),
    "password1*",
    "password2*",
]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
ACCOUNT_EMAIL_SUBJECT_PREFIX = "llamaweb: "
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if IS_HTTPS else "http"
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_REAUTHENTICATION_METHODS = ("password", "mfa")
# Passwords are bounded by our own throttle; here "login_failed" counts codes of the second factor.
ACCOUNT_RATE_LIMITS = {"login": None, "login_failed": "5/5m/key"}
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "llamaweb"
MFA_TOTP_TOLERANCE = 1  # a phone's clock may be half a minute off
MFA_ALLOW_UNVERIFIED_EMAIL = True  # e-mail addresses are optional and prove nothing here
USERSESSIONS_TRACK_ACTIVITY = True

# --- administration (django-unfold); see llamaweb.admin_site

UNFOLD = ADMIN_LOOK

# --- language and time

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = True
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [ROOT / "locale"]
LANGUAGE_COOKIE_NAME = "llamaweb_language"
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600
LANGUAGE_COOKIE_SECURE = IS_HTTPS
LANGUAGE_COOKIE_HTTPONLY = True

# --- the browser app: built by Vite, found and served without a collecting step

FRONTEND_DIST = ROOT / "frontend" / "dist"
STATIC_URL = "/static/"
STATIC_ROOT = None
STATICFILES_DIRS = [FRONTEND_DIST] if FRONTEND_DIST.is_dir() else []
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_AUTOREFRESH = ENV.debug
SERVESTATIC_IMMUTABLE_FILE_TEST = r"^/static/assets/.+-[A-Za-z0-9_-]{8}\.\w+$"
DJANGO_VITE = {
    "default": {
        "dev_mode": ENV.debug,
        "dev_server_host": "127.0.0.1",
        "dev_server_port": ENV.vite_port,
        "manifest_path": FRONTEND_DIST / "manifest.json",
    }
}

# --- logs

configure_structlog()
LOGGING = logging_config(level=ENV.log_level, as_json=ENV.log_json)
