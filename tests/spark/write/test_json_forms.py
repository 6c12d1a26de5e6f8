"""The JSON of every type, beside that of Spark's ``to_json``, as docs/reference/spark.md has it."""

from __future__ import annotations

import json
import re

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from relay.spark.write.columns import _JSON_LEAVES
from relay.spark.write.jsontext import json_column
from tests.support.paths import ROOT

OPTIONS = "MAP('ignoreNullFields', 'false', 'timeZone', 'UTC')"


def forms() -> list[tuple[str, str, str]]:
    """Each row of the document's table: an expression, its JSON here, and that of ``to_json``."""
    table = (ROOT / "docs/reference/spark.md").read_text(encoding="utf-8").partition("| type | for example | here |")[2]
    rows = re.findall(r"^\|[^|]*\| `(.*?)` \| `(.*?)` \|(?: `(.*?)`)? \|$", table.partition("\n\n")[0], re.MULTILINE)
    return [(example, here, there or here) for example, here, there in rows]


def test_each_types_json_is_the_documented_one_and_spark_reads_it_as_the_same_value(spark: SparkSession) -> None:
    examples = forms()
    assert len(examples) == 18
    columns = ", ".join(f"{example} AS c{number}" for number, (example, *_) in enumerate(examples))
    frame = spark.sql(f"SELECT STRUCT(*) AS value FROM (SELECT {columns})")
    kind = frame.schema["value"].dataType
    assert isinstance(kind, StructType)
    leaves = {type(field.dataType) for field in kind.fields}
    missing = [leaf for leaf in _JSON_LEAVES if not any(issubclass(each, leaf) for each in leaves)]
    # Arrow has no types of bounded text.
    assert [leaf.__name__ for leaf in missing] == ["CharType", "VarcharType", "NullType"]
    ((theirs,),) = frame.selectExpr(f"to_json(value, {OPTIONS})").collect()
    (ours,) = json_column(frame.toArrow().column("value").combine_chunks()).to_pylist()

    def object_of(place: int) -> str:
        return "{" + ",".join(f'"c{number}":{form[place]}' for number, form in enumerate(examples)) + "}"

    assert ours == object_of(1)
    assert theirs == object_of(2)
    read = spark.createDataFrame([(ours, theirs)], "ours string, theirs string")
    values = read.selectExpr(
        *(f"from_json({name}, '{kind.simpleString()}') AS {name}" for name in read.columns)
    ).first()
    assert values is not None
    for name in kind.names:
        if "timestamp" not in kind[name].dataType.simpleString():
            assert str(values["ours"][name]) == str(values["theirs"][name]), name
    assert json.loads(ours)["c4"] == 1.0
