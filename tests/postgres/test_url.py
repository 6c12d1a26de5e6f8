"""What libpq is given for a STORAGE_URL, and what is said about a wrong one."""

from __future__ import annotations

import logging

import pytest

from relay.core.errors import ConfigError
from relay.postgres.url import connection_parameters
from tests.support.options import storage_options


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_both_schemes_and_libpq_parameters_pass(scheme: str) -> None:
    url = f"{scheme}://u%40x:p%2Fw@db:6432/shop?sslmode=verify-full&connect_timeout=3&keepalives=0"
    parameters = connection_parameters(url, "openoutbox-relay/pod-1")
    wanted = {
        "user": "u@x",
        "password": "p/w",
        "host": "db",
        "port": "6432",
        "dbname": "shop",
        "sslmode": "verify-full",
    }
    assert wanted.items() <= parameters.items()
    assert (parameters["connect_timeout"], parameters["keepalives"]) == ("3", "0")
    assert parameters["application_name"] == "openoutbox-relay/pod-1"
    assert "target_session_attrs" not in parameters
    assert "options" not in parameters


def test_a_dead_peer_is_noticed_unless_the_url_says_otherwise() -> None:
    parameters = connection_parameters("postgres://h/d", "r")
    assert (parameters["keepalives"], parameters["tcp_user_timeout"], parameters["connect_timeout"]) == (1, 15_000, 10)
    assert connection_parameters("postgres://h/d?tcp_user_timeout=1", "r")["tcp_user_timeout"] == "1"


def test_a_server_that_takes_no_copy_data_for_a_while_is_not_given_up() -> None:
    parameters = connection_parameters("postgres://h/d", "r", streams=True)
    assert parameters["keepalives"] == 1
    assert "tcp_user_timeout" not in parameters


def test_several_hosts_mean_the_one_that_takes_writes() -> None:
    url = "postgres://u@a:1,b:2/d"
    parameters = connection_parameters(url, "r")
    assert (parameters["host"], parameters["port"], parameters["target_session_attrs"]) == ("a,b", "1,2", "read-write")
    assert parameters["connect_timeout"] == 4, "a host that is gone leaves time for the others"
    assert connection_parameters(f"{url}?target_session_attrs=any", "r")["target_session_attrs"] == "any"


def test_the_name_is_cut_to_what_the_server_keeps() -> None:
    name = str(connection_parameters("postgres://h/d", "openoutbox-relay/" + "\N{SNOWMAN}" * 40)["application_name"])
    assert len(name.encode()) <= 63
    assert name.startswith("openoutbox-relay/\N{SNOWMAN}")


def test_parameters_of_pgx_are_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    url = "postgres://u:geheim@h/d?pool_max_conns=10&sslmode=disable&default_query_exec_mode=exec"
    with caplog.at_level(logging.WARNING):
        parameters = connection_parameters(url, "r")
    assert parameters["sslmode"] == "disable"
    assert not {"pool_max_conns", "default_query_exec_mode"} & set(parameters)
    assert caplog.messages == [
        "STORAGE_URL: parameters of the Go driver pgx are ignored: default_query_exec_mode, pool_max_conns"
    ]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://u:geheim@h/d", "not a PostgreSQL URL"),
        ("host=h password=geheim", "not a PostgreSQL URL"),
        ("postgres://u:geheim%zz@h/d", "invalid PostgreSQL URL"),
        ("postgres://u:geheim@[h/d", "invalid PostgreSQL URL"),
        ("postgres://u:geheim@h/d?sslmod=require", "libpq has no parameter sslmod"),
        ("postgres://u:p/geheim?geheim@h/d", "invalid PostgreSQL URL"),
        ("postgres://u:ge/heim@h:x/d?port=geheim&bad", "invalid|has no parameter"),
    ],
)
def test_a_wrong_url_is_reported_without_the_password(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        connection_parameters(url, "r", source="DELIVERY_LOG_URL")
    assert str(caught.value).startswith("DELIVERY_LOG_URL: ")
    assert "geheim" not in str(caught.value)
    assert "heim@" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("password", ["x?pool_max_conns=1", "x#y", "a:b", "a&b=c"])
def test_a_password_may_hold_what_libpq_lets_it_hold(password: str) -> None:
    parameters = connection_parameters(f"postgres://u:{password}@h/d?pool_min_conns=2&sslmode=disable", "r")
    assert (parameters["password"], parameters["sslmode"]) == (password, "disable")


def test_options_do_not_show_the_url() -> None:
    assert "geheim" not in repr(storage_options("postgres://u:geheim@h/d", "r"))
