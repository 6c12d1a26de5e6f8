"""An outbox with trouble, as the pictures of the console show it: relays, dead letters, a pause, a delivery log."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from relay.deliverylog import open_delivery_log
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.console.access.making import tokens_file
from tests.console.serving import serving
from tests.console.stocking import STREAM, TENANT, stock_store
from tests.deliverylog.making import entry, event, ms
from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox, give_rights
from tests.support.fixtures.postgres import create_database, drop_database

EXTENSIONS: Final = ("console", "pause", "fleet")
LOGGED: Final = "0190b0a0-1111-7000-8000-000000000000"
"""An event of the delivery log with several attempts."""

_SCENE = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, status, attempts, last_error,
                               created_at, available_at, delivered_at, updated_at)
SELECT gen_random_uuid(), event_type, 'customer-' || n % 997,
       convert_to('{"order": ' || n || ', "total": "' || (n % 90 + 10) || '.50", "lines": [{"sku": "A-' || n % 13 ||
                  '", "count": 2}]}', 'UTF8'),
       jsonb_build_object('tenant_id', 'acme', 'traceparent', '00-' || md5(n::text) || '-0000000000000001-01'),
       'DELIVERED', 0, NULL, delivered - latency, delivered - latency, delivered, delivered
FROM generate_series(1, {events}) AS n,
LATERAL (SELECT (ARRAY['order.placed', 'order.placed', 'order.paid', 'user.signup', 'invoice.sent', 'stock.changed',
                       'stock.changed', 'stock.changed'])[1 + (n + n / 7) % 8] AS event_type,
                now() - make_interval(secs => n * 0.35 + 60 * sin(n / 700.0) + 12 * sin(n / 130.0)) AS delivered,
                make_interval(secs => 0.012 - 0.03 * ln(1 - random())) AS latency) AS figures
"""
_DEAD = """
UPDATE openoutbox_events SET status = 'DEAD', delivered_at = NULL, attempts = 25, last_error = (ARRAY[
    'MSG_SIZE_TOO_LARGE: Broker: Message size too large: 1,204,991 bytes, the limit is 1,048,588',
    'TOPIC_AUTHORIZATION_FAILED: Broker: Topic authorization failed',
    '_MSG_TIMED_OUT: Local: Message timed out after 5 attempts'])[1 + (random() * 2)::int]
WHERE event_id IN (SELECT event_id FROM openoutbox_events
                   WHERE event_type IN ('order.paid', 'user.signup', 'invoice.sent') ORDER BY event_id LIMIT 140)
"""
_WAITING = """
UPDATE openoutbox_events SET status = 'PENDING', delivered_at = NULL, attempts = 3,
    last_error = 'UNKNOWN_TOPIC_OR_PART: Broker: Unknown topic or partition',
    available_at = now() + interval '20 minutes'
WHERE event_id IN (SELECT event_id FROM openoutbox_events
                   WHERE status = 'DELIVERED' AND event_type = 'stock.changed' LIMIT 37)
"""


_UGLY = """
WITH chosen AS (
    SELECT event_id FROM openoutbox_events WHERE status = 'DEAD' LIMIT 7
), waiting AS (
    SELECT event_id FROM openoutbox_events WHERE status = 'PENDING' LIMIT 3
)
UPDATE openoutbox_events SET
    event_type = repeat('t', 180), partition_key = repeat('k', 180), available_at = now() + interval '1 hour',
    last_error = 'E' || repeat('C', 60) || ': ' || repeat('e', 500),
    headers = jsonb_build_object(repeat('n', 180), repeat('v', 400)),
    payload = convert_to('{"sku": "A-1", "' || repeat('p', 300) || '": [' || repeat('1', 300) || ']}', 'UTF8')
WHERE event_id IN (TABLE chosen UNION TABLE waiting)
"""
_UGLY_NAMES = """
INSERT INTO openoutbox_pauses (scope, name, paused_by, reason)
VALUES ('type', repeat('t', 180), repeat('w', 180), repeat('r', 500));
INSERT INTO openoutbox_changes (change_id, outbox, action, selection, changed_by, reason, idempotency_key, state, error)
VALUES (gen_random_uuid(), 'openoutbox_events', 'replay', '{"partition_key": "' || repeat('k', 180) || '"}',
        repeat('w', 180), repeat('r', 500), 'ugly', 'failed', repeat('e', 500));
"""
"""Long values without a space, which make no page wider than the window."""
ODD: Final = "0190b0a0-3333-7000-8000-000000000000"
"""A dead event of which nothing can be shown as it is stored."""
_ODD = rf"""
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, status, attempts, last_error)
SELECT CASE n WHEN 1 THEN '{ODD}' ELSE gen_random_uuid() END,
       U&'\0637\0644\0628.\0645\062F\0641\0648\0639' || U&'\202E' || 'txt.exe',
       U&'\0645\0641\062A\0627\062D ' || chr(7) || chr(27) || '[31m' || U&'\202Egnp.\2066' || repeat('k', 160),
       convert_to('{{"a": "\ud800", "total": 1e400, "total": 0.1000000000000000055511151231257827, "' ||
                  U&'\202E' || '": "' || U&'\0645' || '"}}', 'UTF8'),
       jsonb_build_object(U&'\202Etenant', chr(27) || '[2J' || U&'\0645\0641'),
       'DEAD', 25, 'ODD: ' || U&'\202E' || chr(27) || '[31m refused ' || U&'\0631\0641\0636'
FROM generate_series(1, 3) AS n
"""


