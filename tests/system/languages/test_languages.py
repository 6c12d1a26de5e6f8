"""Applications in other languages store a hostile payload byte for byte, as the guide's pages tell them to.

Each runs the INSERT of a page, and a function of ``migrate --with sql-api``, with a string parameter of its driver.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from openoutbox import sql_api_statements
from relay.localservers.process import remove
from tests.support.documents import blocks
from tests.support.fixtures.outbox import Outbox
from tests.support.paths import CACHE
from tests.support.waiting import patience

pytestmark = [pytest.mark.packages, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
HOSTILE = '{"note":"say \\"hi\\"","path":"C:\\\\temp"}'
LITERAL = re.compile(r"convert_to\('.*', 'UTF8'\)")


@dataclass(frozen=True, slots=True)
class Language:
    """A program of this folder, its driver, and the tools that fetch the driver and run the program."""

    tools: tuple[str, ...]
    driver: str
    fetch: tuple[str, ...]
    program: str
    run: tuple[str, ...]
    parameter: str
    url: Callable[[str], str] = str


def jdbc(url: str) -> str:
    """The URL of a driver that takes the user as a parameter."""
    parts = urlsplit(url)
    return (
        f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}?user={parts.username}&password={parts.password}"
    )


LANGUAGES = {
    "node": Language(
        tools=("node", "npm"),
        driver="pg-8.23.1",
        fetch=("npm install --ignore-scripts --no-audit --no-fund pg@8.23.1",),
        program="announce.mjs",
        run=("node", "announce.mjs"),
        parameter="$1",
    ),
    "java": Language(
        tools=("java", "mvn"),
        driver="pgjdbc-42.7.7",
        fetch=("mvn -q -B dependency:copy -Dartifact=org.postgresql:postgresql:42.7.7 -DoutputDirectory=jars",),
        program="Announce.java",
        run=("java", "-cp", "jars/*", "Announce.java"),
        parameter="?",
        url=jdbc,
    ),
    "go": Language(
        tools=("go",),
        driver="pgx-5.7.6",
        fetch=("go mod init announce", "go get github.com/jackc/pgx/v5@v5.7.6"),
        program="announce.go",
        run=("go", "run", "announce.go"),
        parameter="$1",
    ),
}


def prepared(language: Language) -> Path:
    """The folder with driver and program. The driver is fetched once for a checkout; skips where it cannot be."""
    for tool in language.tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    CACHE.mkdir(exist_ok=True)
    folder = CACHE / language.driver
    with (CACHE / "languages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            unfinished = folder.with_suffix(".unfinished")
            remove(unfinished)
            unfinished.mkdir()
            for command in language.fetch:
                done = run(command.split(), unfinished)
                if done.returncode:
                    pytest.skip(f"{command}: {(done.stdout + done.stderr)[-2000:]}")
            unfinished.rename(folder)
        shutil.copy(HERE / language.program, folder)
    return folder


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    environment = os.environ | {"MAVEN_OPTS": f"-Dmaven.repo.local={CACHE}/maven", "GOFLAGS": "-mod=mod"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=patience(300), check=False
    )


def printed_insert() -> str:
    """The INSERT of the page that a newcomer reads first."""
    (block,) = [one for one in blocks("docs/guide/first-event.md") if one.language == "sql"]
    (insert,) = [one for one in block.text.split(";\n") if one.startswith("INSERT INTO openoutbox_events")]
    return insert


# Go compiles its library for half a minute of a processor where no cache is left; what the server makes of an untyped
# parameter, which node sends, and of one that the driver has typed, which Java sends, does not depend on the driver.
@pytest.mark.parametrize("name", ["node", "java", pytest.param("go", marks=pytest.mark.soak)])
def test_a_hostile_payload_is_stored_byte_for_byte(outbox: Outbox, name: str) -> None:
    language = LANGUAGES[name]
    folder = prepared(language)
    for statement in sql_api_statements():
        outbox.database.run(statement)
    insert, count = LITERAL.subn(f"convert_to({language.parameter}, 'UTF8')", printed_insert())
    assert count == 1
    call = f"SELECT openoutbox_enqueue('order.placed', {language.parameter}::json)"
    done = run([*language.run, language.url(outbox.url), HOSTILE, insert, call], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert outbox.rows("payload") == [(HOSTILE.encode(),)] * 2
