"""The operators' statements read what their headers say they read, on a table of some size."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay.postgres.sql import statement
from tests.outbox.admin.filling import fill_aged
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database, drop_database

ROWS = 5000

_RANGE: dict[str, Any] = {
    "since": None,
    "until": "2999-01-01Z",
    "before": "2999-01-01Z",
    "earliest": "-infinity",
    "after": "-infinity",
}
_NO_FILTER: dict[str, Any] = dict.fromkeys(
    ("event_type", "partition_key", "ids", "error", "error_code", "header", "header_value", "payload")
)
_LIST: dict[str, Any] = {"older": None, "newer": None, "statuses": ["PENDING", "DELIVERING", "DELIVERED", "DEAD"]}
BULK: dict[str, Any] = {"bound": "-infinity", "tid": "(0,0)", "edge": "(0,0)"}
PARAMETERS = {**_RANGE, **_NO_FILTER, **_LIST, "unchanged": "infinity", "limit": 100, "most": 1000, "sample": 100}
ONE = {"ids": ["0190b0a0-0000-7000-8000-000000000001"]}


@pytest.fixture(scope="module")
def filled(postgres: str) -> Any:
    """A database with some thousand rows of every status, analysed; read by every test here, written by none."""
    database = create_database(postgres)
    outbox = Outbox.create(database)
    for status in ("PENDING", "DELIVERED", "DEAD"):
        fill_aged(outbox, status, ROWS)
    database.run("VACUUM ANALYZE openoutbox_events")
    yield outbox
    drop_database(database)


def explain(outbox: Outbox, path: str, tags: list[str], parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Every node of the plan that was run, in a transaction that is rolled back."""
    sql = statement(path, tags=tags)
    with outbox.database.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute("SET LOCAL enable_seqscan = off")  # a table of this size, read whole, costs little
        explained = connection.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + sql, parameters).fetchone()
    assert explained is not None
    nodes: list[dict[str, Any]] = []
    waiting = [explained[0][0]["Plan"]] if not isinstance(explained[0], str) else [json.loads(explained[0])[0]["Plan"]]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        waiting += node.get("Plans", [])
    return nodes


@pytest.mark.parametrize(
    ("path", "tags", "parameters", "index", "most"),
    [
        ("outbox/prune:prune", ["delivered"], {"excluded": []}, "idx_openoutbox_prune_delivered", 100),
        ("outbox/prune:prune", ["dead"], {"excluded": []}, "idx_openoutbox_prune_dead", 100),
        ("outbox/prune:prunable", ["delivered"], {}, "idx_openoutbox_prune_delivered", 1000),
        ("outbox/prune:prunable", ["dead"], {}, "idx_openoutbox_prune_dead", 1000),
        ("outbox/bulk:count", ["delivered"], {"earliest": "2999-01-01Z"}, "idx_openoutbox_prune_delivered", 1000),
        ("outbox/bulk:count", ["dead"], ONE, "openoutbox_events_pkey", 1000),
        (
            "outbox/search:page",
            ["dead", "window", "inclusive", "ascending", "bulk"],
            BULK,
            "idx_openoutbox_prune_dead",
            1000,
        ),
        ("outbox/search:page", ["pending", "window", "ascending", "bulk"], BULK, "idx_openoutbox_metrics_lag", 1000),
        ("outbox/search:page", ["dead", "bulk", "ids"], BULK | ONE, "openoutbox_events_pkey", 1000),
        ("outbox/backlog:pending_types", [], {}, "idx_openoutbox_metrics_lag", 100),
        ("outbox/admin:show", [], {"event_id": ONE["ids"][0]}, "openoutbox_events_pkey", 1),
        ("outbox/admin:list", ["newest"], {}, "idx_openoutbox_metrics_lag", 100),
        ("outbox/admin:list", ["oldest"], {"statuses": ["DEAD"]}, "idx_openoutbox_prune_dead", 100),
    ],
)
def test_no_statement_reads_the_whole_table(
    filled: Outbox, path: str, tags: list[str], parameters: dict[str, Any], index: str, most: int
) -> None:
    nodes = explain(filled, path, tags, {**PARAMETERS, **parameters})
    assert index in {node.get("Index Name") for node in nodes}
    scans = [node for node in nodes if node["Node Type"] == "Seq Scan" and node.get("Relation Name") is not None]
    assert [node for node in scans if node["Actual Loops"]] == []
    read = [node["Actual Rows"] * node["Actual Loops"] for node in nodes if node.get("Index Name")]
    assert all(rows <= most for rows in read), read
