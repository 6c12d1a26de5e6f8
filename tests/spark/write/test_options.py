"""The options of ``format("openoutbox")``."""

from __future__ import annotations

import pickle

import pytest

from relay.core.errors import ConfigError
from relay.postgres.url import check_url
from relay.spark.read.read_options import outbox_options
from relay.spark.write.write_options import Commit, WriteOptions, write_options

URL = "postgresql://user:s3cret@host/db"


def test_defaults() -> None:
    options = write_options({"url": URL})
    assert options == WriteOptions(url=URL)
    assert (options.commit, options.max_connections, str(options.table)) == (Commit.ATOMIC, 8, "openoutbox_events")


def test_options_know_no_case_and_survive_pickling() -> None:
    options = write_options(
        {"URL": URL, "IDCOLUMNS": "a, b", "Commit": "Partition", "NUMPARTITIONS": "3", "stagingMaxAge": "90m"}
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
        ("numPartitions", "0"),
        ("numPartitions", "many"),
        ("batchsize", "-1"),
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


def test_the_names_of_an_earlier_release_work_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    earlier = {"maxConnections": "3", "batchrows": "7", "job": "nightly", "queryId": "query"}
    options = write_options({"url": URL, **earlier})
    assert (options.max_connections, options.batch_rows, options.job, options.query_id) == (3, 7, "nightly", "query")
    assert [message.partition(";")[0] for message in caplog.messages] == [
        "option maxConnections: set numPartitions instead",
        "option batchRows: set batchsize instead",
        "option job: set txnAppId instead",
        "option queryId: set txnAppId instead",
    ]
    with pytest.raises(ConfigError, match="options batchRows and batchsize: are one, and have two values"):
        write_options({"url": URL, "batchRows": "7", "batchsize": "8"})


def test_a_table_has_two_names_as_in_sparks_own_sources(caplog: pytest.LogCaptureFixture) -> None:
    assert write_options({"url": URL, "dbtable": "a.b"}) == write_options({"url": URL, "table": "a.b"})
    assert outbox_options({"url": URL, "dbtable": "a.b"}) == outbox_options({"url": URL, "table": "a.b"})
    assert caplog.messages == []
    with pytest.raises(ConfigError, match="options dbtable and table"):
        write_options({"url": URL, "dbtable": "a", "table": "b"})


def test_a_name_alone_is_part_of_ids_and_with_a_number_a_version() -> None:
    named = write_options({"url": URL, "txnAppId": "nightly"})
    assert (named.job, named.query_id, named.txn_app_id) == ("nightly", "nightly", None)
    version = write_options({"url": URL, "txnAppId": "nightly", "txnVersion": "7"})
    assert (version.job, version.txn_app_id, version.txn_version) == (None, "nightly", 7)


def test_a_missing_url_is_named() -> None:
    with pytest.raises(ConfigError, match="option url: missing"):
        write_options({})


@pytest.mark.parametrize("url", ["mysql://user:s3cret@host/db", "postgresql://u:s3cret@host:port/%zz"])
def test_a_url_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="option url") as caught:
        check_url(url, "option url")
    assert "s3cret" not in str(caught.value)
