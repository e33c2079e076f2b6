"""What a key of an administrator does with models: the acts of the admin, by name.

Each but `fetch` runs in a thread of the database; all raise ForbiddenError for everybody else,
and the service behind it writes it down.
"""

from __future__ import annotations

import asyncio

from django.db import transaction

from inference.edge.models.permissions import administrator
from inference.models import ModelConfig, ModelFile
from inference.registry.config_services import model_config_delete
from inference.registry.downloads import hub_download_start, model_download_cancel
from inference.registry.files import model_file_delete
from inference.registry.hub import HubModel, hub_model
from inference.registry.model_cards import downloads_open
from inference.registry.scan import models_scan
from inference.registry.selectors import config_resolve
from inference.registry.wanted import model_load, model_unload
from llamaweb.accounts.caller import Caller
from llamaweb.accounts.database import in_database
from llamaweb.lib.errors import InvalidError, NotFoundError

ABSENT = "model is not found"
NAMELESS = "model name is missing from the request"


def load(caller: Caller, name: str, address: str | None) -> None:
    """Have an engine run for a model.

    Raises:
        NotFoundError: there is no such model.
        InvalidError: it is to run already, or can't.
    """
    actor = administrator(caller, "change")
    if not model_load(config=_config(name), actor=actor, address=address):
        raise InvalidError("model is already running")


def unload(caller: Caller, name: str, address: str | None) -> None:
    """End a model's engine; one that is loading ends, too.

    Raises:
        InvalidError: there is no such model, or it isn't to run.
    """
    actor = administrator(caller, "change")
    try:
        config = _config(name)
    except NotFoundError as error:
        raise InvalidError(error.message) from error
    if not model_unload(config=config, actor=actor, address=address):
        raise InvalidError("model is not running")


async def fetch(caller: Caller, reference: str, address: str | None) -> None:
    """Start the download of a hub's model, named like `user/repo:QUANT`. Asks the hub before, which
    takes a second or so.

    Raises:
        InvalidError: no such model, or it is here already, or on its way.
        UnreachableError, ForbiddenError: the hub can't be asked.
    """
    await in_database(administrator)(caller, "add")
    model = await asyncio.to_thread(_hub_model, reference)
    await in_database(_start)(caller, model, address)


def _hub_model(reference: str) -> HubModel:
    try:
        return hub_model(reference)
    except InvalidError as error:
        raise InvalidError(error.message, param="model") from error


def _start(caller: Caller, model: HubModel, address: str | None) -> None:
    actor = administrator(caller, "add")
    name = f"{model.repo}:{model.quant}"
    hub_download_start(model=model, name=name, actor=actor, address=address)


def remove(caller: Caller, name: str, address: str | None) -> None:
    """Cancel a download, or forget a downloaded model and remove its files.

    Raises:
        NotFoundError: there is no such model.
        InvalidError: it wasn't downloaded, or is in use.
    """
    actor = administrator(caller, "delete")
    coming = next((one for one in downloads_open() if one.name == name), None)
    if coming is not None:
        administrator(caller, "change", ModelFile)
        file = ModelFile.objects.get(pk=coming.file_id)
        model_download_cancel(file=file, actor=actor, address=address)
        return
    administrator(caller, "delete", ModelFile)
    with transaction.atomic():
        config = _config(name)
        kept = config.file
        if kept is None or not kept.is_owned:
            raise InvalidError(f"{config.name} wasn't downloaded by this server, so it stays")
        model_config_delete(config=config, actor=actor, address=address)
        if not kept.configs.exists():
            model_file_delete(file=kept, actor=actor, address=address)


def look_again(caller: Caller, address: str | None) -> None:
    """Look through the models directory; raises as `models_scan`."""
    models_scan(actor=administrator(caller, "change", ModelFile), address=address)


def _config(name: str) -> ModelConfig:
    """Any model, whoever may use it, disabled ones too."""
    try:
        return config_resolve(ModelConfig.objects.select_related("file"), name)
    except NotFoundError as error:
        raise NotFoundError(ABSENT) from error
