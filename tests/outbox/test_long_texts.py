"""Of texts that an inserter may make as long as a row allows, no claim and no list reads more than the begin."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from relay.core.event import Status
from relay.outbox.admin.browse import RowFilter, list_events
from relay.outbox.admin.event_types import read_event_types
from relay.outbox.admin.explain import read_causes
from relay.outbox.admin.outbox_check import check_storage
from relay.outbox.admin.overview import dead_groups
from relay.outbox.admin.search import EventSearch, search_events
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.postgres.sql import TableName
from tests.outbox.harness import PostgresHarness
from tests.support.fixtures.outbox import Outbox, Row

pytestmark = pytest.mark.postgres

MEGABYTE = "repeat('x', 1000000)"
MOST = 300_000  # bytes of what one list holds


@pytest.mark.parametrize("key_order", [None, KeyOrder.SKIP])
async def test_a_claim_reads_the_begin_of_what_no_limit_counts(outbox: Outbox, key_order: KeyOrder | None) -> None:
    add_extension(outbox.owner_url, TableName(), "fan-out")
    outbox.database.run("GRANT UPDATE (acknowledged_by) ON openoutbox_events TO openoutbox_relay")
    table = PostgresHarness(outbox, key_order)
    relay = table.relay()
    await relay.open()
    outbox.insert([Row("t", partition_key="k")])
    outbox.database.run(f"UPDATE openoutbox_events SET last_error = {MEGABYTE}, acknowledged_by = ARRAY[{MEGABYTE}]")
    [event] = (await relay.claim(10, 1 << 40)).events
    await table.close()
    assert (event.last_code, event.acknowledged_by) == ("x" * 100, "x" * 16_384)


def read_all(url: str) -> Sequence[object]:
    """What lists show of the outbox."""
    table = TableName()
    searches = [EventSearch((status,), limit=20) for status in Status]
    return [
        list_events(url, table, RowFilter(limit=20)),
        *(search_events(url, table, one) for one in searches),
        read_event_types(url, table),
        read_causes(url, table),
        dead_groups(url, table),
        check_storage(url, table, 60.0, retention=0.0),
    ]


def test_a_list_has_the_begin_of_long_texts(outbox: Outbox) -> None:
    """A hundred rows of three megabytes would be the memory of a small machine."""
    columns = "event_id, event_type, partition_key, payload, status, last_error, attempts, delivered_at"
    outbox.database.run(
        f"INSERT INTO openoutbox_events ({columns}) SELECT gen_random_uuid(), n || {MEGABYTE}, n || {MEGABYTE}, '', "
        f"status, n || {MEGABYTE}, 3, CASE status WHEN 'DELIVERED' THEN now() END "
        "FROM generate_series(1, 20) AS n, unnest(ARRAY['PENDING', 'DEAD', 'DELIVERED']) AS status"
    )
    sizes = [len(repr(one)) for one in read_all(outbox.url)]
    assert max(sizes) < MOST
    assert min(sizes[:1]) > 20 * 4097
