"""What a claim cuts stays too long: the statements and ``relay.core.limits`` have the same limits."""

from __future__ import annotations

import pytest

from relay.core.limits import MOST_HEADER_BYTES, MOST_TYPE_BYTES
from relay.postgres.sql import TableName, statement


@pytest.mark.parametrize(("name", "tags"), [("claim:claim", ()), ("claim_ordered:ordered", ("oldest",))])
def test_a_claim_cuts_right_behind_the_limits(name: str, tags: tuple[str, ...]) -> None:
    sql = statement(f"outbox/{name}", TableName(), tags=tags)
    assert f"LEFT(event_type, {MOST_TYPE_BYTES + 1})" in sql
    assert f"LEFT(headers::text, {MOST_HEADER_BYTES + 1})" in sql
