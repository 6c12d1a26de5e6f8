"""The page of the first event, taken from its text and done: set up, insert in SQL and in Python, messages arrive.

The README's commands are the same, and its figures are those of the documents that it links.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Message

from tests.support.documents import blocks, run_python, run_shell, shell
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.postgres import Database
from tests.support.messages import kafka_key
from tests.support.waiting import wait_until


def page(own: dict[str, str]) -> tuple[str, str, str, str]:
    """What a reader with psycopg does, in order, with the reader's own addresses and names in place of the page's."""
    install, insert, announce, *_, look = blocks("docs/guide/first-event.md")
    texts = [block.text for block in (install, insert, announce, look)]
    for theirs, ours in own.items():
        texts = [text.replace(theirs, ours) for text in texts]
    return texts[0], texts[1], texts[2], texts[3]


def test_your_own_first_event(
    database: Database, kafka: str, topic: MakeTopic, consume: Callable[..., list[Message]], tmp_path: Path
) -> None:
    name, log = topic(), tmp_path / "log"
    own = {
        "postgres://user:secret@localhost:5432/app": database.url,
        "localhost:9092": kafka,
        "account.debited": name,
    }
    set_up, insert, announce, look = page(own)
    environment, install, commands = set_up.split("\n", 2)
    assert (environment, install) == (
        "python3 -m venv .venv && . .venv/bin/activate",
        "pip install ./client '.[kafka]'",
    )
    with shell(commands, tmp_path, log) as process:
        wait_until(lambda: process.poll() is not None or "broker_reachable" in log.read_text(), what="the relay")
        assert process.poll() is None, log.read_text()
        database.run(insert)
        run_python(announce, tmp_path)
        messages = consume(name, 2)
        wait_until(
            lambda: database.run("SELECT DISTINCT status FROM openoutbox_events") == [("DELIVERED",)], 20, "settling"
        )
    variables = {"STORAGE_URL": database.url, "PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": kafka}
    assert run_shell(look, tmp_path, **variables).count("\tDELIVERED\t") == 2
    by_key = {kafka_key(message): json.loads(message.value() or b"") for message in messages}
    assert by_key == {None: {"account": 7, "memo": '5" pipe, C:\\tmp'}, "7": {"account": 7, "amount": 10}}
    assert database.run("SELECT balance FROM accounts") == [(80,)]
