"""Loading: what the file says, and clear words where it can't be used."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.engine.loading import LoadStoppedError
from inference.engine.starter import find_starter_model
from llamaweb.lib.errors import FailedError, InvalidError
from tests.model.conftest import starter_spec

pytestmark = pytest.mark.model


def test_the_vocabulary(engine: Engine) -> None:
    tokenizer = engine._backend.tokenizer
    assert engine.max_context == 1024
    assert tokenizer.vocab_len == 49_152
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.chat_template is not None
    (end,) = tokenizer.tokenize("<|im_end|>", add_special=False, parse_special=True)
    assert tokenizer.is_end(end)
    assert tokenizer.piece(end) == b""
    assert tokenizer.piece(end, special=True) == b"<|im_end|>"
    assert len(tokenizer.tokenize("<|im_end|>", add_special=False, parse_special=False)) > 1


@pytest.mark.parametrize("text", ["", "hello world", "漢字 😺 é", "a\n\n  b\t", "x" * 500])
def test_text_survives_the_vocabulary(engine: Engine, text: str) -> None:
    tokenizer = engine._backend.tokenizer
    tokens = tokenizer.tokenize(text, add_special=False, parse_special=False)
    assert b"".join(tokenizer.piece(token) for token in tokens).decode() == text


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FailedError, match=r"absent\.gguf"):
        build_engine(starter_spec(model_path=str(tmp_path / "absent.gguf")))


@pytest.mark.parametrize("keep_bytes", [0, 100, 1_000_000])
def test_a_damaged_file_is_named(tmp_path: Path, keep_bytes: int) -> None:
    starter = find_starter_model()
    assert starter is not None
    path = tmp_path / "damaged.gguf"
    with starter.open("rb") as file:
        path.write_bytes(file.read(keep_bytes))
    with pytest.raises(FailedError, match=r"damaged\.gguf"):
        build_engine(starter_spec(model_path=str(path)))


def test_a_load_is_told_from_nothing_to_all() -> None:
    shares: list[float] = []
    loaded, _ = build_engine(starter_spec(), lambda share: not shares.append(share))
    loaded.close()
    assert len(shares) > 10
    assert shares == sorted(shares)
    assert (shares[0] < 0.1, shares[-1]) == (True, 1.0)


@pytest.mark.parametrize("after", [0.0, 0.5, 1.0])
def test_a_load_is_broken_off_wherever_it_is(after: float) -> None:
    shares: list[float] = []

    def on_load(share: float) -> bool:
        shares.append(share)
        return share < after

    with pytest.raises(LoadStoppedError):
        build_engine(starter_spec(), on_load)
    assert shares[-1] >= after
    assert all(share < after for share in shares[:-1])


def test_an_error_of_whoever_hears_of_the_load_is_not_the_files() -> None:
    def on_load(share: float) -> bool:
        raise ConnectionError("nobody to tell")

    with pytest.raises(ConnectionError, match="nobody to tell"):
        build_engine(starter_spec(), on_load)


def test_a_signal_reaches_a_load_in_the_main_thread() -> None:
    """What the supervisor sends: the handler runs between tensors, not behind the load."""
    asked: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: asked.append(number))

    def on_load(share: float) -> bool:
        if share < 0.5:
            signal.raise_signal(signal.SIGUSR1)
        return not asked

    try:
        with pytest.raises(LoadStoppedError):
            build_engine(starter_spec(), on_load)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert asked


def test_a_bad_setting_is_named() -> None:
    with pytest.raises(InvalidError) as caught:
        build_engine(starter_spec(flash_attention="maybe"))
    assert caught.value.param == "flash_attention"


def test_loading_leaves_no_computing_threads_behind() -> None:
    """A second pool of them would put both to sleep at every barrier."""
    before = _num_threads()
    # One that yields cores has a thread that watches them, and computes nothing.
    loaded, _ = build_engine(starter_spec(threads=3, yields_cores=False))
    try:
        ends_ts = time.monotonic() + 10.0  # they end by themselves, right after their owner
        while _num_threads() > before and time.monotonic() < ends_ts:
            time.sleep(0.01)
        assert _num_threads() == before
    finally:
        loaded.close()


def _num_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))
