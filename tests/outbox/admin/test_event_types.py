"""Event types at a glance: exact on small tables, bounded and plain about it on large ones."""

from __future__ import annotations

import pytest

from relay.outbox.admin import event_types
from relay.outbox.admin.event_types import EventTypes, SampledRows, read_event_types
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox, Row

pytestmark = pytest.mark.postgres

_DELIVERED = """
INSERT INTO openoutbox_events (event_id, event_type, payload, status, created_at, delivered_at)
SELECT gen_random_uuid(), %s, '', 'DELIVERED', at - make_interval(secs => n), at
FROM generate_series(1, 100) AS n, LATERAL (SELECT NOW() - make_interval(secs => n * %s) AS at) AS time
"""
_DEAD = """
INSERT INTO openoutbox_events (event_id, event_type, payload, status, updated_at)
SELECT gen_random_uuid(), 'user.signup', '', 'DEAD', NOW() - make_interval(secs => n * 1000)
FROM generate_series(0, 9) AS n
"""
_INFINITE = """
UPDATE openoutbox_events SET available_at = '-infinity', created_at = '-infinity' WHERE event_type = 'ancient'
"""


def read(outbox: Outbox) -> EventTypes:
    return read_event_types(outbox.reader_url, TableName())


def deliver(outbox: Outbox, event_type: str, every: float) -> None:
    """A hundred deliveries, one in ``every`` seconds, which took 1 to 100 seconds."""
    outbox.database.run(_DELIVERED, [event_type, every])


def test_an_empty_outbox_has_no_types(outbox: Outbox) -> None:
    nothing = SampledRows(0, True, 3600.0)
    assert read(outbox) == EventTypes([], nothing, nothing, nothing)


def test_the_figures_of_each_type(outbox: Outbox) -> None:
    deliver(outbox, "order.paid", 2)
    deliver(outbox, "stock.changed", 3000)
    outbox.database.run(_DEAD)
    outbox.insert([Row("user.signup"), Row("user.signup"), Row("later"), Row("ancient")])
    outbox.database.run("UPDATE openoutbox_events SET attempts = 2 WHERE event_type = 'ancient'")
    outbox.database.run(_INFINITE)
    outbox.database.run("UPDATE openoutbox_events SET available_at = now() + '1 day' WHERE event_type = 'later'")
    types = {each.event_type: each for each in read(outbox).types}
    assert list(types) == ["order.paid", "user.signup", "ancient", "later", "stock.changed"]
    paid, signup = types["order.paid"], types["user.signup"]
    assert paid.delivered == pytest.approx((29.0, 100 / 60))
    assert (paid.p50, paid.p99) == pytest.approx((50.5, 99.01))
    assert signup.died == pytest.approx((1.0, 4 / 60))
    assert signup.dead == 10
    assert (signup.waiting, signup.retrying, signup.p50) == (2, 0, None)
    assert signup.oldest_due_age is not None
    assert 0 <= signup.oldest_due_age < 60
    assert (types["ancient"].retrying, types["ancient"].oldest_due_age) == (1, None)
    assert types["later"].oldest_due_age is None
    assert types["stock.changed"].delivered.last_hour == pytest.approx(1 / 60)


def test_a_sample_that_is_full_says_so_and_paces_are_those_of_its_time(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_types, "MOST_SAMPLED", 50)
    deliver(outbox, "order.paid", 0.2)  # the newest 50 cover 10 s: 300 a minute
    outbox.insert([Row("first")] * 60)
    outbox.insert([Row("second")])
    figures = read(outbox)
    assert (figures.delivered.rows, figures.delivered.whole) == (50, False)
    assert figures.delivered.seconds == pytest.approx(10, abs=5)
    paid, first = figures.types
    assert paid.delivered.last_minute == paid.delivered.last_hour == pytest.approx(3000 / figures.delivered.seconds)
    assert (first.event_type, first.waiting, figures.waiting.whole) == ("first", 50, False)
