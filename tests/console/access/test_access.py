"""Who gets in, over real HTTP: each role and none at each route, the headers, and which host was asked."""

from __future__ import annotations

import base64
import socket
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI

from relay.console.access import AccessRole
from relay.console.access.route_roles import RouteRule, route_rules
from relay.core.errors import ConfigError
from tests.console.access.making import token
from tests.console.access.sample import Browser, bearer, sample_app, served, settings

ROLES = [None, *AccessRole]


TABLE = {
    ("GET", "/"): AccessRole.READER,
    ("GET", "/api/things"): AccessRole.READER,
    ("POST", "/api/things"): AccessRole.OPERATOR,
    ("PUT", "/api/things"): AccessRole.OPERATOR,
    ("PATCH", "/api/things"): AccessRole.OPERATOR,
    ("DELETE", "/api/things"): AccessRole.OPERATOR,
    ("GET", "/api/settings"): AccessRole.ADMIN,
    ("GET", "/fails"): AccessRole.READER,
    ("POST", "/logout"): AccessRole.READER,
    ("GET", "/login"): None,
    ("POST", "/login"): None,
}


def test_the_table_of_who_may_what_is_whole(app: FastAPI) -> None:
    assert {(method, rule.path): rule.role for rule in route_rules(app) for method in rule.methods} == TABLE


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("method", "path"), [key for key in TABLE if key[1] != "/fails"])
def test_each_role_and_none_at_each_route(
    url: str, client: httpx.Client, method: str, path: str, role: AccessRole | None
) -> None:
    needed = TABLE[method, path]
    headers = bearer(f"{role}-token") if role is not None else {}

    status = client.request(method, url + path, headers=headers).status_code

    if role is None and needed is not None:
        assert status == (403 if method != "GET" and path == "/login" else 401)
    elif role is not None and needed is not None and role < needed:
        assert status == 403
    else:
        assert status in (200, 303, 401 if path == "/login" else 200, 403 if path == "/login" else 200)


@pytest.mark.parametrize("path", ["/absent", "/api/absent", "/api/things/", "//api/things", "/api//things", "/%2fapi"])
def test_a_path_of_no_route_needs_a_login_too(url: str, client: httpx.Client, path: str) -> None:
    assert client.get(url + path).status_code == 401
    assert client.get(url + path, headers=bearer("admin-token")).status_code in (404, 307)


def test_a_new_route_without_a_role_stops_the_console(files: dict[str, str]) -> None:
    app = sample_app(settings(**files))

    @app.get("/forgotten")
    async def forgotten() -> str:
        return "payload"

    with pytest.raises(RuntimeError, match=r"ask for no role.*: /forgotten"):
        route_rules(app)
    with served(app) as url:
        assert [httpx.get(url + path).status_code for path in ("/forgotten", "/login")] == [500, 500]


def test_a_mounted_application_without_a_role_stops_the_console(files: dict[str, str]) -> None:
    app = sample_app(settings(**files))
    app.mount("/static", FastAPI(openapi_url=None, docs_url=None, redoc_url=None))
    assert RouteRule(frozenset(), "/static", None) in route_rules(app)

    app.mount("/more", FastAPI())
    with pytest.raises(RuntimeError, match=r"ask for no role.*: /more"):
        route_rules(app)


def test_a_header_names_the_identity(url: str, client: httpx.Client) -> None:
    answer = client.get(f"{url}/api/things", headers=bearer("reader-token"))

    assert answer.json() == {"name": "reader-token", "role": "reader"}


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer " + token("other"),
        "Token " + token("admin-token"),
        token("admin-token"),
        "Basic " + token("admin-token"),
        "Basic " + base64.b64encode(b"admin-token:" + token("admin-token").encode()).decode(),
        "Digest username=admin-token",
    ],
)
def test_a_wrong_header_is_refused_and_never_falls_back_to_the_cookie(browser: Browser, value: str) -> None:
    browser.log_in(token=token("admin-token"))
    assert browser.send("GET", "/api/things").status_code == 200

    answer = browser.send("GET", "/api/things", headers={"authorization": value, "accept": "*/*"})

    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == 'Bearer realm="openoutbox"'


HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", bearer("reader-token"), 200),
        ("/", {}, 401),
        ("/", {"accept": "text/html"}, 303),
        ("/login", {}, 200),
        ("/absent", bearer("reader-token"), 404),
        ("/api/settings", bearer("reader-token"), 403),
        ("/fails", bearer("reader-token"), 500),
    ],
)
def test_every_answer_has_the_headers(
    url: str, client: httpx.Client, path: str, headers: dict[str, str], status: int
) -> None:
    answer = client.get(url + path, headers=headers)

    assert answer.status_code == status
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "strict-transport-security" not in answer.headers
    assert "server" not in answer.headers or "outbox" not in answer.headers["server"]


def test_https_is_demanded_where_the_console_has_it(files: dict[str, str], client: httpx.Client) -> None:
    with served(sample_app(settings(**files, CONSOLE_URL="https://outbox.example.com"))) as url:
        answer = client.get(f"{url}/login", headers={"host": "outbox.example.com"})

        assert answer.status_code == 200
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
        for host in ("evil.example", "outbox.example.com:1", "outbox.example.com.evil.example"):
            assert client.get(f"{url}/login", headers={"host": host}).status_code == 403
        through_proxy = {**bearer("operator-token"), "origin": "https://outbox.example.com", "host": "localhost:1"}
        assert client.post(f"{url}/api/things", headers=through_proxy).status_code == 200


def test_on_loopback_without_a_login_everybody_of_this_machine_is_admin(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with served(sample_app(settings())) as url:
        for host in ("localhost", "LOCALHOST:1", "127.0.0.1:5", "[::1]:8090", "console.localhost"):
            headers = {"host": host}
            assert client.get(f"{url}/api/settings", headers=headers).json() == {"name": "local"}
            assert client.post(f"{url}/api/things", headers=headers).status_code == 200
            other_site = {**headers, "sec-fetch-site": "cross-site"}
            assert client.post(f"{url}/api/things", headers=other_site).status_code == 403
            assert client.get(f"{url}/login", headers=headers).status_code == 303
        for host in (
            "evil.example",
            "evil.example:8090",
            "localhost.evil.example",
            "[",
            "127.0.0.1.evil",
            "a@localhost",
        ):
            assert client.get(f"{url}/api/things", headers={"host": host}).status_code == 403
    said = [record.__dict__["action"] for record in caplog.records if record.name.startswith("relay.")]
    assert said == ["access_open"]


def raw(url: str, request: bytes) -> bytes:
    """What the server answers to these bytes, up to the end of its headers."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10) as connection:
        connection.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer and (received := connection.recv(4096)):
            answer += received
    return answer


@pytest.mark.parametrize(
    "lines",
    [
        b"Host: 127.0.0.1\r\nHost: evil.example\r\nAuthorization: Bearer %s",
        b"Host: 127.0.0.1\r\nAuthorization: Bearer %s\r\nAuthorization: Basic eDp5",
        b"Host: 127.0.0.1\r\nAuthorization: Basic eDp5\r\nAuthorization: Bearer %s",
    ],
)
def test_a_header_that_two_readers_may_read_differently_is_refused(url: str, lines: bytes) -> None:
    request = b"GET /api/things HTTP/1.1\r\n" + lines.replace(b"%s", token("admin-token").encode()) + b"\r\n\r\n"

    assert b" 400 " in raw(url, request).split(b"\r\n")[0]


def test_a_client_without_host_is_no_browser(url: str) -> None:
    line = f"Authorization: Bearer {token('reader-token')}".encode()

    assert b" 200 " in raw(url, b"GET /api/things HTTP/1.0\r\n" + line + b"\r\n\r\n").split(b"\r\n")[0]


def test_a_web_socket_is_refused(url: str) -> None:
    upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    request = b"GET /api/things HTTP/1.1\r\nHost: 127.0.0.1\r\n" + upgrade + b"Sec-WebSocket-Version: 13\r\n\r\n"

    assert raw(url, request).split(b"\r\n")[0].split()[1] in (b"401", b"403")


def test_a_public_address_that_nothing_guards_is_refused_by_the_application() -> None:
    with pytest.raises(ConfigError, match="CONSOLE_PORT=:8090 is open to other machines"):
        sample_app(settings(CONSOLE_PORT=":8090"))
    with pytest.raises(ConfigError, match=r"CONSOLE_TOKENS_FILE: .* cannot be read"):
        sample_app(settings(CONSOLE_PORT=":8090", CONSOLE_TOKENS_FILE="absent"))
