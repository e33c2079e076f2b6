"""What user/repo:QUANT means, and what a hub may say without harm."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from inference.registry import hub as registry_hub
from inference.registry import hub_choice
from inference.registry.hub import hub_headers, hub_model, hub_repo, is_reference
from inference.registry.model_sets import Role, role_by_name
from llamaweb.lib.errors import InvalidError
from llamaweb.lib.outbound import RefusedAddressError, UnreachableError, fetch
from tests.registry.hub_source import REVISION, Hub, entry
from tests.registry.source import Source

TOKEN = "hf_" + "s" * 30


def listed(hub: Hub, *names: Any) -> None:
    hub.listed = [entry(name) for name in names]
    hub.publish()


def chosen(hub: Hub, quant: str = "") -> list[str]:
    found = hub_model(hub.repo + (f":{quant}" if quant else ""))
    return [file.path for file in found.files] + ([found.mmproj.path] if found.mmproj else [])


def refused(hub: Hub, quant: str = "") -> str:
    with pytest.raises(InvalidError) as info:
        chosen(hub, quant)
    return info.value.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ada/tiny-GGUF", True),
        ("ada/tiny-GGUF:Q4_K_M", True),
        ("ada/tiny:UD-Q4_K_XL", True),
        ("folder/model.gguf", False),
        ("ada/..", False),
        ("../tiny", False),
        ("/srv/x", False),
        ("ada/a/b", False),
        ("ada/tiny:", False),
        ("https://example.org/x", False),
        ("tiny", False),
    ],
)
def test_references(text: str, expected: bool) -> None:
    assert is_reference(text) is expected


@pytest.mark.parametrize(
    ("quant", "expected"),
    [
        ("", "t-Q4_K_M.gguf"),
        ("latest", "t-Q4_K_M.gguf"),
        ("q8_0", "t.Q8_0.gguf"),
        ("UD-Q4_K_XL", "t-UD-Q4_K_XL.gguf"),
        ("IQ2_XXS", "t-IQ2_XXS.gguf"),
        ("MXFP4", "t-mxfp4.gguf"),
        ("F16", "f16/t.gguf"),
        ("special", "t-special.gguf"),
    ],
)
def test_the_quantization(hub: Hub, quant: str, expected: str) -> None:
    listed(
        hub,
        *("t-IQ2_XXS.gguf", "t-Q4_K_M.gguf", "t-UD-Q4_K_M.gguf", "t-UD-Q4_K_XL.gguf"),
        *("t.Q8_0.gguf", "t-mxfp4.gguf", "f16/t.gguf", "t-special.gguf", "t-imatrix.gguf"),
        *("README.md", "mtp-t.gguf"),
    )
    assert chosen(hub, quant) == [expected]


def test_without_the_usual_one_the_first_is_taken(hub: Hub) -> None:
    listed(hub, "b-Q6_K.gguf", "a-Q8_0-long-name.gguf")
    assert chosen(hub) == ["a-Q8_0-long-name.gguf"]


def test_a_quantization_that_is_not_there(hub: Hub) -> None:
    listed(hub, "t-Q6_K.gguf", "t-Q8_0.gguf")
    assert refused(hub, "Q4_K_M") == "ada/tiny-GGUF has no Q4_K_M; it has Q6_K, Q8_0"


def test_all_shards_and_the_encoder(hub: Hub) -> None:
    shards = [f"Q4_K_M/t-Q4_K_M-{no:05d}-of-00003.gguf" for no in (1, 2, 3)]
    listed(hub, *reversed(shards), "mmproj-Q8_0.gguf", "mmproj-F16.gguf", "old/mmproj-F16.gguf")
    assert chosen(hub) == [*shards, "mmproj-F16.gguf"]
    found = hub_model(hub.repo)
    assert found.size == 4 * 4
    assert found.url(found.files[0]).endswith(f"/{hub.repo}/resolve/{REVISION}/{shards[0]}")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["mmproj-BF16.gguf", "mmproj-Q8_0.gguf", "mmproj-F32.gguf"], "mmproj-BF16.gguf"),
        (["mmproj-F32.gguf"], "mmproj-F32.gguf"),
    ],
)
def test_the_precision_of_an_encoder(hub: Hub, names: list[str], expected: str) -> None:
    listed(hub, "t-Q4_K_M.gguf", *names)
    assert chosen(hub)[1] == expected


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["README.md"], "has no GGUF model"),
        (["mmproj-F16.gguf"], "has no GGUF model"),
        (["t-Q4_K_M-00001-of-00002.gguf"], "lacks t-Q4_K_M-00002-of-00002.gguf"),
        (["t-Q4_K_M-00001-of-99999.gguf"], "can't have 99,999 files"),
        (["t-Q4_K_M-00002-of-00002.gguf"], "has no GGUF model"),
    ],
)
def test_what_is_no_model(hub: Hub, names: list[str], reason: str) -> None:
    listed(hub, *names)
    assert reason in refused(hub)


@pytest.mark.parametrize(
    "bad",
    [
        entry("../x-Q4_K_M.gguf"),
        entry("a/../../x-Q4_K_M.gguf"),
        entry("/etc/x-Q4_K_M.gguf"),
        entry("a//x-Q4_K_M.gguf"),
        entry(".hidden/x-Q4_K_M.gguf"),
        entry("a\\..\\x-Q4_K_M.gguf"),
        entry("x\0-Q4_K_M.gguf"),
        entry("x\n-Q4_K_M.gguf"),
        entry("\u202ex-Q4_K_M.gguf"),
        entry("x" * 600 + "-Q4_K_M.gguf"),
        entry(7),
        entry(None),
        entry("x-Q4_K_M.gguf", type="symlink"),
        entry("x-Q4_K_M.gguf", type="directory"),
        entry("x-Q4_K_M.gguf", lfs=None),  # as of a link: nobody knows its digest
        entry("x-Q4_K_M.gguf", lfs={"oid": "z" * 64, "size": 4}),
        entry("x-Q4_K_M.gguf", lfs={"oid": "a" * 64, "size": -1}),
        entry("x-Q4_K_M.gguf", lfs={"oid": "a" * 64, "size": 2**70}),
        entry("x-Q4_K_M.gguf", lfs={"oid": "a" * 64, "size": True}),
        "text",
        None,
    ],
)
def test_hostile_entries_are_left_out(hub: Hub, bad: Any) -> None:
    hub.listed = [bad, entry("t-Q6_K.gguf")]
    hub.publish()
    assert chosen(hub) == ["t-Q6_K.gguf"]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("about", b"<html>"),
        ("about", b"[]"),
        ("about", b'{"sha": "../../x"}'),
        ("about", b"[" * 100_000),
        ("tree", b"{}"),
        ("tree", b"null"),
    ],
)
def test_answers_that_are_none(hub: Hub, name: str, body: bytes) -> None:
    listed(hub, "t-Q4_K_M.gguf")
    hub.source.files[hub.tree if name == "tree" else f"/api/models/{hub.repo}"] = body
    with pytest.raises(UnreachableError):
        hub_model(hub.repo)


def test_a_listing_of_several_pages(hub: Hub) -> None:
    listed(hub, "t-Q6_K.gguf")
    following = f"/api/models/{hub.repo}/more"
    hub.source.files[following] = json.dumps([entry("t-Q4_K_M.gguf")]).encode()
    hub.source.at[hub.tree] = (0, {"Link": f'<{hub.source.origin}{following}?c=1>; rel="next"'})
    assert chosen(hub) == ["t-Q4_K_M.gguf"]


def test_a_listing_without_an_end(hub: Hub) -> None:
    listed(hub, "t-Q6_K.gguf")
    hub.source.at[hub.tree] = (0, {"Link": f'<{hub.source.origin}{hub.tree}>; rel="next"'})
    assert "more than 20 pages" in refused(hub)
    assert len(hub.source.asked) == 1 + registry_hub.MAX_PAGES


def test_a_listing_whose_pages_come_slowly(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    listed(hub, "t-Q6_K.gguf")
    hub.source.at[hub.tree] = (0, {"Link": f'<{hub.source.origin}{hub.tree}>; rel="next"'})
    now, given = 0.0, []

    def slow(url: str, *, total_s: float, **how: Any) -> Any:
        nonlocal now
        given.append(total_s)
        now += 15
        return fetch(url, total_s=total_s, **how)

    monkeypatch.setattr(registry_hub, "fetch", slow)
    monkeypatch.setattr(registry_hub, "time", SimpleNamespace(monotonic=lambda: now))
    with pytest.raises(UnreachableError, match="too slowly"):
        hub_model(hub.repo)
    assert given == [20, 20, 10]


def test_a_listing_that_goes_on_elsewhere(hub: Hub) -> None:
    listed(hub, "t-Q6_K.gguf")
    hub.source.at[hub.tree] = (0, {"Link": '<http://127.0.0.2/steal>; rel="next"'})
    assert "goes on elsewhere" in refused(hub)


def test_huge_answers(hub: Hub, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    listed(hub, *(f"{no}.gguf" for no in range(30)))
    monkeypatch.setattr(registry_hub, "MAX_FILES", 20)
    assert "more than 20 files" in refused(hub)
    monkeypatch.setattr(registry_hub, "MAX_ANSWER_BYTES", 1000)
    assert "more than 1,000 bytes" in refused(hub)
    monkeypatch.undo()
    hub.listed = [entry("t.gguf", lfs={"oid": "a" * 64, "size": 2**60})]
    hub.publish()
    assert "LLAMAWEB_DOWNLOAD_MAX_BYTES" in refused(hub)


def test_many_files_are_gone_through_once(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    num_looks = 0

    def looked(name: str) -> Role:
        nonlocal num_looks
        num_looks += 1
        return role_by_name(name)

    monkeypatch.setattr(hub_choice, "role_by_name", looked)
    listed(hub, *(f"{no}/t-Q4_K_M.gguf" for no in range(200)), "mmproj-F16.gguf")
    repo = hub_repo(hub.repo)
    assert {choice.model.mmproj for choice in repo.choices if choice.model} == {repo.files[-1]}
    assert len(repo.choices) == 200
    assert num_looks == 2 * len(repo.files)  # which are models, which are encoders


def test_nobody_chooses_among_so_many(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_hub, "MAX_CHOICES", 2)
    listed(hub, "t-Q4_K_M.gguf", "t-Q6_K.gguf", "mmproj-F16.gguf")
    assert len(hub_repo(hub.repo).choices) == 2
    listed(hub, "t-Q4_K_M.gguf", "t-Q6_K.gguf", "t-Q8_0.gguf")
    with pytest.raises(InvalidError, match="has 3 models, at most 2 are shown"):
        _ = hub_repo(hub.repo).choices
    assert chosen(hub, "Q8_0") == ["t-Q8_0.gguf"]


@pytest.mark.parametrize(("status", "words"), [(401, "TOKEN"), (403, "TOKEN"), (404, "no such")])
def test_repositories_that_can_not_be_seen(hub: Hub, status: int, words: str) -> None:
    hub.source.status = status
    assert words in refused(hub)
    assert len(hub.source.asked) == 1


@pytest.mark.parametrize(("status", "words"), [(429, "too many"), (503, "in trouble")])
def test_a_hub_that_wants_to_be_left_alone(hub: Hub, status: int, words: str) -> None:
    hub.source.status = status
    with pytest.raises(UnreachableError, match=words):
        hub_model(hub.repo)


def test_a_gated_repository_needs_the_token(hub: Hub, settings: Any) -> None:
    listed(hub, "t-Q4_K_M.gguf")
    hub.publish(gated="manual")
    assert "LLAMAWEB_HUB_TOKEN" in refused(hub)
    settings.HUB_TOKEN = TOKEN
    assert chosen(hub) == ["t-Q4_K_M.gguf"]
    assert {asked.get("authorization") for asked in hub.source.asked[1:]} == {f"Bearer {TOKEN}"}


def test_the_token_goes_to_the_hub_only(hub: Hub, settings: Any) -> None:
    settings.HUB_TOKEN = TOKEN
    url = f"{hub.source.origin}/x"
    assert hub_headers("http://127.0.0.1:1/x") == {}
    with Source(body=b"far") as far:
        hub.source.at["/x"] = (302, {"Location": f"{far.origin}/y"})
        allow = registry_hub.Allow.of(settings.OUTBOUND_ALLOW)
        with fetch(url, allow=allow, total_s=9, headers=hub_headers(url)) as response:
            assert b"".join(response.chunks(max_bytes=9)) == b"far"
        assert hub.source.asked[0]["authorization"] == f"Bearer {TOKEN}"
        assert "authorization" not in far.asked[0]


def test_a_hub_at_a_private_address(hub: Hub, settings: Any) -> None:
    settings.OUTBOUND_ALLOW = ()
    with pytest.raises(RefusedAddressError):
        hub_model(hub.repo)
    settings.OUTBOUND_ALLOW = ("127.0.0.1",)
    hub.source.status, hub.source.headers = 302, {"Location": "http://10.0.0.1/api"}
    with pytest.raises(RefusedAddressError):
        hub_model(hub.repo)
