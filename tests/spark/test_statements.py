"""The statements under ``sql/spark`` and the names that are put into them."""

from __future__ import annotations

import re
from pathlib import PurePath

import pytest

from relay.postgres.sql import TableName, load_sql, sql_files, statement_names
from relay.spark.statements import SparkStatements

FILES = [PurePath(path).stem for path in sql_files("spark")]
STATEMENTS = [f"{file}:{name}" for file in FILES for name in statement_names(f"spark/{file}")]
QUERIES = [path for path in STATEMENTS if path.partition(":")[0] not in ("read", "snapshots", "setup", "grants")]
ODD = SparkStatements(TableName('out"box', "Own %"), "Spark's")


@pytest.mark.parametrize("path", STATEMENTS)
def test_every_statement_says_what_it_does(path: str) -> None:
    assert load_sql(f"spark/{path}").startswith("-- ")


@pytest.mark.parametrize("path", QUERIES)
def test_every_name_is_replaced_and_quoted(path: str) -> None:
    text = ODD.query(path, stage="stage_ff")
    assert not re.search(r"\b(openoutbox_events|stage_00|spark_role)\b|(?<!pg_temp\.)\bopenoutbox_spark\b", text)
    own = '"Own %%"."out""box"' if "%(" in text else '"Own %"."out""box"'
    for name, quoted in (("openoutbox_events", own), ("stage_00", '"stage_ff"')):
        assert (quoted in text) == bool(re.search(rf"\b{name}\b", load_sql(f"spark/{path}")))


def test_setup_and_grants_name_schema_and_role() -> None:
    assert len(ODD.setup()) == 8
    assert all('"Spark\'s"' in text for text in ODD.setup())
    assert [len(ODD.grants("the role", purpose)) for purpose in ("write", "archive", "replay")] == [3, 2, 4]
    assert all('TO "the role"' in text for text in ODD.grants("the role"))
