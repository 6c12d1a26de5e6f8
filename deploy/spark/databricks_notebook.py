# Databricks notebook source
# ruff: noqa: D100, F821, T201 - a notebook: spark and dbutils are its own
# An example: a table's rows into the outbox. The cluster has Spark 4.1 or newer; its init script installs both wheels
# (pip install --no-deps openoutbox_client-….whl openoutbox_relay-….whl) and psycopg[binary]; Databricks has PyArrow,
# NumPy and pandas. The secret has the database's URL, which the executors must reach.

# COMMAND ----------

import uuid

from relay.spark import OutboxDataSource, show_run

spark.dataSource.register(OutboxDataSource)
url = dbutils.secrets.get("outbox", "url")

# COMMAND ----------

run_id = str(uuid.uuid4())
orders = spark.table("samples.tpch.orders")
events = orders.selectExpr(
    "'orders.created' AS event_type", "struct(*) AS payload", "CAST(o_custkey AS STRING) AS partition_key", "o_orderkey"
)
writer = events.write.format("openoutbox").option("url", url).option("idColumns", "o_orderkey").option("runId", run_id)
writer.mode("append").save()

# COMMAND ----------

print(show_run(spark, url, run_id))  # also on Spark's pages, as the description of a query of one row
