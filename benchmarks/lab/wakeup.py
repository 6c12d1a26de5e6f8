"""What the wake-up extension costs writers: ``python -m benchmarks.lab.wakeup``.

pgbench inserts one event a transaction over many connections while a relay with the null publisher drains, once
polling and once woken by the extension's trigger; a fresh table each time, in pairs that change places. Printed are the
writers' transactions a second, and the median of the pairs' ratios.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
from dataclasses import asdict
from pathlib import Path

from benchmarks.measured import Machine
from benchmarks.process import RelayProcess
from benchmarks.servers import Servers
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName

_SCRIPT = r"""
\set key random(1, 1000)
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload)
VALUES (gen_random_uuid(), 'bench', 'key-' || :key, decode(repeat('ab', 512), 'hex'));
"""
_PACE = re.compile(r"tps = ([\d.]+)")


def _writers(servers: Servers, options: argparse.Namespace, *, wake_up: bool) -> float:
    """Transactions a second of the writers, connecting not counted."""
    url = servers.fresh_table()
    if wake_up:
        add_extension(url, TableName(), "wake-up")
    script = servers.postgres.folder / "insert.sql"
    script.write_text(_SCRIPT, encoding="utf-8")
    command: list[str | Path] = [servers.postgres.bin / "pgbench", "-n", "-f", script, "-T", str(options.seconds)]
    command += ["-c", str(options.clients), "-j", "2", url]
    env = {"STORAGE_URL": url, "PUBLISHER_TYPE": "null", "RELAY_ID": "benchmark", "WAKE_UP": str(wake_up).lower()}
    with RelayProcess(env):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=options.seconds + 60)
    servers.drop_table(url)
    match = _PACE.search(done.stdout)
    if match is None:
        raise RuntimeError(f"pgbench printed no pace: {done.stdout}")
    return float(match[1])


def main() -> None:
    """Measure the pairs, print them, and write JSON with --json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab.wakeup", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs (default 5)")
    parser.add_argument("--clients", type=int, default=16, help="connections that write (default 16)")
    parser.add_argument("--seconds", type=int, default=10, help="length of each run (default 10)")
    parser.add_argument("--json", type=Path, help="write every run to this file")
    options = parser.parse_args()
    pairs: list[dict[str, float]] = []
    with Servers([]) as servers:
        for number in range(options.pairs):
            order = (False, True) if number % 2 == 0 else (True, False)
            paces = {wake_up: _writers(servers, options, wake_up=wake_up) for wake_up in order}
            pairs.append({"polling": paces[False], "woken": paces[True], "ratio": paces[True] / paces[False]})
    print("| polling tx/s | woken tx/s | ratio |\n|---|---|---|")
    for pair in pairs:
        print(f"| {pair['polling']:,.0f} | {pair['woken']:,.0f} | {pair['ratio']:.2f} |")
    ratio = statistics.median(pair["ratio"] for pair in pairs)
    print(f"median of the ratios {ratio:.2f}")
    if options.json:
        machine = asdict(Machine.this(clients=options.clients, seconds=options.seconds))
        options.json.write_text(json.dumps({"machine": machine, "pairs": pairs}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
