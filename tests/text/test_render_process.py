"""The child that renders untrusted templates: killed when endless or huge, and started again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from inference.text.chat_template import CHATML_TEMPLATE, RenderJob, TemplateRefusedError
from inference.text.render_process import TemplateRenderer
from llamaweb.lib.errors import InvalidError

# The second message decides, so that one child can be driven into each state.
BY_COMMAND = """{% set c = messages[0].content %}
{%- if c == 'endless' -%}
{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}
{%- elif c == 'huge' -%}{{ (c * 500000000) | length }}
{%- elif c == 'big' -%}{{ 'x' * 5000000 }}
{%- elif c == 'refuse' -%}{{ raise_exception('Not this') }}
{%- else -%}{{ c }}{%- endif -%}"""


def job(content: str) -> RenderJob:
    return RenderJob([{"role": "user", "content": content}])


@contextmanager
def renderer(template: str = BY_COMMAND, timeout_s: float = 20.0) -> Iterator[TemplateRenderer]:
    with closing(TemplateRenderer(template, "<s>", "</s>", timeout_s=timeout_s)) as made:
        yield made


def child_pid(made: TemplateRenderer) -> int:
    assert made._child is not None
    return made._child.pid


def test_renders_like_in_process() -> None:
    with renderer(CHATML_TEMPLATE) as made:
        assert made.render_job(job("héllo 😺")) == (
            "<|im_start|>user\nhéllo 😺<|im_end|>\n<|im_start|>assistant\n"
        )


def test_endless_template_is_killed_and_the_next_job_served() -> None:
    with renderer(timeout_s=20.0) as made:
        assert made.render_job(job("a")) == "a"
        pid = child_pid(made)
        made._timeout_s = 0.5
        with pytest.raises(InvalidError, match=r"longer than 0\.5 s"):
            made.render_job(job("endless"))
        assert not Path(f"/proc/{pid}").exists()
        made._timeout_s = 20.0
        assert made.render_job(job("b")) == "b"


def test_huge_template_output_is_refused_and_the_next_job_served() -> None:
    with renderer() as made:
        with pytest.raises(InvalidError, match="memory"):
            made.render_job(job("huge"))
        assert made.render_job(job("b")) == "b"


@pytest.mark.parametrize("source", ["{{ 'x' * 3000000000 }}", "{{ 9 ** (9 ** 9) }}"])
def test_template_that_explodes_when_compiled(source: str) -> None:
    with renderer(source, timeout_s=1.0) as made, pytest.raises(InvalidError, match="memory"):
        made.render_job(job("a"))


def test_large_texts_pass_both_ways() -> None:
    with renderer() as made:
        assert len(made.render_job(job("big"))) == 5_000_000
        text = "é" * 2_000_000
        assert made.render_job(job(text)) == text


def test_refusals_keep_the_child() -> None:
    with renderer() as made:
        with pytest.raises(TemplateRefusedError, match="Not this"):
            made.render_job(job("refuse"))
        pid = child_pid(made)
        assert made.render_job(job("b")) == "b"
        assert child_pid(made) == pid


def test_killed_between_jobs_is_started_again() -> None:
    with renderer() as made:
        made.render_job(job("a"))
        os.kill(child_pid(made), 9)
        assert made.render_job(job("b")) == "b"


def test_unreadable_template_is_said_each_time() -> None:
    with renderer("{% for %}") as made:
        for _ in range(2):
            with pytest.raises(InvalidError, match="can't be read: line 1"):
                made.render_job(job("a"))


def test_many_threads_share_a_child() -> None:
    texts: list[str] = []
    with renderer() as made:
        made.render_job(job("warm"))
        threads = [
            threading.Thread(target=lambda n=n: texts.append(made.render_job(job(f"text {n}"))))
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert sorted(texts) == [f"text {n}" for n in range(8)]


def test_child_inherits_no_secrets_and_may_open_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_SECRET", "tell-nobody")
    with renderer() as made:
        made.render_job(job("a"))
        proc = Path(f"/proc/{child_pid(made)}")
        assert b"tell-nobody" not in (proc / "environ").read_bytes()
        limits = (proc / "limits").read_text()
        assert [line.split()[3:5] for line in limits.splitlines() if "open files" in line] == [
            ["3", "3"]
        ]
        assert sorted(p.name for p in (proc / "fd").iterdir()) == ["0", "1", "2"]


def test_closing_ends_the_child() -> None:
    with renderer() as made:
        made.render_job(job("a"))
        pid = child_pid(made)
    ends_ts = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < ends_ts
        time.sleep(0.01)


def deep_job(levels: int) -> RenderJob:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return RenderJob([{"role": "user", "content": "a"}], variables={"x": value})


def test_deep_values_need_no_recursion_of_ours() -> None:
    with renderer() as made:
        assert made.render_job(deep_job(600)) == "a"


def test_values_too_deep_for_json_are_refused() -> None:
    with renderer() as made:
        with pytest.raises(InvalidError, match="too deeply"):
            made.render_job(deep_job(5_000))
        assert made.render_job(job("b")) == "b"
