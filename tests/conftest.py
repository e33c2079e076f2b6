"""Shared fixtures: the cast, the instance's Redis, and both databases.

alice owns, bob is shared with, carol must see nothing.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.databases import allow_flushing_audit_events, default_database
from tests.dealing import Dealing, place
from tests.second_look import SecondLook
from tests.servers import postgres, valkey

# Far above what all tests take; without it, workers that tell nothing more hold up a run for ever.
SUITE_S = 50 * 60

# How long an example takes says how busy the machine is.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--second-look", action="store_true", help="run what failed of whole servers once more"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--second-look") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondLook())
    # The process that only waits for its workers; theirs and a lone one's are timed by the tests.
    if getattr(config.option, "numprocesses", None):
        faulthandler.dump_traceback_later(SUITE_S, exit=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """As they are dealt out to workers."""
    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)  # one of xdist's
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """See tests.dealing."""
    return Dealing(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The Redis that the test settings name, running; yields its URL."""
    from django.conf import settings

    data_dir = settings.DATA_DIR
    with valkey(
        data_dir.run,
        unix_socket=data_dir.prepare_redis_socket(),
        password=data_dir.key("redis_password"),
    ):
        yield settings.REDIS_URL


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server of this session; yields the URL of its database."""
    with postgres() as url:
        yield url


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> Iterator[None]:
    """Before any test database exists: tests may empty a table that the database protects."""
    with allow_flushing_audit_events():
        yield


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def both_databases(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a module once on each database: `pytestmark = pytest.mark.usefixtures("both_databases")`.

    For whole modules, so that it is set up before what needs the database.
    """
    if request.param == "sqlite":
        yield "sqlite"
        return
    blocker = request.getfixturevalue("django_db_blocker")
    request.getfixturevalue("django_db_setup")
    with default_database(request.getfixturevalue("postgres_url"), blocker):
        yield "postgres"


@pytest.fixture
def alice(db: None) -> Any:
    """The owner."""
    from tests.factories import UserFactory

    return UserFactory.create(username="alice")


@pytest.fixture
def bob(db: None) -> Any:
    """Somebody things are shared with."""
    from tests.factories import UserFactory

    return UserFactory.create(username="bob")


@pytest.fixture
def carol(db: None) -> Any:
    """Somebody who must see nothing."""
    from tests.factories import UserFactory

    return UserFactory.create(username="carol")


@pytest.fixture
def alice_key(alice: Any) -> str:
    """An API key of alice's with the scope `inference`."""
    from tests.factories import make_key

    return make_key(alice)
