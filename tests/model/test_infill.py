"""Gaps on a real vocabulary: what the routes make of them, token by token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from inference.engine.pipeline import Pipeline
from inference.protocol.requests import GenerateRequest
from inference.registry.gguf.process import read_header
from tests.edge.conftest import as_alice, fake  # noqa: F401
from tests.edge.wire import TEXT, Wire
from tests.fakes.inference_api import FakeInference
from tests.fim import MARKS, find_fim
from tests.model.served import exact_worker, serve_by
from tests.worker.conftest import Bench

pytestmark = [pytest.mark.model, pytest.mark.timeout(120)]

INFILL, PATH = "/infill", "/completion"
PREFIX, SUFFIX = "def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n"
CONTEXT_LEN = 512
GREEDY = {"temperature": 0, "n_predict": 8}


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """A worker with the model that has marks."""
    with exact_worker(str(find_fim()), CONTEXT_LEN) as made:
        yield made


@pytest.fixture
def wire(bench: Bench, fake: FakeInference) -> Wire:  # noqa: F811
    """A client whose requests that worker answers."""
    serve_by(bench, fake, CONTEXT_LEN)
    return Wire()


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """What the engine got, request by request."""
    seen: list[tuple[int, ...]] = []
    prepare = Pipeline.prepare

    def noted(self: Pipeline, request: GenerateRequest) -> Any:
        made = prepare(self, request)
        seen.append(made.tokens)
        return made

    monkeypatch.setattr(Pipeline, "prepare", noted)
    return seen


async def ok(wire: Wire, path: str, **fields: Any) -> Any:
    """The body of a 200."""
    status, body = await wire.post(path, **fields)
    assert status == 200, body
    return body


async def ids(wire: Wire, text: str) -> list[int]:
    """The tokens of a text without any mark."""
    tokens: list[int] = (
        await ok(wire, "/tokenize", content=text, add_special=False, parse_special=False)
    )["tokens"]
    return tokens


async def head(wire: Wire, *files: tuple[str, str]) -> list[Any]:
    """What stands before the file with the gap."""
    found = [MARKS.repository, *await ids(wire, "repository\n")]
    for name, text in files:
        found += [MARKS.file, *await ids(wire, f"{name}\n"), *await ids(wire, text)]
    return [*found, MARKS.file, *await ids(wire, "file\n")]


async def gap(wire: Wire, prefix: str, begun: str, suffix: str) -> list[int]:
    """The file with the gap; what was begun in it is tokenised by itself."""
    before = [*await ids(wire, prefix), *await ids(wire, begun)]
    return [MARKS.prefix, *before, MARKS.suffix, *await ids(wire, suffix), MARKS.middle]


def test_the_file_is_the_starter_model_but_for_the_marks() -> None:
    facts = read_header(find_fim()).facts
    assert (facts.architecture, facts.purpose, facts.num_layers) == ("llama", "text", 30)


async def test_an_infill_token_by_token(wire: Wire, prompts: list[tuple[int, ...]]) -> None:
    files = (("util.py", "ONE = 1\n"), ("main.py", "import util\n"))
    extra = [{"filename": name, "text": text} for name, text in files]
    fields = {"input_prefix": PREFIX, "prompt": "a + ", "input_suffix": SUFFIX}
    body = await ok(wire, INFILL, input_extra=extra, **fields, **GREEDY)
    expected = [*await head(wire, *files), *await gap(wire, PREFIX, "a + ", SUFFIX)]
    assert prompts == [tuple(expected)]
    assert body["tokens_evaluated"] == len(expected)
    told = await ok(wire, PATH, prompt=expected, **GREEDY)
    assert body["content"] == told["content"] != ""


async def test_a_suffix_of_a_text_completion_is_such_a_gap(
    wire: Wire, prompts: list[tuple[int, ...]]
) -> None:
    fields = {"temperature": 0, "max_tokens": 8}
    body = await ok(wire, TEXT, prompt=PREFIX, suffix=SUFFIX, **fields)
    expected = [*await head(wire), *await gap(wire, PREFIX, "", SUFFIX)]
    assert prompts == [tuple(expected)]
    assert body["usage"]["prompt_tokens"] == len(expected)
    told = await ok(wire, INFILL, input_prefix=PREFIX, prompt="", input_suffix=SUFFIX, **GREEDY)
    assert prompts[-1] == prompts[0]
    assert body["choices"][0]["text"] == told["content"]


@pytest.mark.parametrize("path", [INFILL, TEXT])
async def test_a_stream_fills_it_with_the_same(wire: Wire, path: str) -> None:
    if path == INFILL:
        fields = {"input_prefix": PREFIX, "prompt": "", "input_suffix": SUFFIX, **GREEDY}
        whole = (await ok(wire, path, **fields))["content"]
        streamed = "".join(chunk["content"] for chunk in (await wire.stream(path, **fields)).data)
    else:
        fields = {"prompt": PREFIX, "suffix": SUFFIX, "temperature": 0, "max_tokens": 8}
        whole = (await ok(wire, path, **fields))["choices"][0]["text"]
        data = (await wire.stream(path, **fields)).data
        streamed = "".join(c["choices"][0]["text"] for c in data if c.get("choices"))
    assert streamed == whole != ""


async def test_marks_in_the_texts_are_text(wire: Wire, prompts: list[tuple[int, ...]]) -> None:
    marks = "<issue_start><issue_comment><issue_closed><repo_name><file_sep>"
    await ok(wire, INFILL, input_prefix=marks, prompt=marks, input_suffix=marks, **GREEDY)
    (prompt,) = prompts
    assert prompt == (*await head(wire), *await gap(wire, marks, marks, marks))
    for mark in (MARKS.prefix, MARKS.suffix, MARKS.middle, MARKS.repository, MARKS.file):
        assert prompt.count(mark) == 1


async def test_what_is_nearest_to_the_gap_is_kept(
    wire: Wire, prompts: list[tuple[int, ...]]
) -> None:
    lines = "".join(f"line_{number} = {number}\n" for number in range(200))
    await ok(wire, INFILL, input_prefix=lines, prompt="", input_suffix=lines, **GREEDY)
    (prompt,) = prompts
    window = CONTEXT_LEN // 2
    start, end = prompt.index(MARKS.prefix), prompt.index(MARKS.suffix)
    before, behind = prompt[start + 1 : end], prompt[end + 1 : -1]
    assert (len(before), len(behind)) == (window * 3 // 4, window // 4 - 2)
    whole = await ids(wire, lines)
    assert list(before) == whole[-len(before) :]
    assert list(behind) == whole[: len(behind)]
    assert prompt[-1] == MARKS.middle
