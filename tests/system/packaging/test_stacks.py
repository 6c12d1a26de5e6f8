"""A newcomer follows the guide with one stack: installs, announces, tests, and consumes the delivered event once.

The programs are those of the pages, in an environment with what the page says to install and pytest. psql stands for
any other language: it has the statements of the pages and no client.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis
import sqlalchemy

from openoutbox import Message
from relay.inbox.table import create
from relay.postgres.sql import DEFAULT_INBOX, TableName
from tests.support.documents import blocks
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox
from tests.support.paths import ROOT
from tests.support.psql import psql
from tests.support.waiting import wait_until
from tests.system.packaging.test_client import UV, run

pytestmark = [pytest.mark.packages, pytest.mark.timeout(600)]

URL = "postgres://user:secret@localhost:5432/app"
FIRST, CONSUMING, TESTING = (f"docs/guide/{name}.md" for name in ("first-event", "inbox", "testing"))
PAYLOAD = r'{"account": 7, "memo": "5\" pipe, C:\\tmp"}'
CHANGE = "UPDATE accounts SET balance = balance - 10 WHERE id = 7"

PSYCOPG = """
for _ in range(2):
    with psycopg.connect(URL, autocommit=True) as connection:
        handle(connection, MESSAGE)
"""
ASYNCPG = """
import asyncio, asyncpg
from openoutbox import inbox

async def handle(event_id):
    connection = await asyncpg.connect(URL)
    LINE
        if first:
            await connection.execute(CHANGE)
    await connection.close()

for _ in range(2):
    asyncio.run(handle(MESSAGE.event_id))
"""
SQLALCHEMY = """
from openoutbox import inbox
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

def handle(session, event_id):
    LINE
        if first:
            session.execute(text(CHANGE))

for _ in range(2):
    with Session(create_engine(URL.replace("postgresql:", "postgresql+psycopg:"))) as session:
        handle(session, MESSAGE.event_id)
"""
DJANGO = """
from django.db import connection, transaction
from openoutbox import inbox

def handle(event_id):
    LINE
        if first:
            with connection.cursor() as cursor:
                cursor.execute(CHANGE)

for _ in range(2):
    handle(MESSAGE.event_id)
"""
PSQL = """
BEGIN;
LINE;
SELECT :ROW_COUNT = 1 AS first \\gset
\\if :first
    CHANGE;
\\endif
COMMIT;
"""
SETTINGS = """
from django.conf import settings

DATABASE = {"ENGINE": "django.db.backends.postgresql", **NAMES}
settings.configure(DATABASES={"default": DATABASE}, INSTALLED_APPS=["openoutbox.django"])
"""
TEST_DJANGO = """
import sys

import django
from django.test.utils import get_runner

django.setup()
sys.stderr = sys.stdout
sys.exit(get_runner(settings)().run_tests(["test_page"]))
"""


@dataclass(frozen=True, slots=True)
class Stack:
    """Its rows and programs in the guide."""

    install: str
    """The row of the first event's table."""
    announce: int
    consume: str
    row: str = ""
    """The row of the table of consuming."""
    check: int = 1


STACKS = {
    "psycopg": Stack("psycopg", 1, PSYCOPG),
    "asyncpg": Stack("asyncpg", 2, ASYNCPG, "psycopg `AsyncConnection`, asyncpg", 2),
    "sqlalchemy": Stack("SQLAlchemy, FastAPI", 3, SQLALCHEMY, "SQLAlchemy"),
    "django": Stack("Django", 4, DJANGO, "Django", 3),
}


def program(document: str, number: int) -> str:
    """The text of one of the page's Python programs."""
    (text,) = [one.text for one in blocks(document) if (one.language, one.number) == ("python", number)]
    return text


