"""docs/guide/inbox.md as it stands: its programs handle a message twice, its commands run, its grants are enough."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from openoutbox import Message, inbox
from relay.inbox.prune import InboxRetention, prune
from relay.inbox.stats import read_figures
from tests.client.consumers import EVENT
from tests.inbox.conftest import INBOX, count_marks, mark_hourly
from tests.support.documents import Block, blocks, run_shell
from tests.support.fixtures.outbox import Outbox, as_user
from tests.support.fixtures.postgres import Database

PAGE = list(blocks("docs/guide/inbox.md"))
URL = "postgres://user:secret@localhost:5432/app"


def programs() -> list[Block]:
    return [block for block in PAGE if block.language == "python"]


def handler(number: int, **names: Any) -> Callable[..., Any]:
    """The function that a program of the page defines."""
    namespace: dict[str, Any] = {}
    exec(compile(programs()[number - 1].text, f"docs/guide/inbox.md python {number}", "exec"), namespace)
    namespace.update(names)
    handle: Callable[..., Any] = namespace["handle"]
    return handle


def with_once(database: Database) -> None:
    with database.connect() as connection:
        for _ in range(2):
            handler(1)(connection, Message(EVENT, "account.charged", None, b'{"amount": 10}', {}))


def with_a_batch(database: Database) -> None:
    with database.connect() as connection:
        for _ in range(2):
            handler(2)(connection, {EVENT: 10})


def with_tries(database: Database) -> None:
    pool = SimpleNamespace(connection=database.connect)
    assert not handler(3)(pool, Message(EVENT, "account.charged", None, b"ten", {}))
    for _ in range(2):
        assert handler(3)(pool, Message(EVENT, "account.charged", None, b"10", {}))


FOLLOWERS = [with_once, with_a_batch, with_tries]


@pytest.mark.parametrize("follow", FOLLOWERS)
def test_a_message_that_comes_twice_has_one_effect(place: Outbox, follow: Callable[[Database], None]) -> None:
    place.database.run("CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)")
    place.database.run("INSERT INTO accounts VALUES (7, 100)")
    follow(place.database)
    assert place.database.run("SELECT balance FROM accounts") == [(90,)]
    assert count_marks(place) == 1


def test_every_program_of_the_page_is_followed() -> None:
    assert len(programs()) == len(FOLLOWERS)


def test_its_commands_run(outbox: Outbox, tmp_path: Path) -> None:
    first, extended, second = [block for block in PAGE if block.language == "sh"]
    made = run_shell(first.adapted({URL: outbox.url}).text, tmp_path)
    assert made.startswith("created table openoutbox_inbox\n")
    made = run_shell(extended.text, tmp_path, STORAGE_URL=outbox.url)
    assert made == "created table openoutbox_inbox_tries\n"
    mark_hourly(outbox, 36 * 24)
    assert run_shell(second.text, tmp_path, STORAGE_URL=outbox.url).startswith("deleted 25 marks")


def test_its_grants_are_enough(place: Outbox) -> None:
    for role, work in (
        ("consumer", handle_once),
        ("processor", process),
        ("pruner", lambda url: prune(url, INBOX, InboxRetention())),
        ("reader", lambda url: read_figures(url, INBOX)),
    ):
        with granted_line(place.database, role) as url:
            work(url)
    assert count_marks(place) == 1


def handle_once(url: str) -> None:
    with psycopg.connect(url) as connection:
        with inbox.once(connection, EVENT, consumer="billing") as first:
            assert first
        assert inbox.first_of(connection, [EVENT], consumer="billing") == []


def process(url: str) -> None:
    handled = Message(EVENT, "account.charged", None, b"10", {})
    for outcome in ("failed", "dead"):
        done = inbox.process(lambda: psycopg.connect(url), handled, fail, consumer="audit", attempts=2)
        assert done.outcome == outcome


def fail(_: object, __: Message) -> None:
    raise ValueError("no such account")


@contextmanager
def granted_line(database: Database, role: str) -> Iterator[str]:
    """The database's URL as a new role that has the one grant of the page to ``role``."""
    block = next(block for block in PAGE if block.language == "sql")
    (line,) = [line for line in block.text.splitlines() if line.endswith(f" TO {role};")]
    name = f"granted_{uuid.uuid4().hex[:8]}"
    database.run(f"CREATE ROLE {name} LOGIN")
    try:
        database.run(line.replace(f" TO {role};", f" TO {name};"))
        yield as_user(database.url, name)
    finally:
        database.run(f"DROP OWNED BY {name}")
        database.run(f"DROP ROLE {name}")
