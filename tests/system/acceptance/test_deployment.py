"""docs/operate/deployment.md, followed from first to last command, as far as a machine without a cluster can."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import psycopg
import pytest
import yaml

from openoutbox import NewEvent, enqueue
from tests.deploy.jobs import DEPLOY
from tests.support.documents import blocks
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, as_user, give_rights
from tests.support.machine import Machine
from tests.support.paths import ROOT
from tests.support.psql import WITH_PSQL
from tests.support.servers.promtool import promtool

[_, ROLL_BACK] = blocks("docs/operate/upgrades.md")
BLOCKS = {f"{block.language} {block.number}": block for block in blocks("docs/operate/deployment.md")}
USERS = {"orders": "writer", "relay": "relay", "pruner": "pruner", "console": "console"}


def url_in_document(user: str) -> str:
    return f"postgres://{user}:secret@localhost:5432/app"


@pytest.fixture
def machine(outbox: Outbox, tmp_path: Path) -> Machine:
    """A machine whose operator has written the URLs into files; the users are the test server's."""
    with outbox.database.connect() as connection:
        give_rights(connection)
    urls = {"relay-url": outbox.relay_url, "prune-url": outbox.pruner_url, "migrate-url": outbox.owner_url}
    for name, url in urls.items():
        (tmp_path / name).write_text(f"{url}\n")
    return Machine(tmp_path)


def old_event(outbox: Outbox) -> None:
    """An event that prune deletes."""
    outbox.fill("t", 1)
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now() - interval '60 days'")


def test_the_roles_are_granted_and_examined(outbox: Outbox, machine: Machine) -> None:
    outbox.database.run("DROP OWNED BY openoutbox_writer, openoutbox_relay, openoutbox_pruner, openoutbox_reader")
    machine.follow(BLOCKS["sh 1"].text, STORAGE_URL=outbox.url, PATH=WITH_PSQL)
    with psycopg.connect(outbox.writer_url) as connection:
        enqueue(connection, NewEvent("t", {}))
    machine.follow("relay-cli list", STORAGE_URL=outbox.reader_url)
    granted = re.findall(r"GRANT (\w+) TO (\w+);", BLOCKS["sql 1"].text)
    assert granted == [(f"openoutbox_{role}", user) for user, role in USERS.items()]
    own = {url_in_document(user): as_user(outbox.url, f"test_{USERS[user]}") for user in ("relay", "pruner")}
    machine.follow(BLOCKS["sh 2"].adapted(own).text, PUBLISHER_TYPE="stdout")
    assert "test_pruner has the rights to prune" in machine.answer()


def test_the_users_of_the_document_can_be_created(outbox: Outbox) -> None:
    suffix = outbox.database.name
    text = re.sub(rf"\b({'|'.join([*USERS, 'migrator'])})\b(?= LOGIN|;)", rf"\1_{suffix}", BLOCKS["sql 1"].text)
    with outbox.database.connect(autocommit=False) as connection:
        connection.execute(text.encode())
        connection.rollback()


@pytest.mark.kafka
@pytest.mark.packages
def test_kubernetes_helm_and_back(outbox: Outbox, machine: Machine, kafka: str) -> None:
    (machine.folder / "publisher-url").write_text(f"{kafka}\n")
    outbox.database.run("DROP INDEX idx_openoutbox_prune_dead")
    old_event(outbox)
    for number in (5, 6, 7):
        machine.follow(BLOCKS[f"sh {number}"].text)
    assert outbox.database.run("SELECT to_regclass('idx_openoutbox_prune_dead') IS NOT NULL") == [(True,)]
    assert "broker: kafka: connected and authenticated" in machine.answer()
    assert outbox.counts() == {}
    (machine.folder / "values.yaml").write_text(BLOCKS[" 1"].text)
    machine.follow(BLOCKS["sh 8"].text)
    deployment = machine.object("deployment", "openoutbox-relay")
    assert deployment["spec"]["replicas"] == yaml.safe_load(BLOCKS[" 1"].text)["replicas"]
    machine.follow(ROLL_BACK.text)


def test_systemd_prunes_with_its_own_credentials(outbox: Outbox, machine: Machine) -> None:
    (machine.folder / "publisher-url").write_text("localhost:9092\n")
    old_event(outbox)
    text = BLOCKS["sh 10"].text
    venv = "python3 -m venv /opt/relay\n/opt/relay/bin/pip install ./client '.[kafka]'\n"
    assert text.startswith(venv)  # tests/system/packaging installs the wheel
    text = text.removeprefix(venv)
    for name in ("relay-url", "publisher-url", "prune-url"):
        text = text.replace(f" {name} ", f" {machine.folder / name} ")
    text = text.replace("/etc/", f"{machine.folder}/etc/")
    (machine.folder / "etc" / "systemd" / "system").mkdir(parents=True)
    machine.follow(text)
    assert "deleted 1 event " in machine.answer()
    assert (machine.folder / "etc" / "openoutbox").stat().st_mode & 0o077 == 0


@pytest.mark.prometheus
def test_what_is_scraped_answers(machine: Machine, daemon: StartDaemon) -> None:
    relay = daemon(PUBLISHER_TYPE="null").wait_ready()
    own = {"localhost:8080": f"127.0.0.1:{relay.port}", "promtool": promtool()}
    machine.follow(BLOCKS["sh 11"].adapted(own).text)
    assert "openoutbox_relay_state" in machine.answer()


def test_the_container_is_run_as_the_image_is_tested() -> None:
    """tests/system/container runs the image with these options."""
    lines = [shlex.split(line) for line in BLOCKS["sh 3"].text.replace("\\\n", " ").splitlines()]
    for words in lines:
        assert words[:2] == ["docker", "run"]
        assert shlex.join(words).count("--read-only --cap-drop ALL --security-opt no-new-privileges") == 1
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    assert "relay" in compose["services"]
    assert BLOCKS["sh 4"].text == "docker compose -f deploy/compose.yaml up --build\n"


def test_the_readme_names_the_page_and_every_block_is_followed() -> None:
    assert "(docs/operate/deployment.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert list(BLOCKS) == [
        "sh 1",
        "sql 1",
        "sh 2",
        "sh 3",
        "sh 4",
        "sh 5",
        "sh 6",
        "sh 7",
        "sh 8",
        " 1",
        "sh 9",
        "sh 10",
        "sh 11",
    ]