def cell(document: str, row: str) -> str:
    """The first code in the second column of a row."""
    (code,) = re.findall(rf"^\| {re.escape(row)} \| `([^`]+)`", (ROOT / document).read_text("utf-8"), re.MULTILINE)
    return str(code)


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Who has a folder with an environment, and a database."""

    stack: Stack
    folder: Path
    url: str

    def install(self) -> None:
        """What the page says, by uv in place of pip: it caches what the tests before it fetched."""
        packages = (
            cell(FIRST, self.stack.install).removeprefix("pip install /path/to/checkout/client ").replace("'", "")
        )
        run(UV, "venv", "--quiet", "--python", sys.executable, "venv", cwd=self.folder)
        python = self.folder / "venv/bin/python"
        wanted = [str(ROOT / "client"), *packages.split(), "pytest"]
        run(UV, "pip", "install", "--quiet", "--python", python, *wanted, cwd=self.folder, seconds=200)

    def python(self, text: str, name: str = "program.py", *command: str) -> str:
        """Run a program of a page with the newcomer's own address in it; what it printed."""
        settings = SETTINGS.replace("NAMES", repr(self._names())) if "django" in text else ""
        text = text.replace(URL.replace("postgres:", "postgresql+psycopg:"), self._with_driver()).replace(URL, self.url)
        (self.folder / name).write_text(settings * (name == "program.py") + text, encoding="utf-8")
        return run(self.folder / "venv/bin/python", *(command or (name,)), cwd=self.folder, seconds=60)

    def checks(self) -> str:
        """What the page of testing says, run by the stack's own runner."""
        text = program(TESTING, self.stack.check)
        if "django" in text:
            (self.folder / "test_page.py").write_text(text, encoding="utf-8")
            return self.python(TEST_DJANGO)
        if self.stack.install.startswith("SQLAlchemy"):
            text = text.replace("import psycopg\n", "import sqlalchemy\n")
            text = text.replace(
                f'psycopg.connect("{URL}")', f'sqlalchemy.create_engine("{self._with_driver()}").connect()'
            )
        return self.python(text, "test_page.py", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py")

    def _with_driver(self) -> str:
        return self.url.replace("postgresql:", "postgresql+psycopg:")

    def _names(self) -> dict[str, object]:
        names = sqlalchemy.make_url(self.url).translate_connect_args()
        return {
            {"database": "NAME", "username": "USER"}.get(name, name.upper()): value for name, value in names.items()
        }


@pytest.mark.parametrize("name", STACKS)
def test_from_installing_to_an_event_that_is_tested_and_consumed(
    name: str, outbox: Outbox, redis_url: str, daemon: StartDaemon, tmp_path: Path
) -> None:
    newcomer, stack, database = Newcomer(STACKS[name], tmp_path, outbox.database.url), STACKS[name], outbox.database
    newcomer.install()
    assert re.search("^1 passed|^Ran 1 test", newcomer.checks(), re.MULTILINE)

    stream = f"debited.{uuid4().hex}"
    database.run("CREATE TABLE accounts AS SELECT 7 AS id, 100 AS balance")
    debit = "\ndebit(7, 10)\n" if stack.announce > 2 else ""
    newcomer.python(program(FIRST, stack.announce).replace("account.debited", stream) + debit)
    daemon(PUBLISHER_TYPE="redis", PUBLISHER_URL=redis_url).wait_ready()
    message = Message.from_redis(stream, arrived(redis_url, stream))
    assert (message.event_type, message.partition_key) == (stream, "7")

    create(database.url, TableName.parse(DEFAULT_INBOX))
    line = cell(CONSUMING, stack.row) if stack.row else ""
    consume = program(CONSUMING, 1) + stack.consume if not line else stack.consume.replace("LINE", line)
    made = f"Message({message.event_id!r}, {stream!r}, '7', {message.payload!r}, {{}})"
    known = f"from openoutbox import Message\nURL, CHANGE, MESSAGE = {newcomer.url!r}, {CHANGE!r}, {made}\n"
    newcomer.python(known + consume)
    assert database.run("SELECT balance FROM accounts") == [(80,)]  # once announced, once consumed in two deliveries


def test_another_language_from_the_pages_statements_to_an_event_that_is_tested_and_consumed(
    outbox: Outbox, redis_url: str, daemon: StartDaemon
) -> None:
    url, stream = outbox.database.url, f"debited.{uuid4().hex}"
    (announce,) = [one.text for one in blocks(FIRST) if one.language == "sql"]
    announce = announce.replace("account.debited", stream)
    (look,) = re.findall(r"^`(SELECT [^`]+)`", (ROOT / TESTING).read_text("utf-8"), re.MULTILINE)
    seen = psql(url, script=announce.replace("COMMIT;", f"{look};\nCOMMIT;"))
    assert seen == f"{stream}||{PAYLOAD}\n"

    daemon(PUBLISHER_TYPE="redis", PUBLISHER_URL=redis_url).wait_ready()
    message = Message.from_redis(stream, arrived(redis_url, stream))
    assert message.payload.decode() == PAYLOAD

    create(url, TableName.parse(DEFAULT_INBOX))
    line = cell(CONSUMING, "another language").replace("$1", f"'{message.event_id}'")
    for _ in range(2):
        psql(url, script=PSQL.replace("LINE", line).replace("CHANGE", CHANGE))
    assert outbox.database.run("SELECT balance FROM accounts") == [(80,)]


def arrived(url: str, stream: str) -> Any:
    """The fields of the one message."""
    with redis.Redis.from_url(url) as client:
        wait_until(lambda: client.xlen(stream) == 1, 30, "the message")
        ((_, fields),) = client.xrange(stream)
    return fields
