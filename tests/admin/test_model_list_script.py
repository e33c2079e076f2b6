"""The script that keeps the list of models live, in Node, on a page that is made up."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from llamaweb.accounts.admin_base import PER_PAGE
from tests.stack import ROOT

SCRIPT = ROOT / "llamaweb" / "static" / "llamaweb" / "models.js"
NODE = ROOT / ".venv" / "bin" / "node"
PAGE = """
const [script, replies, num] = [process.argv[1], JSON.parse(process.argv[2]), +process.argv[3]];
const cells = Array.from({ length: num }, (_, id) => ({
  state: { textContent: "–", dataset: { model: String(id) } },
  memory: { textContent: "about 1 GB", dataset: { model: String(id) } },
}));
const asked = [], shown = [];
globalThis.window = { location: { pathname: "/admin/inference/modelconfig/" } };
globalThis.document = {
  hidden: false,
  querySelector: (query) => {
    const [, id, name] = query.match(/data-model="(\\d+)".*data-live="(\\w+)"/);
    return cells[id]?.[name] ?? null;
  },
  querySelectorAll: () => cells.map((cell) => cell.state),
  addEventListener: (_, begin) => begin(),
};
globalThis.fetch = async (url) => {
  const ids = new URL(url, "http://x").searchParams.getAll("id");
  asked.push(ids.length);
  const status = replies.shift() ?? 403;
  const told = (id) => ({ id: +id, words: "ready", state: "ready", memory: "1 GB in use" });
  return { status, ok: status === 200, json: async () => ({ models: ids.map(told) }) };
};
globalThis.setTimeout = (next, wait, ...values) => {
  const last = cells.at(-1);
  shown.push([last.state.textContent, last.state.dataset.state ?? "", last.memory.textContent]);
  queueMicrotask(() => next(...values));
};
process.on("exit", () => console.log(JSON.stringify({ asked, shown })));
(0, eval)(require("node:fs").readFileSync(script, "utf8"));
"""
UNTOLD, READY = ["–", "", "about 1 GB"], ["ready", "ready", "1 GB in use"]


def live(*replies: int, num: int = 1) -> dict[str, Any]:
    """What is asked, and what the last row shows after each look, while such answers come; then
    the reader may not see it any more."""
    command = [NODE, "-e", PAGE, "--", SCRIPT, json.dumps(replies), str(num)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_long_lists_are_asked_in_parts() -> None:
    found = live(200, 200, num=PER_PAGE + 1)
    assert found == {"asked": [PER_PAGE, 1, PER_PAGE], "shown": [READY]}


def test_what_is_not_known_any_more_is_not_shown() -> None:
    found = live(200, 503, 200)
    assert found == {"asked": [1, 1, 1, 1], "shown": [READY, UNTOLD, READY]}
