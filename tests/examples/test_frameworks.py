"""The examples of frameworks and drivers: each writes its orders with their events, or none; the outbox shows it."""

from __future__ import annotations

import json
import re
import uuid

import httpx
import pytest

from relay.localservers.process import accepts, free_port
from relay.outbox.migrate import plan
from relay.postgres.sql import TableName
from tests.examples.running import FOLDER, finished, prints, running
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import Database
from tests.support.waiting import wait_until

DJANGO = {"DJANGO_SETTINGS_MODULE": "examples.django_shop.settings", "PYTHONWARNINGS": "error"}
MANAGE = """
import sys
import django
from django.core.management import call_command

django.setup()
for command in sys.argv[1:]:
    call_command(*command.split())
"""
ALEMBIC = ("-m", "alembic", "--config", str(FOLDER / "alembic_shop/alembic.ini"))


def announced(database: Database) -> list[tuple[str, str, int]]:
    """Type, key and amount of every event, sorted."""
    rows = database.run("SELECT event_type, partition_key, payload FROM openoutbox_events")
    events = [(kind, key, json.loads(payload)) for kind, key, payload in rows]
    orders = {str(order_id) for (order_id,) in database.run("SELECT id FROM orders")}
    assert {body["order_id"] for _, _, body in events} == orders
    return sorted((kind, key, body["amount"]) for kind, key, body in events)


@pytest.mark.parametrize("program", ["app_sqlalchemy.py", "app_asyncpg.py"])
def test_a_file_of_orders_goes_in_with_its_events_or_not_at_all(outbox: Outbox, program: str) -> None:
    own = {"DATABASE_URL": outbox.url, "TOPIC": "shop.order"}
    imported = finished(str(FOLDER / program), given="customer,amount\nada,30\nbob,20\n", **own)
    assert imported.returncode == 0, imported.stderr
    prints(str(FOLDER / program), imported.stdout)
    refused = finished(str(FOLDER / program), given="customer,amount\nada,1000\nbob,-1\n", **own)
    assert refused.returncode == 1
    assert "CheckViolation" in refused.stderr
    assert announced(outbox.database) == [("shop.order", "ada", 30), ("shop.order", "bob", 20)]


def test_alembic_makes_the_relays_table_and_drops_it(database: Database) -> None:
    done = finished(*ALEMBIC, "upgrade", "head", given="", DATABASE_URL=database.url)
    assert done.returncode == 0, done.stderr
    assert plan(database.url, TableName()).up_to_date
    done = finished(*ALEMBIC, "downgrade", "base", given="", DATABASE_URL=database.url)
    assert done.returncode == 0, done.stderr
    assert database.run("SELECT to_regclass('openoutbox_events')") == [(None,)]


def test_alembic_prints_the_sql_too(database: Database) -> None:
    done = finished(*ALEMBIC, "upgrade", "head", "--sql", given="", DATABASE_URL=database.url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("CREATE INDEX") == 6
    database.run(done.stdout)
    assert plan(database.url, TableName()).up_to_date


def test_django_empties_the_outbox_between_tests(database: Database) -> None:
    done = finished("-m", "django", "test", "examples.django_shop.tests", given="", DATABASE_URL=database.url, **DJANGO)
    assert done.returncode == 0, done.stderr
    assert "Ran 3 tests" in done.stderr


def test_django(database: Database) -> None:
    own = {"DATABASE_URL": database.url, "TOPIC": "shop.order", **DJANGO}
    login = {"DJANGO_SUPERUSER_PASSWORD": "secret", "DJANGO_SUPERUSER_USERNAME": "ada"}
    commands = ("migrate", "makemigrations --check", "createsuperuser --noinput --email ada@shop.example")
    done = finished("-c", MANAGE, *commands, given="", **own, **login)
    assert done.returncode == 0, done.stdout + done.stderr
    assert plan(database.url, TableName()).up_to_date
    port = free_port()
    server = ("-m", "uvicorn", "examples.django_shop.urls:application", "--port", str(port), "--lifespan", "off")
    with running(*server, **own) as log, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        wait_until(lambda: log() is not None and accepts(port), what="the application")
        place_orders(client)
        rows = database.run("SELECT partition_key, payload FROM openoutbox_events")
        assert sorted((key, json.loads(payload)["amount"]) for key, payload in rows) == [("ada", 30), ("bob", 20)]
        look_at_the_outbox(client, database)


def test_django_makes_the_inbox_beside_an_outbox_that_is_there(outbox: Outbox) -> None:
    commands = ("migrate openoutbox 0001 --fake", "migrate openoutbox")
    done = finished("-c", MANAGE, *commands, given="", DATABASE_URL=outbox.url, **DJANGO)
    assert done.returncode == 0, done.stdout + done.stderr
    assert outbox.database.run("SELECT count(*) FROM openoutbox_inbox") == [(0,)]


def place_orders(client: httpx.Client) -> None:
    """Two orders, one of them asked for twice, and one that is refused after its event was written."""

    def put(order_id: uuid.UUID, customer: str, amount: int) -> tuple[int, object]:
        answered = client.put(f"/orders/{order_id}/", content=f"customer={customer}&amount={amount}")
        return answered.status_code, answered.json()

    first = uuid.uuid4()
    assert put(first, "ada", 30) == (200, {"new": True})
    assert put(first, "ada", 30) == (200, {"new": False})
    assert put(uuid.uuid4(), "bob", 20) == (200, {"new": True})
    assert put(uuid.uuid4(), "ada", 971) == (409, {"detail": "over the credit limit"})


def look_at_the_outbox(client: httpx.Client, database: Database) -> None:
    """Log in to the admin, and read its two pages of the outbox."""
    page = client.get("/admin/login/").text
    [token] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    form = {"csrfmiddlewaretoken": token, "username": "ada", "password": "secret", "next": "/admin/"}
    assert client.post("/admin/login/", data=form).status_code == 302
    listed = client.get("/admin/openoutbox/outboxevent/?status=PENDING")
    assert (listed.status_code, listed.text.count("shop.order")) == (200, 2)
    [(event_id,)] = database.run("SELECT event_id FROM openoutbox_events WHERE partition_key = 'ada'")
    shown = client.get(f"/admin/openoutbox/outboxevent/{event_id}/change/")
    assert (shown.status_code, "&quot;amount&quot;:30" in shown.text) == (200, True)
    assert client.get("/admin/openoutbox/outboxevent/add/").status_code == 403
