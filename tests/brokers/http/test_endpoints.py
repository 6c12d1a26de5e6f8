"""The URL of an endpoint, and what is refused."""

from __future__ import annotations

import base64

import pytest

from relay.brokers.http.endpoints import read_endpoint
from relay.brokers.http.options import client_tls
from relay.core.errors import ConfigError
from tests.support.options import http_options

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()


def test_a_login_becomes_a_header_and_is_never_shown() -> None:
    endpoint = read_endpoint(http_options("https://user:p%40ss@a.example/secret-path?token=t", secrets=SECRET))
    assert endpoint.authorization == "Basic " + base64.b64encode(b"user:p@ss").decode()
    for shown in (repr(endpoint), str(endpoint.origin), repr(http_options("https://user:p%40ss@a.example/"))):
        assert not {"p@ss", "p%40ss", "secret-path", "token"} & set(shown.replace("'", "/").split("/")), shown


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
        read_endpoint(http_options(url))
    assert "hid" not in str(error.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.7"])
def test_an_address_that_is_not_public_is_refused_at_the_start(host: str) -> None:
    with pytest.raises(ConfigError, match=r"^PUBLISHER_URL: .* address; no request is sent there unless"):
        read_endpoint(http_options(f"https://{host}/", allow_private=False))
    assert read_endpoint(http_options(f"https://{host}/")).target == "/"


@pytest.mark.parametrize("wrong", ["json", "a/b\r\nX: y", "", "a/b ", "ä/b"])
def test_a_content_type_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"^HTTP_CONTENT_TYPE: .* is not a media type"):
        read_endpoint(http_options("https://host/", content_type=wrong))
    assert read_endpoint(http_options("https://host/", content_type='text/x; charset="utf-8"')).origin


def test_a_name_in_another_script_is_sent_in_its_ascii_form() -> None:
    endpoint = read_endpoint(http_options("https://bücher.example/"))
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
        client_tls(http_options("https://host/", **files))
