"""A write says how many rows it chose and how many it wrote; an error at the commit keeps its state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from relay.core.blame import KEPT
from relay.core.errors import RowRefused, StorageError
from relay.core.event import EventId
from relay.core.storage import Reaped, Settled, Settlement
from relay.outbox.admin import prune as pruning
from relay.outbox.admin.prune import Pruned, PruneOptions, prune
from relay.outbox.admin.replay import Replayed, ReplayOptions, replay
from relay.outbox.admin.selection import Selection
from relay.outbox.claiming import Claims
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName
from tests.outbox.harness import PostgresHarness
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.options import storage_options

ANY_BYTES = 1 << 40
_TRIGGER = """
CREATE FUNCTION hostile() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$;
CREATE {kind} TRIGGER hostile {when} ON openoutbox_events {deferred} FOR EACH ROW
WHEN (OLD.event_type = 'bad') EXECUTE FUNCTION hostile()
"""
_RAISE = "RAISE EXCEPTION 'not this one' USING ERRCODE = '{}';"


def keep(outbox: Outbox, event: str, body: str = "RETURN NULL;") -> None:
    with outbox.database.connect() as connection:
        connection.execute(_TRIGGER.format(body=body, kind="", when=f"BEFORE {event}", deferred="").encode())


def refuse_at_commit(outbox: Outbox, state: str) -> None:
    deferred = "DEFERRABLE INITIALLY DEFERRED"
    body = f"{_RAISE.format(state)} RETURN NULL;"
    with outbox.database.connect() as connection:
        sql = _TRIGGER.format(body=body, kind="CONSTRAINT", when="AFTER UPDATE OR DELETE", deferred=deferred)
        connection.execute(sql.encode())


_RULE = "CREATE RULE keep AS ON DELETE TO openoutbox_events WHERE OLD.event_type = 'bad' DO INSTEAD NOTHING"


@pytest.mark.parametrize(
    "hostile",
    [lambda outbox: keep(outbox, "DELETE"), lambda outbox: outbox.database.run(_RULE)],
    ids=["trigger", "rule"],
)
async def test_a_delete_that_leaves_the_row_makes_it_delivered(
    outbox: Outbox, caplog: pytest.LogCaptureFixture, hostile: Callable[[Outbox], object]
) -> None:
    [bad, good] = outbox.insert([Row("bad"), Row("good")])
    table = PostgresHarness(outbox, delete_delivered=True)
    relay = table.relay()
    claim = await relay.claim(2, ANY_BYTES)
    assert claim.fence is not None
    hostile(outbox)
    ids = [event.event_id for event in claim.events]
    assert await relay.settle([Settlement(claim.fence, delivered=ids)]) == [Settled(delivered=2)]
    assert (table.status(ids[0]), table.status(ids[1])) == ("DELIVERED", "DELETED")
    assert {bad, good} == set(ids)
    [line] = [one for one in caplog.records if getattr(one, "action", "") == "delete_kept"]
    assert (line.levelno, bad in line.getMessage()) == (logging.ERROR, True)
    await table.close()


async def test_what_is_deleted_is_not_sent_again_where_another_row_is_neither_deleted_nor_made_delivered(
    outbox: Outbox,
) -> None:
    [bad, good] = outbox.insert([Row("bad"), Row("good")])
    table = PostgresHarness(outbox, delete_delivered=True)
    relay = table.relay()
    claim = await relay.claim(2, ANY_BYTES)
    assert claim.fence is not None
    keep(outbox, "DELETE OR UPDATE", f"IF TG_OP = 'UPDATE' THEN {_RAISE.format('P0001')} END IF; RETURN NULL;")
    ids = [event.event_id for event in claim.events]
    kept = frozenset([EventId(bad)])
    assert await relay.settle([Settlement(claim.fence, delivered=ids)]) == [Settled(delivered=1, kept=kept)]
    assert (table.status(EventId(bad)), table.status(EventId(good))) == ("DELIVERING", "DELETED")
    with pytest.raises(RowRefused, match="not this one"):  # alone: the error says why
        await relay.settle([Settlement(claim.fence, delivered=[EventId(bad)])])
    await table.close()


async def test_a_reaper_names_the_lease_that_a_trigger_keeps(outbox: Outbox) -> None:
    [bad, _] = outbox.insert([Row("bad"), Row("good")])
    outbox.database.run(
        "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'gone', "
        "locked_at = now() - interval '1 hour' * CASE event_type WHEN 'bad' THEN 2 ELSE 1 END"
    )
    keep(outbox, "UPDATE")
    table = PostgresHarness(outbox)
    relay = table.relay()
    assert await relay.reap(1) == Reaped(0, 0, 1, EventId(bad))
    assert await relay.reap(10) == Reaped(1, 0, 1)
    await table.close()


@pytest.mark.parametrize("types", [("bad", "good", "good"), ("good", "bad", "good")], ids=["first", "between"])
async def test_what_is_behind_a_row_that_a_trigger_keeps_is_given_back(outbox: Outbox, types: Sequence[str]) -> None:
    table = PostgresHarness(outbox, KeyOrder.SKIP)
    relay = table.relay()
    ids = outbox.insert([Row(kind, partition_key="a") for kind in types])
    [other] = outbox.insert([Row("good", partition_key="b")])
    keep(outbox, "UPDATE")
    claim = await relay.claim(10, ANY_BYTES)
    bad = types.index("bad")
    assert {event.event_id for event in claim.events} == {other, *ids[:bad]}
    assert set(claim.unread) == set(ids[bad + 1 :])
    assert [(error.event_id, KEPT in str(error)) for error in claim.refused] == [(ids[bad], True)]
    await table.close()


@pytest.mark.parametrize("key_order", [None, KeyOrder.SKIP])
async def test_a_row_is_not_named_because_claims_looked_elsewhere(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch, key_order: KeyOrder | None
) -> None:
    """It is claimed alone first. Only a row that such a claim leaves is kept by a trigger or a rule."""

    async def elsewhere(*_: object) -> list[object]:
        return []

    table = PostgresHarness(outbox, key_order)
    relay = table.relay()
    [innocent] = outbox.insert([Row("good", partition_key="a")])
    monkeypatch.setattr(Claims, "_claim_rows", elsewhere)
    monkeypatch.setattr("relay.outbox.claiming._KEPT_LOOK", 0.0)
    assert [event.event_id for event in (await relay.claim(10, ANY_BYTES)).events] == [innocent]
    keep(outbox, "UPDATE")
    [bad] = outbox.insert([Row("bad", partition_key="b")])
    with pytest.raises(RowRefused, match=KEPT) as refused:
        await relay.claim(1, ANY_BYTES)
    assert refused.value.event_id == bad
    await table.close()


async def test_while_the_queue_stays_empty_such_a_row_is_looked_for_ever_less_often(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a quarter of what an idle relay sends."""
    now, looks = 0.0, []
    monkeypatch.setattr("relay.outbox.claiming.steady_seconds", lambda: now)
    look = Claims._due_first

    async def note(claims: Claims, *values: Any) -> Any:
        looks.append(now)
        return await look(claims, *values)

    monkeypatch.setattr(Claims, "_due_first", note)
    table = PostgresHarness(outbox, None)
    relay = table.relay()
    for second in range(14):
        now = float(second)
        assert not (await relay.claim(10, ANY_BYTES)).events
    assert looks == [0.0, 2.0, 6.0, 11.0]
    outbox.insert([Row("good")])
    assert (await relay.claim(10, ANY_BYTES)).events
    await relay.claim(10, ANY_BYTES)
    assert looks[4:] == [13.0], "a second after the last look, since rows came"
    keep(outbox, "UPDATE")
    outbox.insert([Row("bad")])
    now = 15.0
    with pytest.raises(RowRefused, match=KEPT):
        await relay.claim(1, ANY_BYTES)
    await table.close()


