"""The only way to a stored response.

Absent, expired, somebody else's, or asked for by an account that isn't active: the same error.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from django.contrib.auth import get_user_model
from django.db.models import Exists, QuerySet

from inference.response_models import StoredResponse
from llamaweb.lib.errors import NotFoundError
from llamaweb.lib.ids import ID_LEN

ID_PREFIX = "resp_"
ID_RE = re.compile(rf"{ID_PREFIX}[A-Za-z0-9]{{{ID_LEN}}}")  # nothing else is asked for
NO_RESPONSE = "there is no such response"


def access_responses(user_id: int, only: Collection[str] = ()) -> QuerySet[StoredResponse]:
    """All that a user has stored. `only`: of those models that the key is for by which they ask,
    none for all."""
    person = get_user_model().objects.filter(pk=user_id, is_active=True)
    found = StoredResponse.objects.filter(Exists(person), owner_id=user_id)
    return found.filter(generation__model_name__in=only) if only else found


def access_response(
    user_id: int, response_id: str, only: Collection[str] = (), *, with_log: bool = True
) -> StoredResponse:
    """One of a user's responses, its generation loaded without its request. `only`: see
    `access_responses`.

    Raises:
        NotFoundError: absent or not theirs.
    """
    row: StoredResponse | None = None
    if ID_RE.fullmatch(response_id):
        rows = access_responses(user_id, only).select_related("generation")
        unread = ["generation__request", *([] if with_log else ["log"])]
        row = rows.defer(*unread).filter(id=response_id).first()
    if row is None:
        raise NotFoundError(NO_RESPONSE)
    return row
