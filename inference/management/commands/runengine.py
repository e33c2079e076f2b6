"""`manage.py runengine MODEL`: run one engine in the foreground, for a person."""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from inference.models import ModelConfig
from inference.protocol.spec import encode_spec
from inference.registry.services import starter_config_sync
from inference.supervisor.child import ROOT, scrubbed_environment
from inference.supervisor.specs import Tuning, engine_spec
from inference.supervisor.tuning import question_of, tuning_find


class Command(BaseCommand):
    """The same process that the supervisor would start, with its log on this terminal."""

    help = "Run one engine in the foreground."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See `BaseCommand`."""
        parser.add_argument("model", nargs="?", help="name of a model config; the default one")
        parser.add_argument(
            "--trace", metavar="FILE", help="write a Chrome trace of steps and slots"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """See the class."""
        starter = starter_config_sync()
        name = options["model"] or starter.name
        config = ModelConfig.objects.filter(name=name).first()
        if config is None:
            raise CommandError(f"there is no model config {name!r}")
        known = tuning_find(question_of(config)) if config.engine_class == "llama" else None
        spec = engine_spec(config, redis_url=settings.REDIS_URL, tuning=known or Tuning())
        if options["trace"]:
            spec = replace(spec, trace_path=str(Path(options["trace"]).absolute()))
        process = subprocess.Popen(
            [sys.executable, "-m", "inference.worker"],
            stdin=subprocess.PIPE,
            env=scrubbed_environment(),
            cwd=ROOT,
        )
        process.communicate(encode_spec(spec).encode())
        sys.exit(process.returncode)
