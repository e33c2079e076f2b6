"""Keys, the usage ledger and metrics of a whole server, seen by the official client."""

from __future__ import annotations

import contextlib
import sqlite3
import urllib.request

import openai
import pytest
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families

from tests.stack import Stack, wait_for

LEDGER_S = 30.0


def client_of(stack: Stack, key: str) -> OpenAI:
    return OpenAI(base_url=f"{stack.base_url}/v1", api_key=key, max_retries=0)


def new_key(stack: Stack, *options: str) -> str:
    made = stack.manage("create_api_key", "alice", "--name", "less", *options)
    return made.strip().splitlines()[-1]


def ask(client: OpenAI) -> object:
    return client.chat.completions.create(
        model="mock", messages=[{"role": "user", "content": "Hello"}]
    )


def ledger(stack: Stack) -> list[tuple[object, ...]]:
    """What the jobs process wrote."""
    database = sqlite3.connect(f"file:{stack.data_dir / 'db.sqlite3'}?mode=ro", uri=True)
    with contextlib.closing(database) as found:
        return found.execute(
            'select family, model_name, "end" from inference_usagerecord'
        ).fetchall()


def metric(stack: Stack, name: str, **labels: str) -> float | None:
    """The sample of `name` with these labels."""
    token = (stack.data_dir / "keys" / "metrics_token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    asked = urllib.request.Request(f"{stack.base_url}/metrics", headers=headers)
    with urllib.request.urlopen(asked, timeout=10) as answer:
        text = answer.read().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    return None


def test_an_answer_is_in_the_ledger_and_in_the_metrics(stack: Stack, key: str) -> None:
    before = len(ledger(stack))
    with client_of(stack, key) as client:
        ask(client)
    wait_for("the ledger", lambda: len(ledger(stack)) > before, LEDGER_S)
    assert ("openai", "mock", "stop") in ledger(stack)
    assert metric(stack, "llamaweb_finished_total", family="openai", model="mock", reason="stop")
    assert metric(stack, "llamaweb_jobs_total", job="usage_collect", outcome="success")
    assert metric(stack, "llamacpp:tokens_predicted_total", model="mock") is not None
    assert metric(stack, "llamaweb_api_requests_running", family="openai", model="mock") == 0


def test_a_key_for_other_models_finds_none(stack: Stack) -> None:
    with client_of(stack, new_key(stack, "--model", "other")) as client:
        assert list(client.models.list()) == []
        with pytest.raises(openai.NotFoundError):
            ask(client)


def test_a_key_for_vectors_opens_nothing_else(stack: Stack) -> None:
    with (
        client_of(stack, new_key(stack, "--scope", "embeddings")) as client,
        pytest.raises(openai.PermissionDeniedError),
    ):
        ask(client)
