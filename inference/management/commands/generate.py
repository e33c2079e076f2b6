"""`manage.py generate USER PROMPT`: an owned generation from the command line.

It goes on when this command is ended, and `--follow ID` takes it up again.
"""

from __future__ import annotations

import asyncio
import time
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from inference import api
from inference.protocol.events import Delta, Failed, is_terminal
from inference.protocol.fold import text_of
from inference.protocol.params import Limits, SamplingParams
from inference.protocol.requests import ChatPrompt, GenerateRequest, Message
from inference.queues.contract import Read
from inference.registry.generations import ON_FINISH
from inference.registry.selectors import model_resolve
from llamaweb.lib.errors import LlamawebError
from llamaweb.lib.ids import new_id, new_seed

DEADLINE_S = 3600.0


class Command(BaseCommand):
    """Prints the answer as it comes; `--detach` prints the id instead."""

    help = "Generate an answer that survives everything, from the command line."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See `BaseCommand`."""
        parser.add_argument("user")
        parser.add_argument("prompt", nargs="?")
        parser.add_argument("--model")
        parser.add_argument("--max-tokens", type=int)
        parser.add_argument("--temperature", type=float)
        parser.add_argument("--seed", type=int)
        parser.add_argument("--detach", action="store_true", help="print the id and leave")
        parser.add_argument("--follow", metavar="ID", help="take up an earlier generation")

    def handle(self, *args: Any, **options: Any) -> None:
        """See the class."""
        owner = get_user_model().objects.filter(username=options["user"]).first()
        if owner is None:
            raise CommandError(f"there is no user {options['user']!r}")
        try:
            if options["follow"]:
                row = api.generation_get(owner=owner, generation_id=options["follow"])
                model, generation_id = row.model_name, row.id
            else:
                request = self._request(owner.pk, options)
                model, generation_id = request.model, request.generation_id
                with transaction.atomic():
                    api.generation_create(owner=owner, request=request)
            if options["detach"]:
                self.stdout.write(generation_id)
                return
            asyncio.run(self._follow(model, generation_id))
        except LlamawebError as error:
            raise CommandError(error.message) from error

    def _request(self, owner_id: int, options: dict[str, Any]) -> GenerateRequest:
        if not options["prompt"]:
            raise CommandError("give a prompt or --follow")
        now = time.time()
        model = model_resolve(options["model"])
        return GenerateRequest(
            generation_id=new_id("gen-"),
            model=model.name,
            owner_key=f"user:{owner_id}",
            cache_scope=f"user:{owner_id}",
            prompt=model.chat.fill(ChatPrompt((Message("user", options["prompt"]),))),
            seed=new_seed() if options["seed"] is None else options["seed"],
            submitted_at=now,
            deadline_at=now + DEADLINE_S,
            sampling=SamplingParams(temperature=options["temperature"]),
            limits=Limits(max_tokens=options["max_tokens"]),
            on_finish=ON_FINISH,
            keep=True,
        )

    async def _follow(self, model: str, generation_id: str) -> None:
        try:
            await self._print(model, generation_id)
        finally:
            await api.streams_close()

    async def _print(self, model: str, generation_id: str) -> None:
        async for item in api.generation_events(model, generation_id):
            if not isinstance(item, Read):
                self.stderr.write(f"{item.ahead} ahead")
                continue
            if item.gone:
                raise CommandError("the log is gone; the database has the result")
            if item.reset is not None:
                self.stdout.write(text_of(item.reset), ending="")
            for entry in item.entries:
                if isinstance(entry.event, Delta):
                    self.stdout.write(entry.event.text, ending="")
                    self.stdout.flush()
                elif isinstance(entry.event, Failed):
                    raise CommandError(entry.event.message)
                if is_terminal(entry.event):
                    self.stdout.write("")
