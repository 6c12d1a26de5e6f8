"""The statements under ``sql/spark`` and the names that are put into them."""

from __future__ import annotations

import re

import pytest

from relay.postgres.sql import TableName, load_sql, sql_root
from relay.spark.statements import SparkStatements

FILES = sorted(str(path.relative_to(sql_root())) for path in (sql_root() / "spark").rglob("*.sql"))
ODD = SparkStatements(TableName('out"box', "Own %"), "Spark's")


@pytest.mark.parametrize("path", FILES)
def test_every_file_says_what_it_does(path: str) -> None:
    assert load_sql(path).startswith("-- ")


@pytest.mark.parametrize("path", [path for path in FILES if "/queries/" in path])
def test_every_name_is_replaced_and_quoted(path: str) -> None:
    text = ODD.query(path.rpartition("/")[2].removesuffix(".sql"), stage="stage_ff")
    assert not re.search(r"\b(openoutbox_events|stage_00|spark_role)\b|(?<!pg_temp\.)\bopenoutbox_spark\b", text)
    for name, quoted in (("openoutbox_events", '"Own %%"."out""box"'), ("stage_00", '"stage_ff"')):
        assert (quoted in text) == bool(re.search(rf"\b{name}\b", load_sql(path)))


def test_setup_and_grants_name_schema_and_role() -> None:
    assert all('"Spark\'s"' in text for text in ODD.setup())
    assert all('TO "the role"' in text for text in ODD.grants("the role"))
