"""What was measured is shown, and measured again on demand."""

from __future__ import annotations

import pytest
from django.test import Client

from inference.models import Calibration, ModelConfig
from inference.protocol.trial import Choice, Measured, Rates
from inference.registry.calibrations import calibration_store
from llamaweb.accounts.models import AuditEvent, User
from tests.admin.conftest import client_of

pytestmark = pytest.mark.django_db
BASE = "/admin/inference/modelconfig/"
DEFAULT = Choice(1, "off", False, 512)
MEASURED = Measured(
    DEFAULT, Choice(2, "on", False, 1024), Rates(320.4, 5.52, 100), Rates(603, 97, 0)
)


@pytest.fixture
def config(db: None) -> ModelConfig:
    return ModelConfig.objects.create(name="tiny", is_default=True)


def store(config: ModelConfig, machine: str, measured: Measured | None, error: str = "") -> None:
    calibration_store(
        config, machine, machine_key=machine, machine_name=machine, measured=measured, error=error
    )


def test_the_choice_and_the_rates_are_shown(admin: Client, config: ModelConfig) -> None:
    page = admin.get(f"{BASE}{config.pk}/change/").content.decode()
    assert "act/measure/" not in page
    store(config, "a <b>processor</b>", MEASURED)
    store(config, "another", None, "the measurement failed: SIGSEGV")
    page = admin.get(f"{BASE}{config.pk}/change/").content.decode()
    assert "<b>processor" not in page
    assert "a &lt;b&gt;processor&lt;/b&gt;: 2 threads, flash attention on" in page
    assert "micro-batch 1024" in page
    assert "prompts 603, one answer 97, all slots – tokens/s" in page
    assert "by default prompts 320, one answer 5.5, all slots 100 tokens/s" in page
    assert "another: the defaults; the measurement failed: SIGSEGV" in page
    (model,) = admin.get("/admin/engines/state/").json()["models"]
    assert [line.partition(":")[0] for line in model["measured"]] == [
        "another", "a <b>processor</b>",
    ]  # fmt: skip


def test_measuring_again(admin: Client, viewer: User, config: ModelConfig) -> None:
    store(config, "here", MEASURED)
    act = f"{BASE}{config.pk}/act/measure/"
    assert client_of(viewer).post(act).status_code == 403
    assert Calibration.objects.exists()
    page = admin.post(act, follow=True).content.decode()
    assert "tiny is measured again" in page
    assert not Calibration.objects.exists()
    (event,) = AuditEvent.objects.all()
    assert (event.action, event.actor_name) == ("model_config.measure", "root")


def test_a_type_that_needs_flash_attention(admin: Client, config: ModelConfig) -> None:
    form = {
        "name": "tiny", "is_enabled": "on", "num_slots": 4, "context_len": 0, "threads": 0,
        "flash_attention": "off", "kv_layout": "auto", "ubatch_len": 0, "cache_type_k": "f16",
        "cache_type_v": "q8_0", "load_mode": "auto", "gpu_layers": 0, "split_mode": "layer",
        "main_gpu": 0, "tensor_split": "[]", "chat_template": "", "thinking": "auto",
        "pooling": "auto", "vector_norm": 2,
    }  # fmt: skip
    url = f"{BASE}{config.pk}/change/"
    response = admin.post(url, form)
    assert response.status_code == 200
    assert "cache_type_v q8_0 needs flash attention" in response.content.decode()
    assert admin.post(url, form | {"flash_attention": "auto"}).status_code == 302
    config.refresh_from_db()
    assert config.cache_type_v == "q8_0"
