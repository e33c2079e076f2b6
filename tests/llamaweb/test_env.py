"""The environment: defaults, refusals that name the variable, secrets in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llamaweb.env import VARIABLES, Env
from llamaweb.env_load import EnvError, load_env


def problems(**environ: str) -> tuple[str, ...]:
    with pytest.raises(EnvError) as caught:
        load_env(environ)
    return caught.value.problems


def test_nothing_set_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    env = load_env({"PATH": "/bin", "DJANGO_SETTINGS_MODULE": "x"})
    assert env == Env(data_dir=tmp_path / "var")
    assert (env.host, env.port, env.url) == ("127.0.0.1", 8000, "http://127.0.0.1:8000")


def test_an_empty_value_counts_as_unset() -> None:
    assert load_env({"LLAMAWEB_PORT": "", "LLAMAWEB_MODEL": ""}).port == 8000


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("LLAMAWEB_PORT", "9000", "port", 9000),
        ("LLAMAWEB_HOST", "::1", "host", "::1"),
        ("LLAMAWEB_PUBLIC_URL", "https://chat.example.org/", "url", "https://chat.example.org"),
        (
            "LLAMAWEB_ALLOWED_HOSTS",
            "a.example, .b.example",
            "allowed_hosts",
            ("a.example", ".b.example"),
        ),
        ("LLAMAWEB_MODEL", "/models/x.gguf", "model", Path("/models/x.gguf")),
        ("LLAMAWEB_GPU_LAYERS", "-1", "gpu_layers", -1),
        ("LLAMAWEB_ENGINE_CLASSES", "a.b, my_2.c.D", "engine_classes", ("a.b", "my_2.c.D")),
        ("LLAMAWEB_MOCK_DELAY_MS", "2.5", "mock_delay_ms", 2.5),
        ("LLAMAWEB_LOG_JSON", "Yes", "log_json", True),
        ("LLAMAWEB_REDIS_URL", "unix:///run/redis.sock", "redis_url", "unix:///run/redis.sock"),
        ("DATABASE_URL", "postgresql:///x?host=/run", "database_url", "postgresql:///x?host=/run"),
    ],
)
def test_values_are_typed(name: str, value: str, field: str, expected: Any) -> None:
    assert getattr(load_env({name: value}), field) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LLAMAWEB_PORT", "abc"),
        ("LLAMAWEB_PORT", "0"),
        ("LLAMAWEB_PORT", "65536"),
        ("LLAMAWEB_HOST", "not a host"),
        ("LLAMAWEB_PUBLIC_URL", "chat.example.org"),
        ("LLAMAWEB_PUBLIC_URL", "https://chat.example.org/sub"),
        ("LLAMAWEB_ALLOWED_HOSTS", "*"),
        ("LLAMAWEB_ALLOWED_HOSTS", "a.example,*.b.example"),
        ("LLAMAWEB_TRUSTED_PROXIES", "10.0.0.1/8"),
        ("LLAMAWEB_ENGINE", "vllm"),
        ("LLAMAWEB_ENGINE_CLASSES", "alone"),
        ("LLAMAWEB_ENGINE_CLASSES", "a.b,../c.d"),
        ("LLAMAWEB_ENGINE_SLOTS", "0"),
        ("LLAMAWEB_MOCK_DELAY_MS", "nan"),
        ("LLAMAWEB_LOG_JSON", "maybe"),
        ("LLAMAWEB_LOG_LEVEL", "info"),
        ("LLAMAWEB_REDIS_URL", "http://localhost"),
        ("LLAMAWEB_REDIS_URL", "redis://localhost:port"),
        ("LLAMAWEB_REDIS_PREFIX", "with space"),
        ("LLAMAWEB_CORS_ORIGINS", "*"),
        ("DATABASE_URL", "mysql://localhost/x"),
        ("DATABASE_URL", "postgresql://localhost"),
        ("LLAMAWEB_METRICS_TOKEN", "short"),
        ("AIP_PREDICT_ROUTE", "predict"),
        ("AIP_PREDICT_ROUTE", "/"),
        ("AIP_HEALTH_ROUTE", "/<path:x>"),
        ("AIP_HTTP_PORT", "0"),
    ],
)
def test_a_bad_value_names_the_variable_and_what_is_allowed(name: str, value: str) -> None:
    (problem,) = problems(**{name: value})
    variable = next(variable for variable in VARIABLES if variable.name == name)
    assert problem.startswith(f"{name}: ")
    assert f"allowed: {variable.kind.allowed}" in problem
    assert (value in problem) is not variable.secret


def test_vertex_ai_says_where_it_asks() -> None:
    aip = {"AIP_PREDICT_ROUTE": "/v1/endpoints/1:predict", "AIP_HTTP_PORT": "8081"}
    outside = load_env(aip)
    assert (outside.port, outside.vertex_routes) == (8000, ())
    env = load_env({**aip, "AIP_MODE": "PREDICTION"})
    assert (env.port, env.vertex_routes) == (8081, ("/v1/endpoints/1:predict", "/health"))
    assert load_env({"AIP_MODE": "PREDICTION"}).port == 8080
    assert load_env({"AIP_MODE": "PREDICTION", "LLAMAWEB_PORT": "9000"}).port == 9000


def test_all_problems_are_told_at_once() -> None:
    found = problems(LLAMAWEB_PROT="1", LLAMAWEB_PORT="x", LLAMAWEB_ENGINE="y")
    assert [problem.split(":")[0] for problem in found] == [
        "LLAMAWEB_PROT",
        "LLAMAWEB_PORT",
        "LLAMAWEB_ENGINE",
    ]


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    assert "did you mean LLAMAWEB_PORT?" in problems(LLAMAWEB_PROT="1")[0]
    assert "docs/configuration.md" in problems(LLAMAWEB_XQZQXZ="1")[0]


def test_debug_only_on_loopback() -> None:
    assert "LLAMAWEB_DEBUG" in problems(LLAMAWEB_DEBUG="1", LLAMAWEB_HOST="0.0.0.0")[0]
    assert load_env({"LLAMAWEB_DEBUG": "1"}).debug


def test_an_owner_can_not_queue_more_than_all() -> None:
    found = problems(LLAMAWEB_MAX_QUEUED="10", LLAMAWEB_MAX_QUEUED_PER_OWNER="11")
    assert found[0].startswith("LLAMAWEB_MAX_QUEUED_PER_OWNER: ")


def test_a_secret_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-of-20-letters\n")
    env = load_env({"LLAMAWEB_METRICS_TOKEN_FILE": str(file)})
    assert env.metrics_token == "a-token-of-20-letters"


@pytest.mark.parametrize("content", [None, b"short", b"\xff\xfe", b"x" * 70_000])
def test_a_bad_secret_file_is_refused_by_name(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    assert problems(LLAMAWEB_METRICS_TOKEN_FILE=str(file))[0].startswith("LLAMAWEB_METRICS_TOKEN")


def test_a_secret_in_both_places_is_refused(tmp_path: Path) -> None:
    both = {"LLAMAWEB_METRICS_TOKEN": "x" * 20, "LLAMAWEB_METRICS_TOKEN_FILE": str(tmp_path)}
    assert "LLAMAWEB_METRICS_TOKEN is set as well" in problems(**both)[0]


def test_only_secrets_come_from_files() -> None:
    assert "there is no such setting" in problems(LLAMAWEB_MODEL_FILE="/x")[0]


@pytest.mark.parametrize(
    ("given", "variable"),
    [
        ({"LLAMAWEB_TLS_CERTIFICATE": "/c.pem"}, "LLAMAWEB_TLS_CERTIFICATE"),
        ({"LLAMAWEB_TLS_KEY": "/k.pem"}, "LLAMAWEB_TLS_CERTIFICATE"),
        ({"LLAMAWEB_TLS_CLIENT_CA": "/ca.pem"}, "LLAMAWEB_TLS_CLIENT_CA"),
    ],
)
def test_half_of_tls_is_refused(given: dict[str, str], variable: str) -> None:
    with pytest.raises(EnvError) as caught:
        load_env(given)
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [variable]


def test_with_a_certificate_the_address_is_https() -> None:
    env = load_env({"LLAMAWEB_TLS_CERTIFICATE": "/c.pem", "LLAMAWEB_TLS_KEY": "/k.pem"})
    assert env.url == "https://127.0.0.1:8000"
