"""How often one person may act by REST: as often as on one live connection, over all processes."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from conversations.edge.live.bounds import ACTS_PER_S
from conversations.edge.live.instruments import count_refused
from llamaweb.accounts.throttle import Throttle
from llamaweb.lib.errors import BusyError, UnavailableError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

ACTS_PER_MINUTE = int(ACTS_PER_S * 60)
AWAY_S = 5.0  # Redis isn't asked again so soon after it didn't answer

log = logging.getLogger(__name__)
_away_until_ts = 0.0


def act_take(user: User) -> None:
    """Count one act of `user`'s. Synchronous, asks Redis; while that is away nothing is counted:
    this protects from programs run wild, and nobody is kept from their chats for it.

    Raises:
        BusyError: too many in the last minute.
    """
    global _away_until_ts
    if time.monotonic() < _away_until_ts:
        return
    message = f"too many acts at once; at most {ACTS_PER_MINUTE} a minute"
    try:
        Throttle("acts", ACTS_PER_MINUTE, message).take(str(user.pk))
    except BusyError:
        count_refused("rest_acts")
        raise
    except UnavailableError:
        _away_until_ts = time.monotonic() + AWAY_S
        log.warning("acts aren't counted: Redis can't be reached")
