"""The options of ``format("openoutbox")``."""

from __future__ import annotations

import pickle

import pytest

from relay.core.errors import ConfigError
from relay.postgres.url import check_url
from relay.spark.write.options import Commit, WriteOptions, write_options

URL = "postgresql://user:s3cret@host/db"


def test_defaults() -> None:
    options = write_options({"url": URL})
    assert options == WriteOptions(url=URL)
    assert (options.commit, options.max_connections, str(options.table)) == (Commit.ATOMIC, 8, "openoutbox_events")


def test_options_know_no_case_and_survive_pickling() -> None:
    options = write_options(
        {"URL": URL, "IDCOLUMNS": "a, b", "Commit": "Partition", "maxconnections": "3", "stagingMaxAge": "90m"}
    )
    assert options.id_columns == ("a", "b")
    assert options.commit is Commit.PARTITION
    assert (options.max_connections, options.staging_max_age) == (3, 5400.0)
    assert pickle.loads(pickle.dumps(options)) == options


def test_the_url_is_in_no_repr() -> None:
    assert "s3cret" not in repr(write_options({"url": URL}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxConnections", "0"),
        ("maxConnections", "many"),
        ("batchRows", "-1"),
        ("commit", "never"),
        ("idColumns", "a,,b"),
        ("idColumns", "a,a"),
        ("job", ""),
        ("eventType", ""),
        ("eventType", "a\x00"),
        ("stagingMaxAge", "soon"),
        ("stagingSchema", "x" * 64),
        ("runId", "me"),
        ("queryId", ""),
    ],
)
def test_a_wrong_value_is_named_by_its_option(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name}"):
        write_options({"url": URL, name: value})


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(ConfigError, match="option batchrow, colour: not known"):
        write_options({"url": URL, "batchRow": "5", "colour": "red"})


def test_a_missing_url_is_named() -> None:
    with pytest.raises(ConfigError, match="option url: missing"):
        write_options({})


@pytest.mark.parametrize("url", ["mysql://user:s3cret@host/db", "postgresql://u:s3cret@host:port/%zz"])
def test_a_url_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="option url") as caught:
        check_url(url, "option url")
    assert "s3cret" not in str(caught.value)
