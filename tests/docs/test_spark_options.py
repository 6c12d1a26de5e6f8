"""docs/reference/spark.md: its tables list the options that each format knows, with the defaults that it uses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pytest

from relay.core.errors import ConfigError
from relay.spark.read.read_options import delivery_options, event_options, outbox_options
from relay.spark.write.write_options import write_options
from tests.support.paths import ROOT

TEXT: Final = (ROOT / "docs/reference/spark.md").read_text(encoding="utf-8")
URL: Final = {"url": "postgresql://app@localhost:5432/app"}
PARSERS: Final[dict[str, Callable[[Mapping[str, str]], Any]]] = {
    "Writing": write_options,
    "openoutbox": outbox_options,
    "openoutbox_deliverylog": delivery_options,
    "openoutbox_eventstore": event_options,
}
NO_DEFAULTS: Final = ("required", "all", "all there is", "")
"""What the column says where leaving the option out is no value of its own."""


class Row(NamedTuple):
    names: list[str]
    default: str
    meaning: str

    def applies_to(self, format_: str) -> bool:
        only = re.match(r"of `(\w+)`", self.meaning)
        without = re.search(r"\bnot `(\w+)`", self.meaning)
        return (only is None or only[1] == format_) and (without is None or without[1] != format_)


def rows_of(section: str) -> list[Row]:
    lines = TEXT.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    return [Row(re.findall(r"`(\w+)`", name), default.strip("`"), meaning) for name, default, meaning in cells]


def documented(format_: str) -> list[Row]:
    if format_ == "Writing":
        return rows_of("Writing")
    own = rows_of("The event store") if format_ == "openoutbox_eventstore" else []
    return [row for row in (*rows_of("Reading"), *own) if row.applies_to(format_)]


@pytest.mark.parametrize("format_", PARSERS)
def test_the_options_are_those_that_the_format_knows(format_: str) -> None:
    with pytest.raises(ConfigError) as refused:
        PARSERS[format_]({**URL, "misspelt": "1"})
    known = str(refused.value).rpartition("known are ")[2].split(", ")
    assert {name for row in documented(format_) for name in row.names} == set(known)


@pytest.mark.parametrize("format_", PARSERS)
def test_each_default_is_the_value_that_the_format_uses(format_: str) -> None:
    parse = PARSERS[format_]
    defaults = [row for row in documented(format_) if row.default not in NO_DEFAULTS]
    assert len(defaults) > 2
    for row in defaults:
        assert parse({**URL, row.names[0]: row.default}) == parse(URL), row