@pytest.mark.parametrize("key_order", [None, KeyOrder.SKIP])
@pytest.mark.parametrize("state", ["P0001", "42P01", "40001"])
async def test_an_error_at_the_commit_keeps_its_state_and_names_the_statement(
    outbox: Outbox, state: str, key_order: KeyOrder | None
) -> None:
    outbox.insert([Row("good"), Row("good"), Row("bad")])
    table = PostgresHarness(outbox, key_order)
    relay = table.relay()
    assert isinstance(relay, PostgresOutbox)
    first, second = await relay.claim(1, ANY_BYTES), await relay.claim(1, ANY_BYTES)
    refuse_at_commit(outbox, state)
    relay._claims.guard.failed(1000)  # its claims are pipelines from now on
    with pytest.raises(StorageError, match=f"^claiming: not this one .SQLSTATE {state}") as claiming:
        await relay.claim(10, ANY_BYTES)
    assert claiming.value.answered
    outbox.database.run("UPDATE openoutbox_events SET event_type = 'bad' WHERE status = 'DELIVERING'")
    verdicts = [
        Settlement(claim.fence, delivered=[event.event_id for event in claim.events])
        for claim in (first, second)
        if claim.fence is not None
    ]
    with pytest.raises(StorageError, match=f"^settling: not this one .SQLSTATE {state}"):
        await relay.settle(verdicts)
    await relay.ping()
    await table.close()


