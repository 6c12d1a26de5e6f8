"""Parquet files of the jobs.

A task holds the row group that it writes in memory, beside the rows that it reads and sorts. With Parquet's own 128 MiB
a few tasks at a time exceed the 1 GiB that Spark gives a driver or an executor by default, so row groups are smaller
here.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, DataFrameWriter

ROW_GROUP_BYTES: Final = 16 << 20


def materialize(frame: DataFrame, path: str) -> DataFrame:
    """Write the frame to ``path``, replacing earlier files. Returns the files' frame, which is not computed again."""
    parquet_writer(frame).mode("overwrite").parquet(path)
    return frame.sparkSession.read.schema(frame.schema).parquet(path)


def parquet_writer(frame: DataFrame) -> DataFrameWriter:
    """A writer of the frame with small row groups, for ``parquet(path)``."""
    return frame.write.option("parquet.block.size", str(ROW_GROUP_BYTES))
