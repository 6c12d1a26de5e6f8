"""The example of a Databricks notebook, cell by cell, in a session of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from tests.support.fixtures.outbox import Outbox
from tests.support.paths import ROOT


@dataclass(frozen=True)
class Secrets:
    """``dbutils.secrets`` of a notebook."""

    url: str

    def get(self, scope: str, key: str) -> str:
        """The one secret."""
        assert (scope, key) == ("outbox", "url")
        return self.url


def test_the_cells_write_a_table(spark: SparkSession, outbox: Outbox, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "SELECT id AS o_orderkey, id % 3 AS o_custkey, 'O' AS o_orderstatus FROM range(10)"
    spark.sql(rows).createOrReplaceTempView("tpch_orders")
    text = (ROOT / "deploy/spark/databricks_notebook.py").read_text(encoding="utf-8")
    first, *cells = text.replace("samples.tpch.orders", "tpch_orders").split("# COMMAND ----------")
    assert first.startswith("# Databricks notebook source\n")
    names = {"spark": spark, "dbutils": SimpleNamespace(secrets=Secrets(outbox.url))}
    for cell in cells:
        exec(cell, names)
    assert capsys.readouterr().out.startswith("RunSummary(state='committed', rows=10, new=10, ")
    keys = outbox.rows("partition_key")
    assert sorted(key for (key,) in keys) == ["0", "0", "0", "0", "1", "1", "1", "2", "2", "2"]