@pytest.mark.parametrize("state", ["P0001", "42P01", "40001"])
async def test_an_error_at_the_commit_of_a_renewal_keeps_its_state_and_names_it(outbox: Outbox, state: str) -> None:
    [bad] = outbox.insert([Row("bad")])
    table = PostgresHarness(outbox)
    relay = table.relay()
    claim = await relay.claim(1, ANY_BYTES)
    assert claim.fence is not None
    refuse_at_commit(outbox, state)
    with pytest.raises(StorageError, match=f"^renewing: not this one .SQLSTATE {state}") as renewing:
        await relay.renew(claim.fence, [EventId(bad)])
    assert (renewing.value.answered, renewing.value.sqlstate) == (True, state)
    outbox.database.run("DROP TRIGGER hostile ON openoutbox_events")
    assert (await relay.renew(claim.fence, [EventId(bad)])).held == {bad}
    await table.close()


_AUDITED = """
CREATE TABLE audit (at timestamptz DEFAULT now());
CREATE FUNCTION hostile() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$;
CREATE CONSTRAINT TRIGGER hostile AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION hostile();
CREATE FUNCTION audited() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS
$$ BEGIN INSERT INTO audit DEFAULT VALUES; RETURN TRUE; END $$;
CREATE POLICY everything ON openoutbox_events USING (TRUE);
ALTER TABLE openoutbox_events ENABLE ROW LEVEL SECURITY
"""
"""A policy that writes down who has looked, and a trigger that refuses it at the commit of what only reads."""


@pytest.mark.parametrize("state", ["P0001", "40001"])
async def test_an_error_at_the_commit_of_a_read_keeps_its_state_and_names_it(outbox: Outbox, state: str) -> None:
    outbox.insert([Row("bad")])
    outbox.database.run(
        "UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now() - interval '1 day', updated_at = now()"
    )
    outbox.insert([Row("bad")])
    outbox.database.run("UPDATE openoutbox_events SET available_at = available_at - interval '1 hour'")
    with outbox.database.connect() as connection:
        connection.execute(_AUDITED.format(body=_RAISE.format(state)).encode())
    relay = PostgresOutbox(storage_options(outbox.relay_url, "reader"))
    await relay.open()
    outbox.database.run("ALTER POLICY everything ON openoutbox_events USING (audited())")
    other = PostgresOutbox(storage_options(outbox.relay_url, "other"))
    try:
        for doing, read in {
            "finding where claims begin": other.open,
            "reading the oldest delivery": relay.upkeep,
        }.items():
            with pytest.raises(StorageError, match=f"^{doing}: not this one .SQLSTATE {state}") as reading:
                await read()
            assert reading.value.answered
        outbox.database.run("ALTER POLICY everything ON openoutbox_events USING (TRUE)")
        assert (await relay.upkeep()).oldest_delivered_age
    finally:
        await relay.close()
        await other.close()


def old(outbox: Outbox, kinds: dict[str, int], status: str = "DELIVERED") -> None:
    outbox.insert([Row(kind) for kind, count in kinds.items() for _ in range(count)])
    delivered = "now() - interval '30 days'" if status == "DELIVERED" else "NULL"
    outbox.database.run(
        f"UPDATE openoutbox_events SET status = '{status}', delivered_at = {delivered}, "
        "updated_at = now() - interval '90 days'"
    )