@dataclass(frozen=True)
class Scene:
    """What the pictures are taken of."""

    outbox: Outbox
    console: str
    """The address of the one that is open to everybody, who is admin."""
    guarded: str
    """The address of the one that asks for a login, with every way that exists."""


def pages_of(outbox: Outbox) -> dict[str, str]:
    """The paths of all pages, by the names of their pictures."""

    def first(status: str) -> str:
        query = "SELECT event_id FROM openoutbox_events WHERE status = %s ORDER BY available_at DESC LIMIT 1"
        return f"/events/{outbox.database.run(query, [status])[0][0]}"

    return {
        "overview": "/",
        "events": "/events",
        "search": "/events?status=DEAD&error=size",
        "search-empty": "/events?event_type=nothing",
        "event": first("DEAD"),
        "event-waiting": first("PENDING"),
        "dead": "/dead",
        "replay": "/changes/new?action=replay&event_type=order.paid",
        "bury": "/changes/new?action=bury&status=PENDING",
        "prune": "/prune?delivered_days=0.002&dead_days=30",
        "types": "/types",
        "type-pause": "/types/pause?event_type=stock.changed",
        "fleet": "/fleet",
        "settings": "/settings",
        "settings-all": "/settings?all=true",
        "log": "/log",
        "log-event": f"/log/events/{LOGGED}?tenant_id=acme",
        "log-attempt": "/log/attempts/attempt-0?tenant_id=acme",
        "log-chart": "/log/chart",
        "log-failures": "/log/failures",
        "store": "/store",
        "store-tenant": f"/store/tenants/{TENANT}",
        "store-stream": f"/store/tenants/{TENANT}/streams/{STREAM}",
        "changes": "/changes",
        "logins": "/logins",
        "error": "/events/0190b0a0-0000-7000-8000-000000000001",
    }


async def fill_log(url: str, attempts: int) -> None:
    """A delivery log of the last hour; the newest event of it failed twice."""
    store = await open_delivery_log(url)
    await store.migrate()
    now, chance = datetime.now(UTC), random.Random(25)
    entries = []
    for number in range(attempts):
        time = now - timedelta(hours=1) * (number / attempts)
        its = event(
            LOGGED if number < 3 else f"0190b0a0-2222-7000-8000-{number:012d}",
            time - ms(40),
            tenant_id="acme",
            topic=chance.choice(("order.placed", "order.paid", "stock.changed")) if number > 2 else "order.paid",
            matched_destination_ids=["kafka"],
            data=b'{"order": 7, "total": "42.50"}',
            metadata={"source": "shop"},
        )
        failed = 0 < number < 3 or chance.random() < 0.04
        outcome = {"status": "failed", "code": "_MSG_TIMED_OUT"} if failed else {"response_data": {"offset": number}}
        attempt = 3 - number if number < 3 else 1
        entries.append(entry(f"attempt-{number}", time, its, destination_id="kafka", attempt_number=attempt, **outcome))
    await store.insert_many(entries)
    await store.close()


@contextmanager
def scene(admin_url: str, events: int = 10_000, *, ugly: bool = False) -> Iterator[Scene]:
    """An outbox with so many events and some trouble, two relays, a delivery log, and two consoles.

    With ``ugly`` some keys, types, names and errors are as long as they come.
    """
    outbox = Outbox.create(create_database(admin_url))
    for extension in EXTENSIONS:
        add_extension(outbox.owner_url, TableName(), extension)
    asyncio.run(fill_log(outbox.url, 600))
    stock_store(outbox.url, streams=30)
    with outbox.database.connect() as connection:
        give_rights(connection)
        connection.execute("GRANT DELETE ON openoutbox_events TO openoutbox_console")
        for statement in (
            _SCENE.replace("{events}", str(events)),
            _DEAD,
            _WAITING,
            *((_UGLY, _UGLY_NAMES, _ODD) if ugly else ()),
        ):
            connection.execute(statement.encode())
    with ExitStack() as stack:
        relays = [
            stack.enter_context(Daemon(outbox.relay_url, {"PUBLISHER_TYPE": "null", "RELAY_ID": name}))
            for name in ("relay-1", f"relay-{'2' * 100}" if ugly else "relay-2")
        ]
        for relay in relays:
            relay.wait_ready()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        access = {
            "CONSOLE_TOKENS_FILE": str(tokens_file(folder)),
            "CONSOLE_OIDC_ISSUER": "https://login.example.com",
            "CONSOLE_OIDC_CLIENT_ID": "outbox",
            "CONSOLE_OIDC_CLIENT_SECRET": "x" * 32,
        }
        url = outbox.url_of("console")
        console = stack.enter_context(serving(url, DELIVERY_LOG_URL=outbox.url))
        guarded = stack.enter_context(serving(url, DELIVERY_LOG_URL=outbox.url, **access))
        yield Scene(outbox, console, guarded)
    drop_database(outbox.database)
