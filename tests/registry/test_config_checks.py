"""What a header says against how a model is to be served, and the estimate of a configured one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from inference.models import Calibration, ModelConfig, ModelFile
from inference.protocol.codec import to_plain
from inference.protocol.trial import Choice, Measured
from inference.registry.config_services import (
    free_name,
    model_config_add,
    model_config_change,
    model_config_of,
    model_default_set,
)
from inference.registry.files import loadable_path
from inference.registry.memory_plan import config_facts, model_estimate
from inference.registry.scan import models_scan
from inference.registry.selectors import model_info
from inference.registry.wanted import model_load
from llamaweb.lib.errors import FailedError, InvalidError
from tests.registry.gguf_files import Value, shards, values, whole

pytestmark = pytest.mark.django_db(transaction=True)


def put(folder: Path, **more: Value) -> Path:
    """A small model, listed."""
    path = folder / "m.gguf"
    path.write_bytes(whole(values() | {key.replace("__", "."): v for key, v in more.items()}))
    models_scan()
    return path


def config_of(folder: Path, **more: Value) -> ModelConfig:
    put(folder, **more)
    return model_config_add(name="m", path="m.gguf")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"general__architecture": "dream"}, "writes by diffusion"),
        ({"general__type": "adapter", "adapter__type": "lora"}, "an adapter (lora)"),
        ({"general__type": "mmproj"}, "an encoder"),
        ({"general__architecture": "eagle3"}, "a draft"),
    ],
)
def test_what_can_t_answer(models_dir: Path, more: dict[str, Value], reason: str) -> None:
    put(models_dir, **more)
    with pytest.raises(InvalidError) as caught:
        model_config_add(name="m", path="m.gguf")
    assert reason in caught.value.message
    with pytest.raises(InvalidError):
        model_config_of(file=ModelFile.objects.get())
    assert not ModelConfig.objects.exists()


@pytest.mark.parametrize(
    ("more", "task"),
    [
        ({"llama__pooling_type": 1}, "embedding"),
        ({"llama__pooling_type": 4}, "reranking"),
        ({"general__architecture": "bert"}, "embedding"),
    ],
)
def test_models_of_vectors_are_served_and_no_chats_default(
    models_dir: Path, more: dict[str, Value], task: str
) -> None:
    config = config_of(models_dir, **more)
    assert model_info(config).task == task
    assert not config.is_default
    with pytest.raises(InvalidError, match="can't answer in a chat"):
        model_default_set(config=config)


@pytest.mark.parametrize("field", ["cache_type_k", "cache_type_v"])
def test_packed_keys_need_heads_of_whole_blocks(models_dir: Path, field: str) -> None:
    config = config_of(
        models_dir, llama__attention__key_length=80, llama__attention__value_length=80
    )
    setattr(config, field, "q8_0")
    config.flash_attention = "on"
    with pytest.raises(InvalidError, match="multiple of 32, this model's have 80") as caught:
        model_config_change(config=config)
    assert caught.value.param == field


@pytest.mark.parametrize(
    ("more", "pooling", "reason"),
    [
        (
            {},
            "rank",
            "needs a model with a head that rates texts, and this model's file names none",
        ),
        ({"llama__pooling_type": 1}, "rank", "needs a model with a head"),
        ({"llama__pooling_type": 4}, "mean", "rates texts, it makes no vectors that pooling mean"),
        ({"llama__pooling_type": 4}, "none", "rates texts"),
    ],
)
def test_poolings_that_a_file_does_not_allow(
    models_dir: Path, more: dict[str, Value], pooling: str, reason: str
) -> None:
    config = config_of(models_dir, **more)
    config.pooling = pooling
    with pytest.raises(InvalidError, match=reason) as caught:
        model_config_change(config=config)
    assert caught.value.param == "pooling"
    assert ModelConfig.objects.get().pooling == "auto"


@pytest.mark.parametrize(
    ("more", "pooling"),
    [
        ({}, "last"),
        ({"llama__pooling_type": 1}, "none"),
        ({"llama__pooling_type": 4}, "rank"),
        ({"llama__classifier__output_labels": ["yes", "no"]}, "rank"),
    ],
)
def test_poolings_that_a_file_allows(
    models_dir: Path, more: dict[str, Value], pooling: str
) -> None:
    config = config_of(models_dir, **more)
    config.pooling = pooling
    assert model_config_change(config=config)
    assert ModelConfig.objects.get().pooling == pooling


def test_nobody_ranks_with_a_model_whose_file_nobody_has_read() -> None:
    config = ModelConfig.objects.create(name="m", engine_class="mock")
    config.pooling = "rank"
    with pytest.raises(InvalidError, match="isn't known yet"):
        model_config_change(config=config)


def test_packed_values_need_flash_attention(models_dir: Path) -> None:
    config = config_of(
        models_dir, llama__attention__key_length=64, llama__attention__value_length=64
    )
    config.cache_type_v, config.flash_attention = "q8_0", "off"
    with pytest.raises(InvalidError, match="needs flash attention"):
        model_config_change(config=config)


def test_only_whole_models_are_loaded(models_dir: Path) -> None:
    for number, data in enumerate(shards(2), start=1):
        (models_dir / f"m-{number:05d}-of-00002.gguf").write_bytes(data)
    models_scan()
    config = model_config_of(file=ModelFile.objects.get(main=None))
    assert (config.name, config.wanted) == ("m", "auto")
    assert config.file is not None
    assert loadable_path(config.file).name == "m-00001-of-00002.gguf"
    second = models_dir / "m-00002-of-00002.gguf"
    data = second.read_bytes()
    second.unlink()
    second.symlink_to("/etc/passwd")
    with pytest.raises(FailedError, match=r"m-00002-of-00002\.gguf: .* is a symbolic link"):
        loadable_path(config.file)
    second.unlink()
    models_scan()
    with pytest.raises(InvalidError, match=r"m-00002-of-00002\.gguf is missing"):
        model_load(config=config)
    second.write_bytes(data)
    models_scan()
    assert model_load(config=config)


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("My Model (v2).Q4_K_M.gguf", "My-Model-v2-.Q4_K_M"),
        ("user/repo", "user/repo"),
        ("ä", "model"),
        ("default", "default-2"),
        ("taken", "taken-2"),
        ("x" * 500, "x" * 120),
    ],
)
def test_free_names(wanted: str, name: str) -> None:
    ModelConfig.objects.create(name="taken", engine_class="mock")
    assert free_name(wanted) == name
    ModelConfig._meta.get_field("name").clean(free_name(wanted), None)


def test_the_estimate_of_a_configured_model(models_dir: Path, settings: Any) -> None:
    settings.ENGINE_CACHE_MIB = 3
    config = config_of(models_dir)
    config.num_slots, config.context_len = 2, 512
    found = model_estimate(config)
    assert found is not None
    assert found.part("kv").host == 2 * 2 * 512 * (32 + 32) * 2
    assert found.part("cache").host == 3 << 20
    more = model_estimate(config, {"num_slots": 4})
    assert more is not None
    assert more.part("kv").host == 2 * found.part("kv").host
    assert model_estimate(ModelConfig(name="mock", engine_class="mock")) is None


def test_what_was_measured_counts(models_dir: Path) -> None:
    config = config_of(models_dir)
    before = model_estimate(config)
    choice = Choice(threads=1, flash_attention="on", kv_unified=False, ubatch_len=1024)
    Calibration.objects.create(
        config=config,
        key="k",
        machine_key="m",
        machine_name="m",
        measured=to_plain(Measured(choice, choice)),
        created_at=timezone.now(),
        used_at=timezone.now(),
    )
    after = model_estimate(ModelConfig.objects.get())
    assert before is not None
    assert after is not None
    assert after.part("compute") != before.part("compute")


@pytest.mark.model
def test_the_starter_model_is_known(models_dir: Path) -> None:
    facts = config_facts(ModelConfig(name="starter", is_starter=True))
    assert facts is not None
    assert facts.num_layers == 30
    assert config_facts(ModelConfig(name="gone", model_path="/nowhere/x.gguf")) is None
