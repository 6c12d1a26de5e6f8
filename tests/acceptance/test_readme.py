"""The README's own first event, taken from its text and done: set up, insert in SQL and in Python, messages arrive."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Message

from relay.demo.process import free_port
from tests.acceptance.messages import kafka_key
from tests.fixtures.kafka import MakeTopic
from tests.fixtures.postgres import Database
from tests.integration.cli.running import environment
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

TEXT = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")

# The installed programs are tests/packaging's; here they are this checkout's.
PROGRAMS = """
set -e
relay() { exec "$PYTHON" -m relay; }
relay-cli() { "$PYTHON" -c 'from relay_cli.main import main; main()' "$@"; }
"""


def block(language: str, own: dict[str, str]) -> str:
    """The section's one block in that language, with the reader's own addresses and names in place of the README's."""
    section = TEXT.split("## Your own first event")[1].split("\n## ")[0]
    (found,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    text = str(found)
    for theirs, ours in own.items():
        text = text.replace(theirs, ours)
    return text


@contextmanager
def shell(commands: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Bash with these commands, which goes on as long as what they have started; ends with all of it."""
    env = {**environment(PYTHON=sys.executable, SERVER_PORT=f"127.0.0.1:{free_port()}"), "RELAY_ID": "readme"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", f"{PROGRAMS}{commands}\nwait"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def test_your_own_first_event(
    database: Database, kafka: str, topic: MakeTopic, consume: Callable[..., list[Message]], tmp_path: Path
) -> None:
    name, log = topic(), tmp_path / "log"
    own = {
        "postgres://user:secret@localhost:5432/app": database.url,
        "localhost:9092": kafka,
        "account.debited": name,
    }
    install, commands = block("sh", own).split("\n", 1)
    assert install == "pip install ."
    database.run("CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)")
    database.run("INSERT INTO accounts VALUES (7, 100)")
    with shell(commands, log) as process:
        wait_until(lambda: process.poll() is not None or "broker_reachable" in log.read_text(), 40, "the relay")
        assert process.poll() is None, log.read_text()
        database.run(block("sql", own))
        subprocess.run([sys.executable, "-c", block("python", own)], env=environment(), check=True, timeout=60)
        messages = consume(name, 2)
    assert sorted(str(kafka_key(message)) for message in messages) == ["7", "None"]
    assert [json.loads(message.value() or b"") for message in messages] == [{"account": 7, "amount": 10}] * 2
    assert database.run("SELECT balance FROM accounts") == [(80,)]
