"""The official clients against a running server, which the cases of all families share."""

from __future__ import annotations

import pytest
from openai import OpenAI

from tests.sdk.anthropic_cases import *  # noqa: F403
from tests.sdk.bench_cases import *  # noqa: F403
from tests.sdk.embeddings_cases import *  # noqa: F403
from tests.sdk.limits_cases import *  # noqa: F403
from tests.sdk.native_cases import *  # noqa: F403
from tests.sdk.ollama_cases import *  # noqa: F403
from tests.sdk.openai_cases import *  # noqa: F403
from tests.sdk.opened import opened
from tests.sdk.responses_cases import *  # noqa: F403
from tests.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(240)]


def test_models_are_listed_for_whoever_has_a_key(stack: Stack, key: str) -> None:
    client = opened(OpenAI(base_url=f"{stack.base_url}/v1", api_key=key, max_retries=0))
    assert [model.id for model in client.models.list()] == ["mock"]
