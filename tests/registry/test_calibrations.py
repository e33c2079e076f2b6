"""What is kept of measurements, and what settings may be combined."""

from __future__ import annotations

from typing import Any

import pytest

from inference.models import Calibration, ModelConfig
from inference.protocol.trial import Choice, Measured, Rates
from inference.registry import calibrations
from inference.registry.calibrations import (
    MAX_KEPT,
    calibration_store,
    calibration_use,
    can_measure,
    measured_of,
    model_measure,
    probe_find,
    probe_store,
)
from inference.registry.config_services import model_config_change
from inference.registry.services import starter_config_sync
from llamaweb.lib.errors import InvalidError

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("both_databases")]
DEFAULT = Choice(1, "off", False, 512)
MEASURED = Measured(DEFAULT, Choice(2, "on", False, 512), Rates(1, 2, 3), Rates(4, 5, 6))


@pytest.fixture
def config(db: None) -> ModelConfig:
    return ModelConfig.objects.create(name="m")


def store(config: ModelConfig, key: str, **fields: Any) -> Calibration:
    values = {"machine_key": "k", "machine_name": "a machine", "measured": MEASURED}
    return calibration_store(config, key, **{**values, **fields})


def test_what_is_stored_comes_back(config: ModelConfig) -> None:
    assert calibration_use(config, "a") is None
    store(config, "a")
    found = calibration_use(config, "a")
    assert found is not None
    assert measured_of(found) == MEASURED
    assert calibration_use(config, "b") is None


def test_the_first_one_stays(config: ModelConfig) -> None:
    store(config, "a")
    other = Measured(DEFAULT, DEFAULT)
    assert measured_of(store(config, "a", measured=other)) == MEASURED
    twin = ModelConfig.objects.create(name="twin")
    assert measured_of(store(twin, "a", measured=other)) == MEASURED


def test_a_failure_is_kept_with_its_reason(config: ModelConfig) -> None:
    row = store(config, "a", measured=None, error="x" * 999)
    assert (measured_of(row), len(row.error)) == (None, calibrations.MAX_ERROR_LEN)


def test_of_another_version_it_says_nothing(config: ModelConfig) -> None:
    row = store(config, "a")
    row.measured = {"t": "Measured", "unheard": 1}
    assert measured_of(row) is None


def test_the_ones_used_last_are_kept(config: ModelConfig) -> None:
    for number in range(MAX_KEPT + 3):
        store(config, f"key-{number}")
        calibration_use(config, "key-0")
    keys = set(Calibration.objects.values_list("key", flat=True))
    assert len(keys) == MAX_KEPT
    assert {"key-0", f"key-{MAX_KEPT + 2}"} <= keys
    assert "key-1" not in keys


def test_measuring_again_forgets_twins_and_the_machine(config: ModelConfig) -> None:
    twin = ModelConfig.objects.create(name="twin")
    other = ModelConfig.objects.create(name="other")
    probe_store("k", name="a machine", use_extra_bufts=False)
    probe_store("elsewhere", name="another", use_extra_bufts=True)
    for one, key in ((config, "a"), (twin, "a"), (other, "b")):
        store(one, key)
    assert can_measure(config)
    model_measure(config=config)
    assert list(Calibration.objects.values_list("config__name", "key")) == [("other", "b")]
    assert (probe_find("k"), probe_find("elsewhere")) == (None, True)
    assert not can_measure(config)


def test_a_probe_is_corrected(db: None) -> None:
    assert probe_find("k") is None
    for may in (True, False):
        probe_store("k", name="a machine", use_extra_bufts=may)
        assert probe_find("k") is may


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cache_type_v": "q8_0", "flash_attention": "off"}, "needs flash attention"),
        ({"cache_type_k": "q3"}, "one of f16"),
    ],
)
def test_cache_types_that_can_not_be(
    config: ModelConfig, fields: dict[str, str], words: str
) -> None:
    for name, value in fields.items():
        setattr(config, name, value)
    with pytest.raises(InvalidError, match=words):
        model_config_change(config=config)


@pytest.mark.parametrize("flash_attention", ["auto", "on"])
def test_cache_types_that_can_be(config: ModelConfig, flash_attention: str) -> None:
    config.cache_type_k = config.cache_type_v = "q8_0"
    config.flash_attention = flash_attention
    assert model_config_change(config=config)
    config.refresh_from_db()
    assert config.cache_type_v == "q8_0"


@pytest.mark.parametrize("layout", ["auto", "streams", "unified"])
def test_the_environment_says_how_its_own_model_keeps_its_kv(settings: Any, layout: str) -> None:
    settings.ENGINE_KV = layout
    assert starter_config_sync().kv_layout == layout
