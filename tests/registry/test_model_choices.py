"""What a person chooses a model by: its row, the files behind it, and what its engines say."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from inference.model_choices import (
    ModelStand,
    model_choices_for,
    model_names_for,
    stand_of,
)
from inference.models import ModelConfig, ModelFile
from inference.protocol.reasons import Other, reason, reason_info
from inference.queues.contract import SILENT_S, SUPERVISOR_ID, EngineStatus
from inference.registry.gguf.facts import GgufFacts, facts_to_plain
from inference.registry.model_access import access_models
from inference.registry.selectors import ModelInfo, in_order, model_resolve_for
from tests.factories import UserFactory

INFO = ModelInfo("m", 0, 1, "mock")
TEXT = GgufFacts(
    "model", 3, 1000, purpose="text", name="Tiny 1B", quantization="Q4_K_M", context_len=4096
)
THINKS = "{{ messages }}<think>"
CALLS = "{% if tools %}<tool_call>{% endif %}"


def beat(state: str, *, name: str = "e1", age_s: float = 0.1, **info: Any) -> EngineStatus:
    return EngineStatus(name, state, 1, 0, age_s, False, info)


def supervisor(state: str = "stopped", **info: Any) -> EngineStatus:
    return beat(state, name=SUPERVISOR_ID, **info)


def file_of(facts: GgufFacts = TEXT, **fields: Any) -> ModelFile:
    return ModelFile.objects.create(
        state="ready", path=f"/m/{ModelFile.objects.count()}", facts=facts_to_plain(facts), **fields
    )


def config_of(name: str = "m", **fields: Any) -> ModelConfig:
    return ModelConfig.objects.create(name=name, engine_class="llama", **fields)


@pytest.mark.django_db
class TestChoices:
    """Rows and files."""

    def test_what_a_file_says_of_its_model(self, alice: Any) -> None:
        config_of(file=file_of(), aliases=["small"], tags=["fast"])
        (choice,) = model_choices_for(alice.pk)
        assert (choice.info.name, choice.info.aliases, choice.info.tags) == (
            "m",
            ("small",),
            ("fast",),
        )
        assert (choice.title, choice.quantization) == ("Tiny 1B", "Q4_K_M")
        assert (choice.context_len, choice.capabilities) == (4096, ())

    def test_nobody_knows_a_model_without_a_file(self, alice: Any) -> None:
        ModelConfig.objects.create(name="m", engine_class="mock")
        (choice,) = model_choices_for(alice.pk)
        assert (choice.title, choice.quantization, choice.context_len) == ("", "", 0)
        assert choice.capabilities == ()

    @pytest.mark.parametrize(
        ("trained", "asked", "context_len"),
        [(4096, 0, 4096), (4096, 2048, 2048), (4096, 9000, 4096), (32768, 0, 8192), (0, 512, 512)],
    )
    def test_the_context_it_will_have(
        self, alice: Any, trained: int, asked: int, context_len: int
    ) -> None:
        facts = dataclasses.replace(TEXT, context_len=trained)
        config_of(file=file_of(facts), context_len=asked)
        (choice,) = model_choices_for(alice.pk)
        assert choice.context_len == context_len

    def test_tools_and_reasoning_are_told_by_the_template(self, alice: Any) -> None:
        can = {"can": {"tool_calls": "object"}}
        config_of(
            "a-calls", file=file_of(templates={"": CALLS}, template_facts=can), is_default=True
        )
        cannot = {"can": {"tool_calls": None}}
        config_of("b-plain", file=file_of(templates={"": CALLS}, template_facts=cannot))
        config_of("c-thinks", file=file_of(templates={"": THINKS}))
        config_of("d-other", file=file_of(template_facts=can), chat_template=THINKS)
        config_of("e-both", file=file_of(), chat_template=THINKS + CALLS)
        found = {choice.info.name: choice.capabilities for choice in model_choices_for(alice.pk)}
        assert found == {
            "a-calls": ("tools",),
            "b-plain": (),
            "c-thinks": ("reasoning",),
            "d-other": ("reasoning",),  # what takes its place counts
            "e-both": ("tools", "reasoning"),
        }

    def test_what_an_encoder_could_read_is_not_promised(self, alice: Any) -> None:
        seeing = file_of(templates={"": THINKS})
        encoder = GgufFacts("mmproj", 3, 10, modalities=("vision", "audio"))
        file_of(encoder, role="mmproj", main=seeing)
        config_of("sees", file=seeing)
        (sees,) = model_choices_for(alice.pk)  # messages hold no images as yet
        assert sees.capabilities == ("reasoning",)

    def test_models_of_vectors_are_no_choice(self, alice: Any) -> None:
        config_of("a-answers", file=file_of(), is_default=True)
        config_of("b-vectors", file=file_of(dataclasses.replace(TEXT, purpose="embedding")))
        assert [choice.info.name for choice in model_choices_for(alice.pk)] == ["a-answers"]
        assert model_resolve_for(alice.pk, None).name == "a-answers"
        ModelConfig.objects.filter(name="a-answers").update(is_default=False, name="z-answers")
        assert model_resolve_for(alice.pk, None).name == "z-answers"

    def test_names_are_those_of_the_choices_of_each(self, alice: Any, bob: Any, carol: Any) -> None:
        config_of("open", is_default=True)
        config_of("bobs", is_restricted=True).users.add(bob)
        group = Group.objects.create(name="readers")
        carol.groups.add(group)
        config_of("groups", is_restricted=True).groups.add(group)
        config_of("off", is_enabled=False)
        people = [alice.pk, bob.pk, carol.pk]
        assert model_names_for(people) == {
            alice.pk: ("open",),
            bob.pk: ("open", "bobs"),
            carol.pk: ("open", "groups"),
        }
        for pk in people:
            names = tuple(choice.info.name for choice in model_choices_for(pk))
            assert names == model_names_for([pk])[pk]

    def test_names_of_many_are_read_as_cheaply_and_by_the_same_rule(
        self, django_assert_num_queries: Any
    ) -> None:
        group = Group.objects.create(name="readers")
        people = []
        for number, (is_active, is_superuser, is_reader, is_named) in enumerate(
            itertools.product((True, False), repeat=4)
        ):
            user = UserFactory.create(
                username=f"u{number}", is_active=is_active, is_superuser=is_superuser
            )
            if is_reader:
                user.groups.add(group)
            people.append((user, is_named))
        for number, (is_enabled, is_restricted, has_group) in enumerate(
            itertools.product((True, False), repeat=3)
        ):
            config = config_of(f"m{number}", is_enabled=is_enabled, is_restricted=is_restricted)
            config.users.set(user for user, is_named in people if is_named)
            if has_group:
                config.groups.add(group)
        ids = [user.pk for user, _ in people]
        with CaptureQueriesContext(connection) as asked:
            model_names_for(ids[:1])
        with django_assert_num_queries(len(asked)):
            found = model_names_for(ids)
        assert found == {
            pk: tuple(in_order(access_models(pk)).values_list("name", flat=True)) for pk in ids
        }


def test_a_ready_engine_is_what_counts() -> None:
    stand = stand_of(INFO, (supervisor(reason="old"), beat("ready", max_context=512)))
    assert stand == ModelStand("loaded", max_context=512)


def test_heartbeats_that_are_too_old_say_nothing() -> None:
    stand = stand_of(INFO, (beat("ready", age_s=SILENT_S),))
    assert (stand.state, stand.reason.text) == ("unknown", "no engine has started yet")


@pytest.mark.parametrize(
    ("told", "progress"),
    [(0.25, 0.25), (1, 1.0), (None, None), ("half", None), (7.0, None), (float("nan"), None)],
)
def test_loading_and_how_far_it_is(told: Any, progress: float | None) -> None:
    info = {} if told is None else {"load_progress": told}
    stand = stand_of(INFO, (supervisor("starting"), beat("loading", **info)))
    assert (stand.state, stand.load_progress) == ("loading", progress)
    assert stand.reason.text == "model m is loading"


def test_what_is_done_before_it_is_loaded() -> None:
    why = "model m is being measured on this machine, once"
    stand = stand_of(INFO, (supervisor("starting", reason=why),))
    assert (stand.state, stand.reason.text) == ("loading", why)


def test_waiting_for_memory_names_only_what_one_may_know_of() -> None:
    why = reason("model m waits for memory: ", Other("secret"), " is answering 1 request")
    stand = stand_of(INFO, (supervisor(on_demand=1, **reason_info(why)),))
    assert stand.state == "unloaded"
    assert stand.reason.told_to({"m"}) == (
        "model m waits for memory: another model is answering 1 request"
    )
    assert stand.reason.told_to({"m", "secret"}) == why.text


def test_a_failed_load_is_no_rest() -> None:
    stand = stand_of(INFO, (supervisor(on_demand=0, reason="no such file"),))
    assert (stand.state, stand.reason.text) == ("failed", "no such file")
    assert stand_of(INFO, (supervisor(),)).state == "unloaded"


def test_an_engine_whose_server_is_away() -> None:
    stand = stand_of(INFO, (beat("starting", reason="it can't be reached"),))
    assert (stand.state, stand.reason.text) == ("failed", "it can't be reached")


def test_draining_and_stopped() -> None:
    unloaded = dataclasses.replace(INFO, is_loaded=False)
    assert stand_of(INFO, (beat("draining"),)).state == "draining"
    assert stand_of(unloaded, (beat("draining"),)).state == "draining"
    assert stand_of(unloaded, (beat("ready"),)).state == "draining"
    stand = stand_of(unloaded, (supervisor(),))
    assert (stand.state, stand.reason.text) == ("stopped", "model m is not loaded")
