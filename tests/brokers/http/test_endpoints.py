"""URL and table of endpoints: which one takes a type, and what is refused."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from relay.brokers.http.endpoints import EndpointTable
from relay.brokers.http.endpoints_file import read_table
from relay.brokers.http.options import ClientTls
from relay.core.errors import ConfigError
from tests.support.options import http_options

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()


def table(tmp_path: Path, text: str, url: str | None = None, **options: Any) -> EndpointTable:
    path = tmp_path / "endpoints.toml"
    path.write_text(text, encoding="utf-8")
    return read_table(http_options(url, endpoints_file=str(path), **options))


def place(endpoints: EndpointTable, event_type: str) -> str | None:
    endpoint = endpoints.match(event_type)
    return None if endpoint is None else f"{endpoint.origin}{endpoint.target}"


def test_the_first_row_that_matches_takes_the_event(tmp_path: Path) -> None:
    text = f"""
        [[endpoints]]
        events = ["order.paid", "*.urgent"]
        url = "https://a.example/paid?x=1"
        secrets = "{SECRET}"
        timeout = "1m"

        [[endpoints]]
        events = "order.*"
        url = "https://b.example:8443"
        """
    endpoints = table(tmp_path, text)
    assert place(endpoints, "order.paid") == "https://a.example/paid?x=1"
    assert place(endpoints, "order.urgent") == "https://a.example/paid?x=1"
    assert place(endpoints, "order.shipped") == "https://b.example:8443/"
    assert place(endpoints, "order.a\nb") == "https://b.example:8443/"
    assert place(endpoints, "orders") is None
    assert place(endpoints, "orderxpaid") is None
    assert [str(origin) for origin in endpoints.origins] == ["https://a.example", "https://b.example:8443"]
    [paid, shipped] = [endpoints.match("order.paid"), endpoints.match("order.shipped")]
    assert paid is not None
    assert shipped is not None
    assert (paid.timeout, shipped.timeout) == (60.0, 10.0)
    assert paid.signer
    assert not shipped.signer


def test_the_url_takes_what_the_table_does_not(tmp_path: Path) -> None:
    endpoints = table(tmp_path, '[[endpoints]]\nevents = "a"\nurl = "https://a.example/"\n', "https://rest.example/all")
    assert place(endpoints, "a") == "https://a.example/"
    assert place(endpoints, "b") == "https://rest.example/all"


def test_secrets_may_stand_in_a_file(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.write_text(f"{SECRET}\n{SECRET}\n")
    row = f'[[endpoints]]\nevents = "a"\nurl = "https://a.example/"\nsecrets_file = "{secrets}"\n'
    endpoint = table(tmp_path, row).match("a")
    assert endpoint is not None
    assert len(endpoint.signer.signatures("id", 1, b"").split(" ")) == 2


def test_a_login_becomes_a_header_and_is_never_shown(tmp_path: Path) -> None:
    endpoints = read_table(http_options("https://user:p%40ss@a.example/secret-path?token=t", secrets=[SECRET]))
    endpoint = endpoints.match("any")
    assert endpoint is not None
    assert endpoint.authorization == "Basic " + base64.b64encode(b"user:p@ss").decode()
    for shown in (repr(endpoint), str(endpoint.origin), repr(http_options("https://user:p%40ss@a.example/"))):
        assert not {"p@ss", "p%40ss", "secret-path", "token"} & set(shown.replace("'", "/").split("/")), shown


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
        (ROW + "timeout = 5\n", "timeout is not a duration"),
        (ROW + "timeout = 'soon'\n", "timeout: "),
        (ROW + "secrets_file = '/nowhere/secrets'\n", "cannot be read: No such file"),
        (ROW + "secrets_file = '/dev/null'\n", "is empty; write whsec_"),
        (ROW + f"secrets_file = '/x'\nsecrets = '{SECRET}'\n", "set secrets or secrets_file"),
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
    assert "endpoint 4: it is never used, because endpoints before it take" in told[-1]


def test_a_byte_order_mark_is_no_fault_and_a_broken_line_shows_no_secret(tmp_path: Path) -> None:
    assert table(tmp_path, "\ufeff" + ROW).origins
    with pytest.raises(ConfigError) as error:
        table(tmp_path, ROW + f"secrets = {SECRET}\n")
    assert SECRET[:12] not in str(error.value)


def test_a_table_that_is_not_there_says_so() -> None:
    with pytest.raises(ConfigError, match="HTTP_ENDPOINTS_FILE: '/nowhere/x' cannot be read: No such file"):
        read_table(http_options(None, endpoints_file="/nowhere/x"))


@pytest.mark.parametrize(
    "url",
    [
        "hooks.example.com",
        "ftp://user:hidden@host/",
        "https://",
        "https://user:hid/den@host/",
        "https://user:hidden@host:99999/",
        "https://user:hidden@host/a b",
        "https://user:hidden@host/#part",
        "https://user:hidden@[::1/",
    ],
)
def test_a_url_that_is_wrong_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^PUBLISHER_URL is not the URL of an endpoint: write ") as error:
        read_table(http_options(url))
    assert "hid" not in str(error.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.7"])
def test_an_address_that_is_not_public_is_refused_at_the_start(host: str) -> None:
    with pytest.raises(ConfigError, match=r"^PUBLISHER_URL: .* address; no request is sent there unless"):
        read_table(http_options(f"https://{host}/", allow_private=False))
    assert read_table(http_options(f"https://{host}/")).match("any") is not None


@pytest.mark.parametrize("wrong", ["json", "a/b\r\nX: y", "", "a/b ", "ä/b"])
def test_a_content_type_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"^HTTP_CONTENT_TYPE: .* is not a media type"):
        read_table(http_options("https://host/", content_type=wrong))
    assert read_table(http_options("https://host/", content_type='text/x; charset="utf-8"')).origins


def test_a_name_in_another_script_is_sent_in_its_ascii_form() -> None:
    endpoint = read_table(http_options("https://bücher.example/")).match("any")
    assert endpoint is not None
    assert endpoint.origin.authority == "xn--bcher-kva.example"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"tls_ca": "/nowhere/ca.pem"}, "^HTTP_TLS_CA='/nowhere/ca.pem' cannot be read: No such file"),
        ({"tls_key": "/nowhere/key.pem"}, "^HTTP_TLS_KEY is set, and HTTP_TLS_CERT is not"),
        ({"tls_cert": __file__}, "^HTTP_TLS_CERT='.*': not a PEM file"),
    ],
)
def test_a_file_for_tls_that_cannot_be_used_names_the_variable(files: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ClientTls(http_options("https://host/", **files)).context()
