"""The outbox, delivery log and event store that the examples of the admin API tell of, behind a real console."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import httpx

from deploy.reference.examples import CHANGE_ID, EVENT_IDS
from relay.deliverylog import open_delivery_log
from relay.inbox.table import create
from relay.outbox.extensions import add_extension
from relay.postgres.sql import DEFAULT_INBOX, TableName
from tests.console.serving import serving
from tests.console.stocking import STREAM, TENANT, stock_store
from tests.deliverylog.making import BASE, entry, event
from tests.support.fixtures.outbox import Outbox, give_rights
from tests.support.fixtures.postgres import create_database, drop_database
from tests.support.waiting import wait_until

_DEAD, _WAITING, _SCHEDULED, _OTHER_DEAD, _DELIVERED, _REPLAYED = EVENT_IDS
_EVENT: Final = """
INSERT INTO openoutbox_events (
    event_id, event_type, partition_key, payload, headers, status, attempts, last_error, available_at, delivered_at
) VALUES (
    %(id)s, %(type)s, 'user-1', '{"user": 1}', '{"source": "shop"}', %(status)s, %(attempts)s, %(error)s,
    NOW() + %(due)s, CASE WHEN %(status)s = 'DELIVERED' THEN NOW() END
)
"""
_TOO_LARGE: Final = "MSG_SIZE_TOO_LARGE: the message has 1,200,000 bytes"
_ROWS: Final[list[dict[str, Any]]] = [
    {"id": _DEAD, "type": "user.signup", "status": "DEAD", "attempts": 1, "error": _TOO_LARGE, "due": timedelta(0)},
    {"id": _WAITING, "type": "order.paid", "status": "PENDING", "attempts": 3, "error": "_TRANSPORT: no broker"},
    {"id": _SCHEDULED, "type": "order.paid", "status": "PENDING", "attempts": 0, "error": None},
    {"id": _OTHER_DEAD, "type": "order.paid", "status": "DEAD", "attempts": 1, "error": _TOO_LARGE},
    {"id": _DELIVERED, "type": "user.signup", "status": "DELIVERED", "attempts": 0, "error": None},
    {"id": _REPLAYED, "type": "report.made", "status": "DEAD", "attempts": 1, "error": _TOO_LARGE},
]
_RELAY: Final = """
INSERT INTO openoutbox_relays (
    instance, relay_id, version, host, state, destination_type, destination, lease_timeout, ordering, on_delivered,
    settings, seen_at
) VALUES (
    gen_random_uuid(), %s, '1.0.0', %s, 'active', 'kafka', 'f1', 180, 'none', 'keep', %s, NOW() + INTERVAL '1 hour'
)
"""


_PARKED: Final = """
INSERT INTO event_parked (Name, TenantId, StreamId, Position, Version, Tries, Error, ParkedAt)
VALUES ('balances', %s, %s, 2, 2, 5, 'ValueError: no such account', NOW() + %s)
"""
_LETTER: Final = """
INSERT INTO openoutbox_inbox_tries (
    consumer, event_id, state, tries, event_type, partition_key, payload, headers, error
) VALUES (
    'billing', %s, 'dead', 5, 'order.placed', '7', '{"order": 7}', '{"source": "shop"}', 'ValueError: no such account'
)
"""


async def _fill_log(url: str) -> None:
    log = await open_delivery_log(url)
    await log.migrate()
    its = event(
        _DELIVERED,
        BASE - timedelta(seconds=1),
        tenant_id="acme",
        topic="user.signup",
        matched_destination_ids=["kafka"],
        data=b'{"user": 1}',
        metadata={"source": "shop"},
    )
    attempts: list[dict[str, Any]] = [
        {"status": "failed", "code": "_TRANSPORT", "response_data": {"reason": "broker down"}},
        {"attempt_number": 2, "response_data": {"partition": 3, "offset": 1042}},
    ]
    await log.insert_many(
        [
            entry(f"0190b0a0-1111-7000-8000-00000000000{number}", BASE + timedelta(seconds=number), its, **fields)
            for number, fields in enumerate(({"destination_id": "kafka", **each} for each in attempts), 1)
        ]
    )
    await log.close()


def _fill_outbox(outbox: Outbox) -> None:
    with outbox.database.connect() as connection:
        give_rights(connection)
        connection.execute("GRANT DELETE ON openoutbox_events TO openoutbox_console")
        for row in _ROWS:
            connection.execute(_EVENT, {"due": timedelta(hours=1), **row})
        for number, batch in enumerate(("500", "100"), 1):
            url = {"value": "kafka://relay:***@kafka:9092", "changed": True}
            settings = {"PUBLISHER_URL": url, "BATCH_SIZE": {"value": batch, "changed": batch != "100"}}
            connection.execute(_RELAY, [f"relay-{number}", f"host-{number}", json.dumps(settings)])


def _set_aside(outbox: Outbox) -> None:
    """Two parked streams, and a consumer's dead letter."""
    with outbox.database.connect() as connection:
        for number in range(2):
            connection.execute(_PARKED, [TENANT, UUID(int=STREAM.int + number), timedelta(seconds=number)])
        connection.execute(_LETTER, [_DEAD])


def _record_changes(outbox: Outbox, address: str) -> None:
    """A pause and a finished change of many events, under the id that the examples have."""

    def send(path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = httpx.post(address + path, json=body, headers={"Idempotency-Key": f"of the scene: {path}"})
        assert answer.is_success, answer.text
        return dict(answer.json())

    send("/api/v1/pauses", {"scope": "prefix", "name": "import.", "reason": "the warehouse moves"})
    selection = {"event_type": "report.made", "error_code": "MSG_SIZE_TOO_LARGE"}
    body = {"action": "replay", "selection": selection, "rate": 100, "reason": "the limit was raised"}
    id_ = send("/api/v1/changes", body)["change_id"]
    following = f"{address}/api/v1/changes/{id_}"
    wait_until(lambda: httpx.get(following).json()["state"] == "complete", what="the change to complete")
    outbox.database.run("UPDATE openoutbox_changes SET change_id = %s WHERE change_id = %s", [CHANGE_ID, id_])


@contextmanager
def examples_console(admin_url: str) -> Iterator[str]:
    """The address of the console, whose users are all admin."""
    outbox = Outbox.create(create_database(admin_url))
    for extension in ("console", "pause", "fleet", "series"):
        add_extension(outbox.owner_url, TableName(), extension)
    asyncio.run(_fill_log(outbox.url))
    stock_store(outbox.url)
    create(outbox.owner_url, TableName(DEFAULT_INBOX), ["dead-letters"])
    _fill_outbox(outbox)
    _set_aside(outbox)
    with serving(outbox.url_of("console"), DELIVERY_LOG_URL=outbox.url) as address:
        _record_changes(outbox, address)
        yield address
    drop_database(outbox.database)
