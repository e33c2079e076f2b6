"""The starter model with marks for gaps: its file says that some of its control tokens are those.

It was never taught to fill a gap, so what it writes means nothing; how it is asked is real.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import gguf

from inference.engine.starter import find_starter_model
from inference.text.tokenizer import InfillTokens

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "models"
FILE_NAME = "starter-fim-v1.gguf"
# Control tokens that its chats never use: <issue_start>, <issue_comment>, <issue_closed>,
# <repo_name> and <file_sep>.
MARKS = InfillTokens(prefix=8, suffix=9, middle=10, repository=3, file=5)
KEYS = gguf.Keys.Tokenizer
IDS = {
    KEYS.FIM_PRE_ID: MARKS.prefix,
    KEYS.FIM_SUF_ID: MARKS.suffix,
    KEYS.FIM_MID_ID: MARKS.middle,
    KEYS.FIM_REP_ID: MARKS.repository,
    KEYS.FIM_SEP_ID: MARKS.file,
}


def find_fim(folder: Path = CACHE) -> Path:
    """The model in `folder`, written there at the first call; safe from several processes."""
    path = folder / FILE_NAME
    if path.is_file():
        return path
    source = find_starter_model()
    assert source is not None, "the starter model's package isn't installed"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            draft = path.with_name(f"{path.name}.{os.getpid()}")
            _write(source, draft)
            draft.replace(path)  # whoever sees it sees all of it
    return path


def _write(source: Path, path: Path) -> None:
    """The same fields and tensors, and the marks."""
    reader = gguf.GGUFReader(source)
    architecture: Any = reader.fields[gguf.Keys.General.ARCHITECTURE]
    out = gguf.GGUFWriter(path, architecture.contents())
    for name, field in reader.fields.items():
        if name != gguf.Keys.General.ARCHITECTURE and not name.startswith("GGUF."):
            kind = field.types[0]
            inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            out.add_key_value(name, field.contents(), kind, sub_type=inner)
    for name, token_id in IDS.items():
        assert token_id is not None
        out.add_uint32(name, token_id)
    for tensor in reader.tensors:
        out.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
