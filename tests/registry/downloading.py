"""What tests of downloads share."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from django.db import connection

from inference.models import ModelConfig, ModelFile
from inference.registry.download_job import model_download
from inference.registry.downloads import model_download_start
from inference.registry.files import partial_path
from tests.registry.gguf_files import model
from tests.registry.job_process import DIES_WITH, job_process
from tests.registry.source import Source

BODY = model(num_values=500_000)  # 2 MB
SHA256 = hashlib.sha256(BODY).hexdigest()
WAIT_S = 20.0


def start(source: Source, **values: Any) -> ModelFile:
    source.body = source.body or BODY
    return model_download_start(**{"url": source.url, "name": "tiny", **values})


def fresh(file: ModelFile) -> ModelFile:
    return ModelFile.objects.get(pk=file.pk)


def left_over(folder: Path) -> list[str]:
    """All files but the lock of those who look."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.name != ".scan.lock"]
    return sorted(str(path.relative_to(folder)) for path in found)


def failed(file: ModelFile, folder: Path, *, kept: bool = False) -> str:
    """The reason of a failure that left no model behind."""
    row = fresh(file)
    assert (row.state, row.path) == ("failed", "")
    assert not ModelConfig.objects.exists()
    assert [name for name in left_over(folder) if name.endswith(".gguf")] == []
    assert partial_path(row.pk).exists() == kept
    return row.error


def die(file: ModelFile, *, at: str) -> None:
    """Run the job in a process that ends by itself at a place (see `job_process`)."""
    with job_process(file.pk, dies_at=at) as process:
        try:
            assert process.wait(4 * WAIT_S) == DIES_WITH
        finally:
            process.kill()


def run_job(file_id: int) -> None:
    try:
        model_download(file_id)
    finally:
        connection.close()
