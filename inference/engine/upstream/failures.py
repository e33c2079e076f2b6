"""What a failure of the other server means: for the request, for the engine, and what to do.

| what happened | the request | tried again |
|---|---|---|
| it can't be reached; 502, 503, 504 | `model_unavailable` | patiently |
| 408, 425, 429 | `busy` | patiently, not before its Retry-After |
| other 5xx | `engine_failed` | once |
| 401, 402, 403, a redirect, an address that isn't public | `engine_failed` | never |
| 404 | `model_unavailable` | never |
| the context is too small | `context_length_exceeded` | never |
| other 4xx | `invalid_request`, with the field if it names one | never |
| silence, or what can't be read | `engine_failed` | never |

Nothing is tried again once a reader has seen text. Messages are ours: those of the other server may
hold a prompt, a key, or whose account it is.
"""

from __future__ import annotations

import email.utils
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from inference.protocol.events import Failed, FailureCode
from llamaweb.lib.errors import DeadlineError, InvalidError
from llamaweb.lib.outbound import RefusedAddressError
from llamaweb.lib.outbound_call import RedirectedError, SilentError

Retry: TypeAlias = Literal["never", "once", "patiently"]
MAX_ERROR_BYTES = 64 * 1024  # read of an error's body
NAME_RE = re.compile(r"[A-Za-z_][A-Za-z0-9_.\[\]-]{0,63}")
CHAT_PARAM = "messages"  # what is too long, as long as nobody asks for something else
TOO_LONG = frozenset({"context_length_exceeded", "exceed_context_size_error"})
REFUSED_KEY = "the server behind this model refuses our key; an administrator has to look"


@dataclass(frozen=True, slots=True)
class Trouble:
    """`failure`: how the request ends unless it is tried again. `reason`: why nothing can be served
    for now, "" if the trouble is this request's. `status`: of HTTP, 0 for none. `param`: the
    field that the server named."""

    failure: Failed
    retry: Retry = "never"
    retry_after_s: float = 0.0
    reason: str = ""
    status: int = 0
    param: str = ""


def trouble_of_status(
    status: int, headers: Mapping[str, str], body: bytes, *, now_at: float
) -> Trouble:
    """What a status other than 200 means; `body`: its first bytes."""
    error = _error_object(body)
    trouble = replace(trouble_of_error(error, status), status=status)
    if trouble.retry == "patiently":
        return replace(trouble, retry_after_s=_retry_after_s(headers, now_at))
    return trouble


def trouble_of_error(error: Mapping[str, Any], status: int) -> Trouble:
    """What an error object means; `status` where its own `code` is none."""
    code = error.get("code")
    if type(code) is int and 400 <= code < 600:
        status = code
    names = {value for value in (code, error.get("type")) if isinstance(value, str)}
    if names & TOO_LONG:
        return Trouble(_too_long(error))
    if status in (408, 425, 429):
        return _trouble("busy", "the server behind this model has too much to do", "patiently")
    if status in (502, 503, 504):
        return _unreachable(f"the upstream server isn't available (status {status})")
    if status in (401, 403):
        return Trouble(
            Failed("engine_failed", REFUSED_KEY),
            reason=f"the upstream server refuses the key (status {status})",
        )
    if status == 402:
        reason = "the upstream server wants to be paid (status 402)"
        failed = Failed("engine_failed", "the server behind this model refuses to serve it")
        return Trouble(failed, reason=reason)
    if status == 404:
        return Trouble(
            Failed("model_unavailable", "the server behind this model doesn't have it"),
            reason="the upstream server doesn't know the model or the address (status 404)",
        )
    if 400 <= status < 500:
        return _invalid(error)
    return _trouble("engine_failed", "the server behind this model failed", "once")


def trouble_of_exception(error: Exception) -> Trouble:
    """What an answer that never began means; `error` as `OutboundCall.open` raises it."""
    if isinstance(error, DeadlineError):
        return Trouble(OVERDUE)
    if isinstance(error, SilentError):
        return _trouble("engine_failed", "the server behind this model was silent too long")
    if isinstance(error, RedirectedError):
        return _misconfigured("the upstream server redirects; give the address it redirects to")
    if isinstance(error, RefusedAddressError):
        return _misconfigured(
            "the upstream server's address isn't public; LLAMAWEB_OUTBOUND_ALLOW can exempt it"
        )
    if isinstance(error, InvalidError):
        return _misconfigured("the upstream server's address can't be asked")
    return _unreachable("the upstream server can't be reached")


OVERDUE = Failed(
    "deadline_exceeded",
    "the request's deadline passed before the answer was complete",
    retryable=True,
)
BROKE_OFF = Failed(
    "engine_failed", "the answer broke off at the server behind this model", retryable=True
)
UNREADABLE = Failed("engine_failed", "the server behind this model answers in a way we can't read")
FILTERED = Failed("engine_failed", "the server behind this model ended the answer by its filter")
INTERRUPTED = Failed(
    "engine_crashed",
    "the answer was interrupted, and the server behind this model can't go on with it",
    retryable=True,
)


def _trouble(code: FailureCode, message: str, retry: Retry = "never") -> Trouble:
    return Trouble(Failed(code, message, retryable=True), retry)


def _unreachable(reason: str) -> Trouble:
    failed = Failed(
        "model_unavailable", "the server behind this model can't be reached", retryable=True
    )
    return Trouble(failed, "patiently", reason=reason)


def _misconfigured(reason: str) -> Trouble:
    message = "the server behind this model can't be asked; an administrator has to look"
    return Trouble(Failed("engine_failed", message), reason=reason)


def _invalid(error: Mapping[str, Any]) -> Trouble:
    """Only names are passed on: a field, or what kind of error it is."""
    names = [_name(error.get(key)) for key in ("param", "code", "type")]
    param = names[0]
    said = next((name for name in names if name), "")
    message = "the server behind this model refuses the request"
    failed = Failed("invalid_request", f"{message} ({said})" if said else message, param=param)
    return Trouble(failed, param=param or "")


def _too_long(error: Mapping[str, Any]) -> Failed:
    told = [(name, error.get(name)) for name in ("n_prompt_tokens", "n_ctx")]
    details = tuple((name, value) for name, value in told if type(value) is int and value >= 0)
    message = "the prompt is longer than the context of the server behind this model"
    if len(details) < 2:  # the numbers stand in its message only
        return Failed("invalid_request", message, param=CHAT_PARAM)
    return Failed("context_length_exceeded", message, details=details)


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and NAME_RE.fullmatch(value) else None


def _error_object(body: bytes) -> Mapping[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    error = data.get("error", data) if isinstance(data, dict) else None
    return error if isinstance(error, dict) else {}


def _retry_after_s(headers: Mapping[str, str], now_at: float) -> float:
    """Seconds of the Retry-After header, a number or a date; 0 without."""
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now_at)
    except (ValueError, TypeError, OverflowError):
        return 0.0
