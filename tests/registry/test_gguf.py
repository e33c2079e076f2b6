"""The header reader: what it finds in models of all kinds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inference.engine.starter import find_starter_model
from inference.registry.gguf.errors import SHOWN_CHARS, GgufError
from inference.registry.gguf.facts import GgufFacts, facts_from_plain, facts_to_plain
from inference.registry.gguf.process import read_header
from tests.registry.gguf_files import Value, entry, header, model, tensor, values, whole


def write(folder: Path, data: bytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(data)
    return path


def facts(
    folder: Path, entries: dict[str, Value], tensors: dict[str, int] | None = None
) -> GgufFacts:
    return read_header(write(folder, whole(entries, tensors))).facts


def test_what_a_file_says(tmp_path: Path) -> None:
    found = read_header(write(tmp_path, model()))
    said = found.facts
    assert (said.kind, said.purpose, said.version) == ("model", "text", 3)
    assert (said.architecture, said.name, said.context_len) == ("llama", "Tiny", 2048)
    assert (said.tokens.model, said.tokens.num, said.templates) == ("gpt2", 2, ("",))
    assert (said.weights.num_tensors, said.weights.num_params) == (1, 1024)
    assert (said.heads.num, said.heads.num_kv, said.heads.key_len) == (4, 2, 16)
    assert (said.layers.keys, said.layers.values) == ((32, 32), (32, 32))
    assert said.size == (tmp_path / "model.gguf").stat().st_size
    assert found.templates == {"": "{{ messages }}"}
    assert facts_from_plain(facts_to_plain(said)) == said


@pytest.mark.model
def test_the_starter_model() -> None:
    path = find_starter_model()
    assert path is not None
    said = read_header(path).facts
    assert (said.architecture, said.context_len, said.templates) == ("llama", 8192, ("",))
    assert (said.quantization, said.size_label, said.tokens.num) == ("Q4_1", "135M", 49_152)
    assert (said.weights.num_params, said.num_layers) == (134_515_008, 30)
    assert 5.0 < said.bits_per_weight < 6.0
    assert said.size == path.stat().st_size


def test_names_become_harmless(tmp_path: Path) -> None:
    hostile = "a\0b\u202ec\r\n<script>alert(1)</script>" + "x" * 1000
    found = read_header(write(tmp_path, model(name=hostile))).facts
    assert found.name.isprintable()
    assert len(found.name) <= SHOWN_CHARS


def test_named_templates(tmp_path: Path) -> None:
    entries = values() | {"tokenizer.chat_template.tool_use": "{{ tools }}"}
    found = read_header(write(tmp_path, whole(entries)))
    assert found.templates == {"": "{{ messages }}", "tool_use": "{{ tools }}"}


@pytest.mark.parametrize(
    ("more", "kind", "purpose"),
    [
        ({"general.type": "adapter", "adapter.type": "lora"}, "adapter", ""),
        ({"general.type": "mmproj"}, "mmproj", ""),
        ({"general.architecture": "clip", "clip.has_vision_encoder": True}, "mmproj", ""),
        ({"general.architecture": "eagle3"}, "draft", ""),
        ({"llama.nextn_predict_layers": 2}, "draft", ""),
        ({"llama.nextn_predict_layers": 1}, "model", "text"),
        ({"split.no": 1, "split.count": 3}, "shard", ""),
        ({"general.type": "imatrix"}, "other", ""),
        ({"llama.pooling_type": 3}, "model", "embedding"),
        ({"llama.pooling_type": 4}, "model", "reranking"),
        ({"llama.attention.causal": False}, "model", "embedding"),
        ({"general.architecture": "bert"}, "model", "embedding"),
        ({"general.architecture": "llada"}, "model", "diffusion"),
        ({"general.architecture": "t5"}, "model", "paired"),
    ],
)
def test_kinds_of_files(tmp_path: Path, more: dict[str, Value], kind: str, purpose: str) -> None:
    found = facts(tmp_path, values() | more)
    assert (found.kind, found.purpose) == (kind, purpose)


def test_a_vocabulary_has_no_weights(tmp_path: Path) -> None:
    assert facts(tmp_path, values(), {}).kind == "vocabulary"


def test_an_adapter_and_an_encoder(tmp_path: Path) -> None:
    adapter = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 16.0}
    found = facts(tmp_path, {"general.architecture": "qwen3", **adapter})
    assert (found.architecture, found.adapter.kind, found.adapter.alpha) == ("qwen3", "lora", 16.0)
    encoder = {"clip.has_vision_encoder": True, "clip.has_audio_encoder": True}
    found = facts(tmp_path, {"general.architecture": "clip", **encoder})
    assert found.modalities == ("vision", "audio")


def test_a_mixture_of_experts_with_stretched_positions(tmp_path: Path) -> None:
    more: dict[str, Value] = {
        "llama.expert_count": 128,
        "llama.expert_used_count": 8,
        "llama.expert_feed_forward_length": 768,
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.dimension_sections": [16, 24, 24, 0],
        "general.file_type": 15,
    }
    found = facts(tmp_path, values() | more)
    assert (found.experts.num, found.experts.num_used, found.feed_forward_len) == (128, 8, 768)
    assert (found.rope.kind, found.rope.scaling, found.rope.factor) == ("mrope", "yarn", 4.0)
    assert found.quantization == "Q4_K_M"


def layers_of(folder: Path, architecture: str, **more: Value) -> GgufFacts:
    named = {f"{architecture}.{key}".replace("__", "."): value for key, value in more.items()}
    return facts(folder, values(architecture=architecture) | named)


def test_a_window_on_most_layers(tmp_path: Path) -> None:
    found = layers_of(tmp_path, "gemma3", block_count=12, attention__sliding_window=512)
    assert found.heads.window_len == 512
    assert [n for n, one in enumerate(found.layers.is_windowed) if not one] == [5, 11]
    pattern = [True, False, True, True]
    found = layers_of(
        tmp_path,
        "gemma4",
        block_count=4,
        attention__sliding_window=512,
        attention__sliding_window_pattern=pattern,
        attention__key_length=512,
        attention__key_length_swa=256,
        attention__shared_kv_layers=1,
    )
    assert list(found.layers.is_windowed) == pattern
    assert found.layers.keys == (512, 1024, 512, 0)


def test_states_in_place_of_keys(tmp_path: Path) -> None:
    sizes: dict[str, Value] = {
        "ssm__conv_kernel": 4,
        "ssm__inner_size": 128,
        "ssm__state_size": 16,
        "ssm__group_count": 1,
    }
    state = 3 * (128 + 2 * 16) + 16 * 128
    found = layers_of(tmp_path, "mamba2", **sizes)
    assert (found.layers.keys, found.layers.state) == ((0, 0), (state, state))
    found = layers_of(
        tmp_path, "granitehybrid", block_count=3, attention__head_count_kv=[0, 2, 0], **sizes
    )
    assert (found.layers.keys, found.layers.state) == ((0, 32, 0), (state, 0, state))
    found = layers_of(tmp_path, "qwen3next", block_count=8, **sizes)
    assert [n for n, one in enumerate(found.layers.state) if not one] == [3, 7]
    assert [n for n, one in enumerate(found.layers.keys) if one] == [3, 7]
    found = layers_of(tmp_path, "falcon-h1", **sizes)
    assert (found.layers.keys, found.layers.state) == ((32, 32), (state, state))


def test_compressed_attention_keeps_no_values(tmp_path: Path) -> None:
    found = layers_of(
        tmp_path,
        "deepseek2",
        attention__head_count_kv=1,
        attention__key_length=576,
        attention__value_length=512,
        attention__key_length_mla=192,
        attention__value_length_mla=128,
    )
    assert (found.layers.keys, found.layers.values) == ((576, 576), (0, 0))


def test_encoders_keep_nothing(tmp_path: Path) -> None:
    assert layers_of(tmp_path, "bert").layers.keys == (0, 0)


def test_weights_by_layer(tmp_path: Path) -> None:
    sizes = {"token_embd.weight": 128, "blk.0.a": 64, "blk.1.a": 32, "output.weight": 16, "x": 8}
    found = facts(tmp_path, values(), sizes).weights
    assert found.layer_bytes == (256, 128)
    assert (found.input_bytes, found.output_bytes, found.other_bytes) == (512, 64, 32)


def test_the_main_type_is_that_of_most_parameters(tmp_path: Path) -> None:
    rows = [tensor("a", (32, 2), 0, 0), tensor("b", (256, 4), 12, 256)]
    data = header([entry("general.architecture", "llama")], rows)
    data += b"\0" * (-len(data) % 32) + bytes(256 + 4 * 144)
    found = read_header(write(tmp_path, data)).facts
    assert (found.quantization, found.weights.main_kind) == ("Q4_K", "Q4_K")


def test_links_aren_t_followed(tmp_path: Path) -> None:
    path = write(tmp_path, model())
    (tmp_path / "link.gguf").symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        read_header(tmp_path / "link.gguf")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    for path in (tmp_path, tmp_path / "pipe.gguf", Path("/dev/zero")):
        with pytest.raises(GgufError, match="not a regular file"):
            read_header(path)
