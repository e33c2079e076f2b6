"""Searching a hub, and what its answers may say without harm."""

from __future__ import annotations

from typing import Any

import pytest

from inference.registry.hub_search import MAX_FOUND, FoundRepo, hub_search
from llamaweb.lib.errors import InvalidError
from llamaweb.lib.outbound import RefusedAddressError, UnreachableError
from tests.registry.hub_source import SEARCH, Hub, found

TOKEN = "hf_" + "s" * 30


def test_what_is_asked_and_found(hub: Hub, settings: Any) -> None:
    settings.HUB_TOKEN = TOKEN
    hub.finds(found("ada/tiny-GGUF"), found("bob/big", gated="auto", gguf=None, likes=0))
    assert hub_search(" gemma 270m & more ") == [
        FoundRepo("ada/tiny-GGUF", 1234, 56, 268_000_000, "gemma3", "2026-11-01"),
        FoundRepo("bob/big", 1234, 0, changed="2026-11-01", is_gated=True),
    ]
    (query,) = hub.searches
    assert query["search"] == ["gemma 270m & more"]
    assert (query["filter"], query["sort"], query["limit"]) == (["gguf"], ["downloads"], ["30"])
    assert set(query["expand[]"]) == {"downloads", "likes", "gated", "lastModified", "gguf"}
    assert hub.source.asked[0]["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    "bad",
    [
        None, "ada/tiny", [], {}, found(None), found(7), found("tiny"), found("../tiny"),
        found("ada/.."), found("ada/a/b"), found("ada/<b>"), found("ada/" + "x" * 200),
    ],
)  # fmt: skip
def test_hostile_repositories_are_left_out(hub: Hub, bad: Any) -> None:
    hub.finds(bad, found("ada/good"))
    assert [repo.name for repo in hub_search("x")] == ["ada/good"]


def test_hostile_values_count_as_absent(hub: Hub) -> None:
    about = {"total": True, "architecture": "x\n\u202e<b>" + "y" * 99}
    hub.finds(found("ada/x", downloads=-1, likes=2**70, lastModified=7, gguf=about))
    (repo,) = hub_search("x")
    assert (repo.num_downloads, repo.num_likes, repo.num_params, repo.changed) == (0, 0, 0, "")
    assert repo.architecture.isprintable()
    assert len(repo.architecture) == 40


def test_more_than_was_asked_for(hub: Hub) -> None:
    hub.finds(*(found(f"ada/m{no}") for no in range(100)))
    assert len(hub_search("m")) == MAX_FOUND


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"null", b"[" * 100_000])
def test_answers_that_are_none(hub: Hub, body: bytes) -> None:
    hub.source.files[SEARCH] = body
    with pytest.raises(UnreachableError):
        hub_search("x")


@pytest.mark.parametrize("query", ["x" * 201, "a\0b"])
def test_queries_that_are_not_sent(hub: Hub, query: str) -> None:
    with pytest.raises(InvalidError, match="at most 200"):
        hub_search(query)
    assert hub.source.asked == []


def test_a_hub_that_can_not_be_asked(hub: Hub, settings: Any) -> None:
    hub.source.status = 503
    with pytest.raises(UnreachableError, match="in trouble"):
        hub_search("x")
    settings.HUB_URL = "http://127.0.0.1:1"
    with pytest.raises(UnreachableError, match="can't be reached"):
        hub_search("x")
    settings.OUTBOUND_ALLOW = ()
    with pytest.raises(RefusedAddressError):
        hub_search("x")
