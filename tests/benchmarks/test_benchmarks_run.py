"""The benchmarks run and lose nothing; what they measure here says nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.console import PAGES, SEARCHES
from benchmarks.deliverylog import QUESTIONS
from benchmarks.horizon_table import Cell, draw_drain, draw_steady, table
from relay.localservers.daemon import python_path
from tests.support.paths import ROOT
from tests.support.waiting import patience

LAB = pytest.mark.soak
"""Of a benchmark that answered one question once (benchmarks/lab), or of a way of one that another way stands for."""
pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]


def printed(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    environment = os.environ | python_path()
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=patience()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(module: str, path: Path, *arguments: str) -> Any:
    printed(module, "--json", str(path), *arguments)
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "publishers",
    [
        pytest.param(["redis"], marks=pytest.mark.redis),
        pytest.param(["kafka", "nats"], marks=[pytest.mark.kafka, pytest.mark.nats, pytest.mark.soak]),
    ],
    ids=",".join,
)
def test_drain(tmp_path: Path, publishers: list[str]) -> None:
    """Every broker, with ON_DELIVERED=delete, by our relay and by its command as another relay; with its parts."""
    other = f"--relay=other={sys.executable} -m relay"
    figures = run(
        "drain",
        tmp_path / "d.json",
        "--events=2000",
        "--rounds=1",
        "--disturbed",
        "--modes=delete",
        "--batches",
        "100",
        other,
        "--relay-modes=delete",
        "--parts",
        "--publishers",
        *publishers,
    )
    measured = {(cell["publisher"], cell["relay"]) for cell in figures["cells"]}
    brokers = {(publisher, "broker's floor") for publisher in publishers}
    relays = {(publisher, relay) for publisher in publishers for relay in ("openoutbox, delete", "other, delete")}
    assert measured == {("floor", "")} | brokers | relays
    with_broker = [cell for cell in figures["cells"] if cell["lost"] is not None]
    assert len(with_broker) == 2 * len(publishers)
    assert all((cell["lost"], cell["duplicates"]) == (0, 0) for cell in with_broker)
    assert all(cell["events_per_second"] > 0 for cell in figures["cells"])
    assert all(cell["wal_bytes_per_event"] > 700 for cell in figures["cells"] if cell["relay"] != "broker's floor")
    parts = [cell["parts"] for cell in with_broker]
    of_processes = ("relay: event loop", "PostgreSQL: claim", "PostgreSQL: settle")
    assert all(one[part] > 0 for one in parts for part in (*of_processes, "statements: settle, number"))
    assert [one["counted"] for one in figures["rounds"]] == [True] * len(publishers)
    assert all(0 <= one["disturbance"]["steal"] < 1 for one in figures["rounds"])


@LAB
@pytest.mark.rabbitmq
def test_drain_into_several_queues(tmp_path: Path) -> None:
    """Rows without keys; the floor also beside a busy core."""
    sizes = [
        "--events=2000",
        "--rounds=1",
        "--disturbed",
        "--modes=keep",
        "--batches=100",
        "--queues=3",
        "--keys=0",
        "--busy-floor",
    ]
    figures = run("drain", tmp_path / "d.json", *sizes, "--publishers", "rabbitmq")
    assert {cell["publisher"] for cell in figures["cells"]} == {"floor", "floor beside a busy core", "rabbitmq"}
    cells = {cell["relay"]: cell for cell in figures["cells"] if cell["publisher"] == "rabbitmq"}
    assert cells.keys() == {"openoutbox", "broker's floor"}
    assert (cells["openoutbox"]["lost"], cells["openoutbox"]["duplicates"]) == (0, 0)
    assert all(cell["events_per_second"] > 0 for cell in cells.values())


@pytest.mark.kafka
def test_peers(tmp_path: Path) -> None:
    """Our own command as another relay."""
    other = f"--relay=other={sys.executable} -m relay"
    sizes = ["--rounds=1", "--warm-up=50", "--events=200", "--seconds=1", "--idle=1"]
    [one] = run("peers", tmp_path / "p.json", *sizes, other, "--peers")["runs"]
    assert (one["peer"], one["lost"], one["duplicates"]) == ("other", 0, 0)
    assert one["events_per_second"] > 0
    assert one["stored_p50"] > 0
    assert one["wal_bytes"] > 0


@pytest.mark.kafka
@pytest.mark.scale
def test_peers_with_debezium(tmp_path: Path) -> None:
    sizes = ["--rounds=1", "--warm-up=50", "--events=200", "--seconds=1", "--idle=1"]
    figures = run("peers", tmp_path / "p.json", *sizes, "--peers", "debezium", "debezium-tuned")
    assert [one["peer"] for one in figures["runs"]] == ["debezium", "debezium-tuned"]
    assert all((one["lost"], one["duplicates"]) == (0, 0) for one in figures["runs"])


@LAB
def test_statements() -> None:
    """Our own checkout as another one."""
    printed_table = printed(
        "lab.statements", "--rounds=2", "--batches", "100", f"--checkout=other={ROOT}", "--prepared"
    )
    names = [line.split("|")[1].strip() for line in printed_table.splitlines()[2:]]
    of_checkouts = [f"{name}{kind}" for name in ("relay", "other") for kind in ("", ", delete", ", prepared")]
    assert names == ["floor", *of_checkouts]


# Outboxes of other places are on one server; only those of two are counted on both.
@pytest.mark.parametrize("places", [["server"], pytest.param(["schema", "server"], marks=LAB)], ids=",".join)
def test_growth(tmp_path: Path, places: list[str]) -> None:
    """One drain of each kind of outboxes, and what an event costs before any relay."""
    sizes = ["--rows=10000", "--keys=200", "--batches=100", "--rounds=1", "--places", *places]
    series = ["--series", "places", "keys", "insert"]
    cells = run("growth", tmp_path / "g.json", *sizes, *series)["cells"]
    plans = [(cell["series"], cell["relays"], cell["tables"], cell["place"], cell["ordering"]) for cell in cells]
    of_places = [("places", 2, 2, place, "none") for place in places]
    keys = [("keys", 1, 1, "table", ordering) for ordering in ("none", "key")]
    assert plans == [*of_places, *keys, ("insert", 0, 1, "table", "none")]
    assert all(cell["events_per_second"] > 0 and cell["wal_bytes"] > 0 for cell in cells)


@pytest.mark.nats
@pytest.mark.redis
def test_latency(tmp_path: Path) -> None:
    publishers = ["nats"]
    figures = run("latency", tmp_path / "l.json", "--seconds=1", "--warm-up=0", "--idle=1", "--publishers", *publishers)
    expected = [(publisher, wake_up) for publisher in publishers for wake_up in (False, True)]
    assert [(one["publisher"], one["wake_up"]) for one in figures["runs"]] == expected
    assert all(one["missing"] == 0 and one["events"] > 0 for one in figures["runs"])


def test_ordering(tmp_path: Path) -> None:
    arguments = ["--events=2000", "--rounds=1", "--relays=1", "--batches=100", "--publishers=null", "--only=drains"]
    arguments += ["--due-in=1"]
    [drained] = run("ordering", tmp_path / "o.json", *arguments)
    assert drained["unordered"][0] > 0
    assert drained["ordered"][0] > 0


@LAB
def test_wakeup(tmp_path: Path) -> None:
    figures = run("lab.wakeup", tmp_path / "w.json", "--pairs=1", "--seconds=1", "--clients=2")
    [pair] = figures["pairs"]
    assert pair["polling"] > 0
    assert pair["woken"] > 0


@pytest.mark.parametrize("driver", ["postgres", pytest.param("clickhouse", marks=[pytest.mark.clickhouse, LAB])])
def test_deliverylog(driver: str) -> None:
    lines = printed("deliverylog", "--rows=3000", "--rounds=1", "--batches=3", "--drivers", driver).splitlines()
    assert all(line.startswith(driver) for line in lines)
    assert "bytes an attempt" in lines[0]
    assert "insert_many" in lines[1]
    results = lines[2:]
    assert len({line[12:60] for line in results}) == len(results) == 2 * len(QUESTIONS) + 3
    assert all(" p99 " in line and " ratio " in line for line in results)


def test_deliverylog_cost() -> None:
    lines = printed("deliverylog_cost", "--events=1000", "--rounds=1").splitlines()
    logs = ["beside", "elsewhere", "hanging"]
    assert [line.split()[0] for line in lines] == [*logs, *(f"{log}:" for log in reversed(logs))]
    assert all("throughput" in line for line in lines[len(logs) :])


def test_eventstore() -> None:
    out = printed("eventstore", "--seconds=0.1", "--rounds=1", "--writers=1,2", "--times=10")
    table = [line.split() for line in out.splitlines() if line.lstrip()[:1].isdigit()]
    assert [line[:2] for line in table] == [["1", "1"], ["2", "1"], ["1", "10"], ["2", "10"]]
    assert all(line.count("(1.00)") >= 1 and len(line) == 14 for line in table)
    for title in ("one committed single-row INSERT", "read_stream of 100", "read_all of 1,000", "subscription latency"):
        assert title in out


@LAB
def test_vacuuming(tmp_path: Path) -> None:
    figures = run("lab.vacuuming", tmp_path / "v.json", "--rows=2000", "--events=10000")
    assert [one["held"] for one in figures["ageing"]] == [False, True]
    assert all(point["claim"] > 0 for one in figures["ageing"] for point in one["points"])
    assert "tuning" in [one["name"] for one in figures["parameters"]]
    assert all(one["events_per_second"] > 0 for one in figures["parameters"])


def test_horizon(tmp_path: Path) -> None:
    sizes = ["--events=20000", "--dead=1000", "--seconds=1", "--rate=100", "--modes=keep", "--orderings=none"]
    figures = run("horizon", tmp_path / "h.json", *sizes)
    cells = [Cell(**cell) for cell in figures["cells"]]
    assert [(one.what, one.held) for one in cells] == [
        (what, held) for what in ("drain", "SKIP LOCKED", "steady") for held in (False, True)
    ]
    assert all(one.pace > 0 and one.claim_p99 >= one.claim_p50 > 0 for one in cells)
    assert table(cells).count("\n| ") == 3
    plt = pytest.importorskip("matplotlib.pyplot", reason="needs the group bench")
    figure, (left, right) = plt.subplots(1, 2)
    draw_drain(cells, left)
    draw_steady(cells, right)
    assert [line.get_label() for line in left.get_lines()] == [
        f"{name}, {side}" for name in ("relay", "bare loop of SKIP LOCKED") for side in ("free", "held")
    ]
    assert all(height > 0 for line in left.get_lines() for height in line.get_ydata())
    assert len(right.patches) == 4
    plt.close(figure)


@LAB
def test_heldreads() -> None:
    lines = printed("lab.heldreads", "--rows=2000", "--pruned=200").splitlines()
    assert len(lines) == 20
    assert all(float(cell.replace(",", "")) > 0 for line in lines[2:] for cell in line.split("|")[2:4])


def test_console(tmp_path: Path) -> None:
    figures = run("console", tmp_path / "c.json", "--rows=3000", "--requests=1", "--seconds=1", "--viewers=20")
    assert {page["page"] for page in figures["pages"]} == PAGES.keys() | SEARCHES.keys()
    assert all(page["slowest"] >= page["median"] > 0 for page in figures["pages"])
    assert figures["viewers"]["requests"] > 1


@LAB
def test_the_cost_of_an_enqueue() -> None:
    lines = printed("lab.enqueue_cost", "--events=40", "--rounds=1").splitlines()
    assert [line.split()[0] for line in lines] == ["psycopg", "asyncpg", "sqlalchemy", "sqlalchemy-asyncpg"]


@LAB
def test_the_cost_of_traces() -> None:
    lines = printed("lab.tracing_cost", "--events=2000", "--rounds=2").splitlines()
    assert lines[2] == "null, batches of 1000, 1% sampled, medians of 2 rounds:"
    assert [line.split()[0] for line in lines[3:]] == ["off", "unsampled", "sampled"]
