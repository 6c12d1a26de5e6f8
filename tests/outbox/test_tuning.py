"""``relay-cli migrate --with tuning``: what it sets, and that vacuum then cleans the index that claims walk."""

from __future__ import annotations

from relay.outbox.extensions import add_extension
from relay.outbox.migrate import plan
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox

_DELIVERED = """
INSERT INTO openoutbox_events (event_id, event_type, payload, status, delivered_at)
SELECT gen_random_uuid(), 'history', decode(repeat('ab', 1500), 'hex'), 'DELIVERED', now()
FROM generate_series(1, 20000)
"""


def vacuumed(outbox: Outbox) -> str:
    """What a vacuum says of itself after a few hundred events have gone through a large table."""
    outbox.fill("t", 300)
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED' WHERE event_type = 't'")
    said: list[str] = []
    with outbox.database.connect() as connection:
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        connection.execute("VACUUM (VERBOSE) openoutbox_events")
    return "\n".join(said)


def test_vacuum_cleans_the_queue_however_little_of_the_table_is_dead(outbox: Outbox) -> None:
    """By default it leaves the indexes alone while less than 2% of the pages hold dead rows."""
    outbox.database.run("ALTER TABLE openoutbox_events SET (autovacuum_enabled = off)")
    outbox.database.run(_DELIVERED)
    outbox.database.run("VACUUM openoutbox_events")
    assert "index scan bypassed" in vacuumed(outbox)
    add_extension(outbox.owner_url, TableName(), "tuning")
    said = vacuumed(outbox)
    assert "index scan bypassed" not in said
    assert "index scan needed" in said


def test_it_may_be_applied_twice_and_is_no_difference(outbox: Outbox) -> None:
    for _ in range(2):
        add_extension(outbox.owner_url, TableName(), "tuning")
    assert plan(outbox.owner_url, TableName()).up_to_date
    [(options,)] = outbox.database.run("SELECT reloptions FROM pg_class WHERE oid = 'openoutbox_events'::regclass")
    assert "vacuum_index_cleanup=on" in options