_HOSTILE: dict[str, Callable[[Outbox], None]] = {
    "kept": lambda outbox: keep(outbox, "UPDATE OR DELETE"),
    "raised": lambda outbox: keep(outbox, "UPDATE OR DELETE", _RAISE.format("P0001")),
    "raised 42P01": lambda outbox: keep(outbox, "UPDATE OR DELETE", _RAISE.format("42P01")),
    "raised 55P03": lambda outbox: keep(outbox, "UPDATE OR DELETE", _RAISE.format("55P03")),
    "at the commit": lambda outbox: refuse_at_commit(outbox, "23503"),
}
_HOSTILE_UPDATE = _HOSTILE | {"counted": lambda outbox: keep(outbox, "UPDATE", "RETURN OLD;")}


@pytest.mark.parametrize("how", _HOSTILE)
@pytest.mark.parametrize("status", ["DELIVERED", "DEAD"])
def test_a_prune_goes_past_the_rows_that_are_refused_and_says_so(outbox: Outbox, how: str, status: str) -> None:
    old(outbox, {"good": 100, "bad": 3, "fine": 50}, status)
    _HOSTILE[how](outbox)
    totals: list[Pruned] = []
    with pytest.raises(RowRefused, match="refused 3 events, which stay as they were; the first is"):
        prune(outbox.pruner_url, TableName(), PruneOptions(batch_size=40), totals.append)
    assert totals[-1].total == 150
    assert outbox.rows("event_type") == [("bad",)] * 3


def test_a_prune_of_rows_that_are_all_kept_ends_and_says_so(outbox: Outbox) -> None:
    old(outbox, {"bad": 300})
    keep(outbox, "DELETE")
    with pytest.raises(RowRefused, match=KEPT):
        prune(outbox.pruner_url, TableName(), PruneOptions(batch_size=40))
    assert pruning.preview(outbox.pruner_url, TableName(), PruneOptions()).total == 300


@pytest.mark.parametrize("how", _HOSTILE_UPDATE)
def test_a_replay_goes_past_the_rows_that_are_refused_and_says_so(outbox: Outbox, how: str) -> None:
    old(outbox, {"good": 100, "bad": 3, "fine": 50}, "DEAD")
    _HOSTILE_UPDATE[how](outbox)
    totals: list[Replayed] = []
    options = ReplayOptions(batch_size=40)
    with pytest.raises(RowRefused, match="refused 3 events, which stay as they were; the first is"):
        replay(outbox.url, TableName(), Selection(("dead",)), options, totals.append)
    assert totals[-1].total == 150
    assert outbox.counts() == {"PENDING": 150, "DEAD": 3}


@pytest.mark.parametrize("how", ["raised 42P01", "raised 55P03"])
def test_refused_rows_that_come_first_hold_up_no_other(outbox: Outbox, how: str) -> None:
    """Whatever their state is taken for: others are tried before the database is to blame."""
    old(outbox, {"bad": 5, "good": 100, "worse": 1}, "DEAD")
    outbox.database.run("UPDATE openoutbox_events SET event_type = 'bad' WHERE event_type = 'worse'")
    _HOSTILE[how](outbox)
    replayed: list[Replayed] = []
    with pytest.raises(RowRefused, match="refused 6 events"):
        replay(outbox.url, TableName(), Selection(("dead",)), ReplayOptions(batch_size=40), replayed.append)
    assert replayed[-1].total == 100


@pytest.mark.parametrize("how", ["raised 42P01", "raised 55P03"])
def test_a_prune_whose_oldest_rows_are_refused_goes_on(outbox: Outbox, how: str) -> None:
    old(outbox, {"bad": 5, "good": 100})
    outbox.database.run(
        "UPDATE openoutbox_events SET delivered_at = delivered_at - interval '1 day' WHERE event_type = 'bad'"
    )
    _HOSTILE[how](outbox)
    pruned: list[Pruned] = []
    with pytest.raises(RowRefused, match="refused 5 events"):
        prune(outbox.pruner_url, TableName(), PruneOptions(batch_size=40), pruned.append)
    assert pruned[-1].total == 100
