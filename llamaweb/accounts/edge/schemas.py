"""What the settings page sends and gets. Instants are ISO 8601 strings in UTC."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from llamaweb.accounts.services import MAX_KEY_MODELS, NAME_LEN

Theme = Literal["system", "light", "dark"]
Language = Literal["", "en", "de"]
Scope = Literal["inference", "embeddings", "models:read", "models:write", "tools", "admin"]
# Keys that administer are made by whoever runs the server: they know no second factor.
OwnScope = Literal["inference", "embeddings", "models:read", "tools"]
MAX_SCOPES = 16
MAX_PASSWORD_CHARS = 1024


class In(BaseModel):
    """What a client sends: fields that aren't known are refused by name."""

    model_config = ConfigDict(extra="forbid")


class PreferencesIn(In):
    """What to change; null: leave it."""

    theme: Theme | None = None
    language: Language | None = Field(None, description='"": what the browser asks for')


class PreferencesOut(BaseModel):
    """How the app looks for this user."""

    theme: Theme
    language: Language


class KeyOut(BaseModel):
    """An API key without its secret; `prefix` is its recognisable start."""

    id: int
    name: str
    prefix: str
    scopes: list[Scope]
    models: list[str] = Field(description="the only ones it may be used with; empty: all")
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class KeyList(BaseModel):
    """All keys of the user, the newest first."""

    keys: list[KeyOut]
    max_keys: int


class KeyIn(In):
    """A new key. `models`: names of the only ones it may be used with, none for all that its owner
    may use. `expires_at`: null for never."""

    name: Annotated[str, Field(min_length=1, max_length=NAME_LEN)]
    scopes: Annotated[list[OwnScope], Field(min_length=1, max_length=MAX_SCOPES)] = ["inference"]
    models: Annotated[list[str], Field(max_length=MAX_KEY_MODELS)] = []
    expires_at: AwareDatetime | None = None


class KeyCreated(BaseModel):
    """The new key; `secret` can't be read again."""

    key: KeyOut
    secret: str


class PasswordIn(In):
    """Change the own password; other sessions end."""

    current: Annotated[str, Field(max_length=MAX_PASSWORD_CHARS)]
    new: Annotated[str, Field(max_length=MAX_PASSWORD_CHARS)]


class SessionOut(BaseModel):
    """A signed-in device."""

    id: int
    is_current: bool
    created_at: datetime
    last_seen_at: datetime
    address: str
    agent: str = Field(description="what the browser calls itself, as it was sent")


class SessionList(BaseModel):
    """The living sessions, the current one first."""

    sessions: list[SessionOut]


class Ended(BaseModel):
    """How many sessions were ended."""

    num_ended: int
