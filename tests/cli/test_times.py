"""What an operator reads in a terminal has its times in the style of the API, in sentences, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.cli.running import call_cli
from tests.outbox.admin.filling import fill_aged
from tests.support.fixtures.outbox import Outbox, Row, give_rights
from tests.support.times import other_times

pytestmark = pytest.mark.postgres


def test_every_command_writes_its_times_in_one_style(outbox: Outbox, tmp_path: Path) -> None:
    for extension in ("console", "pause", "fleet", "series"):
        add_extension(outbox.owner_url, TableName(), extension)
    with outbox.database.connect() as connection:
        give_rights(connection)
    [held] = outbox.insert([Row("held")])
    fill_aged(outbox, "DEAD", 3)
    url = {"STORAGE_URL": outbox.owner_url}
    pause = call_cli(tmp_path, "pause", "--type", "held", "--for", "2h", "--by", "ann", **url)
    said = {"pause": pause.stdout}
    for command in ("stats", "list", f"show {held}", "causes", "check", "fleet", "pause --list"):
        for form in ((), ("--json",)):
            done = call_cli(tmp_path, *command.split(), *form, **url)
            said[" ".join((command, *form))] = done.stdout + done.stderr

    assert {command: others for command, text in said.items() if (others := other_times(text))} == {}
    for command in ("pause", "list", f"show {held}", "causes", "causes --json", "pause --list"):
        assert re.search(r"\d\dT\d\d:.*Z", said[command]), command
