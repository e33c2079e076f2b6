"""Reading the environment into `llamaweb.env.Env`.

A secret may stand in a file named by `LLAMAWEB_<NAME>_FILE` instead. Unknown `LLAMAWEB_*` names and
bad values are refused together.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llamaweb.env import FILE_SUFFIX, PREFIX, VARIABLES, Env, Variable

SECRET_FILE_BYTES = 64 * 1024
LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")


class EnvError(Exception):
    """What is wrong with the environment: `problems` has one sentence a variable."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def load_env(environ: Mapping[str, str]) -> Env:
    """Read and check `environ`; an empty value counts as unset.

    Raises:
        EnvError: with every problem found.
    """
    problems: list[str] = _unknown(environ)
    values: dict[str, Any] = {}
    for variable in VARIABLES:
        try:
            raw = _raw(variable, environ)
            if raw:
                values[variable.field] = _parsed(variable, raw)
        except EnvError as error:
            problems.extend(error.problems)
    env = Env(**values)
    port = env.aip_http_port if env.vertex_routes and "port" not in values else env.port
    env = dataclasses.replace(env, data_dir=env.data_dir.absolute(), port=port)
    problems.extend(_contradictions(env))
    if problems:
        raise EnvError(tuple(problems))
    return env


def _unknown(environ: Mapping[str, str]) -> list[str]:
    known = {v.name for v in VARIABLES} | {v.name + FILE_SUFFIX for v in VARIABLES if v.secret}
    problems = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            bare = [item.removeprefix(PREFIX) for item in sorted(known)]
            near = difflib.get_close_matches(name.removeprefix(PREFIX), bare, n=1)
            hint = f"did you mean {PREFIX}{near[0]}?" if near else "see docs/configuration.md"
            problems.append(f"{name}: there is no such setting; {hint}")
    return problems


def _raw(variable: Variable, environ: Mapping[str, str]) -> str:
    """The text of a variable, from its file if it is a secret that names one."""
    direct = environ.get(variable.name, "")
    file_name = variable.name + FILE_SUFFIX
    file = environ.get(file_name, "") if variable.secret else ""
    if not file:
        return direct
    if direct:
        raise EnvError((f"{file_name}: {variable.name} is set as well; allowed: one of the two",))
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(SECRET_FILE_BYTES + 1)
        if len(content) > SECRET_FILE_BYTES:
            raise ValueError("it is too large")
        return content.decode().strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a small text file"
        message = f"{file_name}: can't read {file} ({reason}); allowed: a file with the secret"
        raise EnvError((message,)) from error


def _parsed(variable: Variable, raw: str) -> Any:
    try:
        return variable.kind.parse(raw)
    except ValueError as error:
        shown = "its value" if variable.secret else repr(raw[:80])
        message = f"{variable.name}: {shown} is not allowed; allowed: {variable.kind.allowed}"
        raise EnvError((message,)) from error


def _contradictions(env: Env) -> list[str]:
    problems = []
    if env.debug and env.host not in LOOPBACK_HOSTS:
        allowed = ", ".join(LOOPBACK_HOSTS)
        problems.append(
            f"LLAMAWEB_DEBUG: on while LLAMAWEB_HOST is {env.host!r}; allowed: only with {allowed}"
        )
    if (env.tls_certificate is None) != (env.tls_key is None):
        problems.append(
            "LLAMAWEB_TLS_CERTIFICATE: it and LLAMAWEB_TLS_KEY need each other; "
            "allowed: both or none"
        )
    if env.tls_client_ca is not None and env.tls_certificate is None:
        problems.append(
            "LLAMAWEB_TLS_CLIENT_CA: LLAMAWEB_TLS_CERTIFICATE isn't set; allowed: only with it"
        )
    if env.max_queued_per_owner > env.max_queued:
        problems.append(
            f"LLAMAWEB_MAX_QUEUED_PER_OWNER: {env.max_queued_per_owner} is more than "
            f"LLAMAWEB_MAX_QUEUED; allowed: at most {env.max_queued}"
        )
    return problems
