"""Six situations of an outbox in trouble, each with a real database, a real relay, a real broker and a console.

The sixth, a key that is held, comes twice: by a dead event, and by one that is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

import redis

from relay.core.pause import PauseScope, PauseTarget
from relay.outbox.admin.pause import pause
from relay.postgres.sql import TableName
from tests.console.serving import serving
from tests.support.daemon import Daemon
from tests.support.fixtures.database import Database, create_database, drop_database
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.servers.tcp_proxy import Mode, TcpProxy
from tests.support.waiting import wait_until

EXTENSIONS: Final = ("console", "pause", "fleet", "series", "key-order")
INTERVALS: Final = {"HEALTH_CHECK_INTERVAL": "500ms", "PUBLISHER_CONNECT_RETRY_INTERVAL": "500ms"}
"""Of the relays, which look every five seconds by default."""
WAITING: Final = 40
"""The events that each situation holds up, but for the one that refuses a single row."""

_AGE = """
UPDATE openoutbox_events SET created_at = created_at - interval '5 minutes',
    available_at = available_at - interval '5 minutes' WHERE status = 'PENDING' AND attempts = 0
"""
_REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'under audit'; END $$;
CREATE TRIGGER audit BEFORE UPDATE ON openoutbox_events FOR EACH ROW
WHEN (OLD.event_type LIKE '%.audited') EXECUTE FUNCTION refuse()
"""
_MANY = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, status, attempts, last_error, updated_at)
SELECT gen_random_uuid(), 'type.' || (n / 40 % 8), 'key-' || n, '{}', 'DEAD', 25,
       'HTTP_' || (400 + n % 40) || ': partner ' || chr(97 + n % 40 % 20) || ' refused ' || n,
       now() - make_interval(secs => n)
FROM generate_series(1, 3000) AS n
"""


@dataclass
class Situation:
    """One outbox in one kind of trouble."""

    outbox: Outbox
    redis_url: str
    stack: ExitStack
    event: str = ""
    """An event of which an operator asks why it is not delivered."""
    head: str = ""
    """The event that holds its key."""
    address: str = field(init=False)
    """Of its console."""
    proxy: TcpProxy = field(init=False)
    """Between the relay and its broker."""

    @property
    def type(self) -> str:
        """The event type, and so the stream, of this situation alone."""
        return self.outbox.database.name

    def relay(self, **variables: str) -> Daemon:
        """Start a relay, and return when it is ready."""
        self.proxy = self.stack.enter_context(TcpProxy(int(self.redis_url.rpartition(":")[2].partition("/")[0])))
        url = f"redis://127.0.0.1:{self.proxy.port}/0"
        env = {"PUBLISHER_TYPE": "redis", "PUBLISHER_URL": url, "RELAY_ID": "relay-1", **INTERVALS, **variables}
        return self.stack.enter_context(Daemon(self.outbox.relay_url, env)).wait_ready()

    def insert(self, *, count: int = WAITING, key: str | None = None, suffix: str = "") -> list[str]:
        """Events that have been due for five minutes."""
        ids = self.outbox.insert([Row(self.type + suffix, partition_key=key)] * count)
        self.outbox.database.run(_AGE)
        return ids

    def told(self, text: str) -> None:
        """Wait until the relay has written this into its heartbeat."""
        query = "SELECT count(*) FROM openoutbox_relays WHERE reason LIKE %s"
        wait_until(lambda: self.outbox.database.run(query, [f"%{text}%"]) == [(1,)], what=text)

    def mend_broker(self) -> None:
        """The stream can be written to, and is deleted after the test."""
        with redis.Redis.from_url(self.redis_url) as client:
            client.delete(f"{self.type}.head")


def stopped(its: Situation) -> None:
    """The only relay was stopped."""
    its.relay().stop()
    its.event = its.insert()[7]


def paused(its: Situation) -> None:
    """An operator has paused the type."""
    target = PauseTarget(PauseScope.TYPE, its.type)
    pause(its.outbox.owner_url, TableName(), target, who="ada", reason="the partner migrates")
    its.relay()
    its.event = its.insert()[7]


def key_held_by_dead(its: Situation) -> None:
    """The first event of a key is dead."""
    _hold_key(its, ORDERING_ON_DEAD="block", RETRY_MAX_ATTEMPTS="1")


def key_held_by_retrying(its: Situation) -> None:
    """The first event of a key is tried again in an hour."""
    _hold_key(its, RETRY_BASE_DELAY="1h")


def _hold_key(its: Situation, **variables: str) -> None:
    with redis.Redis.from_url(its.redis_url) as client:
        client.set(f"{its.type}.head", "no stream")
    [its.head] = its.outbox.insert([Row(f"{its.type}.head", partition_key="customer-7")])
    its.relay(ORDERING="key", **variables)
    query = "SELECT attempts FROM openoutbox_events"
    wait_until(lambda: its.outbox.database.run(query) == [(1,)], what="the head of the key to fail")
    its.event = its.insert(key="customer-7")[7]


def away(its: Situation) -> None:
    """The broker refuses connections."""
    its.relay(PUBLISHER_NAME="orders-eu")
    its.proxy.set(Mode.REFUSE)
    its.told("away")
    its.event = its.insert()[7]


def refused(its: Situation) -> None:
    """A trigger raises for one row."""
    [its.event] = its.insert(count=1, suffix=".audited")
    its.insert(count=WAITING - 1)
    with its.outbox.database.connect() as connection:
        connection.execute(_REFUSE.encode())
    its.relay()
    its.told("refuses")


def many_dead(its: Situation) -> None:
    """3,000 events are dead of 40 causes over 8 types."""
    its.outbox.database.run(_MANY)
    [[event]] = its.outbox.database.run("SELECT event_id::text FROM openoutbox_events ORDER BY updated_at DESC LIMIT 1")
    its.event = event
    its.relay(PUBLISHER_TYPE="null")


SITUATIONS: Final[tuple[Callable[[Situation], None], ...]] = (
    stopped,
    paused,
    key_held_by_dead,
    key_held_by_retrying,
    away,
    refused,
    many_dead,
)


@contextmanager
def all_situations(template: Database, redis_url: str) -> Iterator[dict[str, Situation]]:
    """All of them on copies of the template, by the names of their functions; they come about at the same time."""
    with ExitStack() as stack:
        made = {}
        for each in SITUATIONS:
            database = create_database(template.admin_url, template=template.name)
            stack.callback(drop_database, database)
            made[each.__name__] = Situation(Outbox(database, database.url), redis_url, stack)

        def make(begin: Callable[[Situation], None]) -> None:
            its = made[begin.__name__]
            its.address = stack.enter_context(serving(its.outbox.url_of("console")))
            begin(its)

        with ThreadPoolExecutor(len(SITUATIONS)) as threads:
            list(threads.map(make, SITUATIONS))
        yield made
