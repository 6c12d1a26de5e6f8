"""The API's OpenAPI document: no allowed request is answered by what it does not name. Its examples: test_examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from relay.console.api.document import openapi_document
from relay.console.app import build_console
from relay.inbox.table import create
from relay.outbox.extensions import add_extension
from relay.postgres.sql import DEFAULT_INBOX, TableName
from relay.settings.settings import Settings
from tests.console.stocking import stock_store
from tests.outbox.admin.filling import fill_aged
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database, drop_database

_EXAMPLES = 4
HOST = {"Host": "127.0.0.1:8090"}


@pytest.fixture(scope="module")
def app(postgres: str) -> Iterator[Any]:
    """The console on an outbox with events of each status."""
    database = create_database(postgres)
    outbox = Outbox.create(database)
    for extension in ("console", "pause", "fleet", "series"):
        add_extension(outbox.owner_url, TableName(), extension)
    for status in ("PENDING", "DELIVERED", "DEAD"):
        fill_aged(outbox, status, 20)
    stock_store(outbox.url)
    create(outbox.owner_url, TableName(DEFAULT_INBOX), ["dead-letters"])
    yield build_console(Settings.from_env({"STORAGE_URL": outbox.url, "DELIVERY_LOG_URL": "memory://"}))
    drop_database(database)


def test_the_document_is_openapi_31_with_problems(app: Any) -> None:
    document = openapi_document(app)
    assert document["openapi"] == "3.1.0"
    schemes = document["components"]["securitySchemes"]
    assert [(each["type"], each["scheme"]) for each in schemes.values()] == [("http", "bearer")]
    assert document["security"] == [{name: [] for name in schemes}, {}]
    for operations in document["paths"].values():
        for operation in operations.values():
            failures = {status: each for status, each in operation["responses"].items() if status >= "400"}
            assert {"401", "403", "422", "503"} <= failures.keys()
            assert all(list(each["content"]) == ["application/problem+json"] for each in failures.values())


def test_no_allowed_request_is_answered_by_what_the_document_does_not_name(app: Any) -> None:
    import schemathesis  # noqa: PLC0415 - a second for each process that collects it

    schema: Any = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app, headers=HOST)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == 39
    for operation in operations:
        check_operation(operation)


def check_operation(operation: Any) -> None:
    from schemathesis.specs.openapi import checks  # noqa: PLC0415 - as above

    # A schema cannot express a cursor, a new key or what a status allows; its number is text in a query string.
    excluded = [checks.positive_data_acceptance, checks.negative_data_rejection]

    @settings(
        max_examples=_EXAMPLES,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=operation.as_strategy())
    def call(case: Any) -> None:
        case.call_and_validate(headers=HOST, excluded_checks=excluded)

    call()
