"""HTTP_ENDPOINTS_FILE: which destination takes a type, and what is refused."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from relay.app.publishers import http_endpoint, options_of
from relay.core.errors import ConfigError
from relay.routing.rules import Sent, Unmatched
from relay.settings.endpoints_file import Endpoints, read_endpoints
from relay.settings.settings import Settings

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()


def table(tmp_path: Path, text: str, url: str | None = None, **variables: str) -> Endpoints:
    path = tmp_path / "endpoints.toml"
    path.write_text(text, encoding="utf-8")
    return read(str(path), url, **variables)


def read(path: str, url: str | None = None, **variables: str) -> Endpoints:
    base = {"STORAGE_URL": "postgres://h/d", "PUBLISHER_TYPE": "http", "HTTP_ENDPOINTS_FILE": path}
    if url is not None:
        base["PUBLISHER_URL"] = url
    return read_endpoints("rest", "", Settings.from_env(base | variables), http_endpoint)


def place(endpoints: Endpoints, event_type: str) -> str | None:
    match endpoints.routes.of_type(event_type):
        case Sent(via, name):
            assert name == event_type
            endpoint = http_endpoint(endpoints.destinations[via])
            return f"{endpoint.origin}{endpoint.target}"
        case decision:
            assert isinstance(decision, Unmatched)
            return None


def test_the_first_row_that_matches_takes_the_event(tmp_path: Path) -> None:
    text = f"""
        [[endpoints]]
        events = ["order.paid", "*.urgent"]
        url = "https://a.example/paid?x=1"
        secrets = "{SECRET}"
        timeout = "1m"
        rate = 5
        proxy = "http://u:s3cret@proxy.example:3128"
        http_permanent_statuses = [400, 422]

        [[endpoints]]
        events = "order.*"
        url = "https://b.example:8443"
        """
    endpoints = table(tmp_path, text)
    assert [one.publisher_rate for one in endpoints.destinations.values()] == [5.0, None]
    options = [options_of(one) for one in endpoints.destinations.values()]
    assert [one.permanent_statuses for one in options] == [{400, 422}, frozenset()]
    assert [http_endpoint(one).proxy is None for one in endpoints.destinations.values()] == [False, True]
    assert place(endpoints, "order.paid") == "https://a.example/paid?x=1"
    assert place(endpoints, "order.urgent") == "https://a.example/paid?x=1"
    assert place(endpoints, "order.shipped") == "https://b.example:8443/"
    assert place(endpoints, "order.a\nb") == "https://b.example:8443/"
    assert place(endpoints, "orders") is None
    assert place(endpoints, "orderxpaid") is None
    assert list(endpoints.destinations) == ["a.example", "b.example:8443"]
    paid, shipped = endpoints.destinations.values()
    assert (paid.http_timeout, shipped.http_timeout) == (60.0, 10.0)
    assert http_endpoint(paid).signer
    assert not http_endpoint(shipped).signer


def test_endpoints_of_one_host_are_told_apart_by_their_numbers(tmp_path: Path) -> None:
    rows = [f'[[endpoints]]\nevents = "{n}"\nurl = "https://user:hidden@a.example/{n}"\n' for n in "xyz"]
    assert list(table(tmp_path, "".join(rows)).destinations) == ["a.example", "a.example#2", "a.example#3"]


def test_the_url_takes_what_the_table_does_not(tmp_path: Path) -> None:
    row = '[[endpoints]]\nevents = "a"\nurl = "https://a.example/"\n'
    endpoints = table(tmp_path, row, "https://rest.example/all", HTTP_SECRETS=SECRET)
    assert place(endpoints, "a") == "https://a.example/"
    assert place(endpoints, "b") == "https://rest.example/all"
    signed = {name: bool(http_endpoint(own).signer) for name, own in endpoints.destinations.items()}
    assert signed == {"rest": True, "a.example": False}, "HTTP_SECRETS is that of PUBLISHER_URL"
    [warning] = endpoints.destinations["a.example"].warnings
    assert warning.startswith("secrets is not set: requests to url carry no signature")


def test_an_endpoint_without_a_signature_is_warned_about_whatever_the_url_has(tmp_path: Path) -> None:
    row = '[[endpoints]]\nevents = "a"\nurl = "https://a.example/"\n'
    [warning] = table(tmp_path, row, "https://rest.example/all").destinations["a.example"].warnings
    assert warning.startswith("secrets is not set: requests to url carry no signature")


def test_secrets_may_stand_in_a_file(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.write_text(f"{SECRET}\n{SECRET}\n")
    row = f'[[endpoints]]\nevents = "a"\nurl = "https://a.example/"\nsecrets_file = "{secrets}"\n'
    [own] = table(tmp_path, row).destinations.values()
    assert len(http_endpoint(own).signer.signatures("id", 1, b"").split(" ")) == 2


ROW = '[[endpoints]]\nevents = "a"\nurl = "https://a.example/"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it holds no endpoint; write for example"),
        ("endpoint = 1\n" + ROW, "'endpoint' is not known; did you mean endpoints[?] at the top of the file"),
        ("endpoints = []", "it holds no endpoint"),
        ("[[endpoints]\n", "is not TOML: there is an error at line 1"),
        ("endpoints = [1]", "endpoints is not a list of tables"),
        ('[[endpoints]]\nurl = "https://a.example/"\n', "endpoint 1: it needs events"),
        ('[[endpoints]]\nevents = ""\nurl = "https://a.example/"\n', "endpoint 1: it needs events"),
        ('[[endpoints]]\nevents = "a"\n', "endpoint 1: it needs a url"),
        ('[[endpoints]]\nevents = [1]\nurl = "https://a.example/"\n', "events is neither"),
        (ROW + "secret = 'x'\n", "endpoint 1: 'secret' is not known; did you mean secrets"),
        (ROW + "timeout = 5\n", "timeout: '5' is not a duration; it has no unit"),
        (ROW + "timeout = 'soon'\n", "timeout: "),
        (ROW + "secrets_file = '/nowhere/secrets'\n", "cannot be read: No such file"),
        (ROW + "secrets_file = '/dev/null'\n", "secrets_file: '/dev/null' is empty"),
        (ROW + f"secrets_file = '/x'\nsecrets = '{SECRET}'\n", "secrets and secrets_file are both set"),
        (ROW + ROW.replace("https", "ftp"), "endpoint 2: url is not the URL of an endpoint"),
        (ROW + "secrets = ['whsec_x']\n", "endpoint 1: secrets: secret 1 is not base64"),
    ],
)
def test_a_table_that_is_wrong_says_where(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        table(tmp_path, text)
    assert "HTTP_ENDPOINTS_FILE: " in str(error.value)
    assert SECRET not in str(error.value)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = ROW.replace("events", "event") + "timeout = 5\n" + ROW.replace("https", "ftp") + ROW + ROW
    with pytest.raises(ConfigError) as error:
        table(tmp_path, text)
    told = [line.partition("endpoints.toml': ")[2] for line in str(error.value).splitlines()]
    assert [line.partition(":")[0] for line in told] == ["endpoint 1"] * 3 + ["endpoint 2"] + [
        "endpoint 3",
        "endpoint 4",
    ]
    assert told[-1].startswith("endpoint 4: it is never used, because endpoint 2 takes 'a' first")


def test_a_byte_order_mark_is_no_fault_and_a_broken_line_shows_no_secret(tmp_path: Path) -> None:
    assert table(tmp_path, "\ufeff" + ROW).destinations
    with pytest.raises(ConfigError) as error:
        table(tmp_path, ROW + f"secrets = {SECRET}\n")
    assert SECRET[:12] not in str(error.value)


def test_a_table_that_is_not_there_says_so() -> None:
    with pytest.raises(ConfigError, match="HTTP_ENDPOINTS_FILE: '/nowhere/x' cannot be read: No such file"):
        read("/nowhere/x")
