"""Logins at a provider that answers wrongly: each fault is refused, named in the log, and no token is shown."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi import FastAPI, Request
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from starlette.responses import JSONResponse, Response

from relay.console.access.access_options import ProviderOptions
from relay.console.access.access_role import AccessRole, Identity
from relay.console.access.provider import LoginProvider, ProviderFailed, UserRefused
from tests.console.access.sample import served
from tests.support.waiting import patience

SECRET = "the secret of this client"
TRUST = ssl.create_default_context()  # made once: it takes a while
REDIRECT = "http://127.0.0.1:1/oidc/callback"
KEY = RSAKey.generate_key(2048, {"kid": "one", "alg": "RS256"}, private=True, auto_kid=False)
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "one", "alg": "RS256"}, private=True, auto_kid=False)

Change = Callable[[dict[str, Any]], None]


class WrongProvider:
    """A provider whose answers a test changes before they are sent."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, list[str]]] = []
        self.nonce = ""
        self.reset()

    def reset(self) -> None:
        self.metadata: Change = lambda _: None
        self.claims: Change = lambda _: None
        self.userinfo: Any = None
        self.sign: Callable[[dict[str, Any]], str] = signed
        self.token: Response | None = None
        self.keys = [KEY]

    def app(self) -> FastAPI:
        app = FastAPI(openapi_url=None)

        @app.get("/.well-known/openid-configuration")
        async def metadata() -> JSONResponse:
            document: dict[str, Any] = {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
                "userinfo_endpoint": f"{self.url}/userinfo",
                "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            }
            self.metadata(document)
            return JSONResponse(document)

        @app.get("/keys")
        async def keys() -> JSONResponse:
            return JSONResponse({"keys": [key.as_dict(private=False) for key in self.keys]})

        @app.get("/userinfo")
        async def userinfo() -> JSONResponse:
            return JSONResponse(self.userinfo)

        @app.post("/token")
        async def token(request: Request) -> Response:
            self.requests.append(parse_qs((await request.body()).decode()))
            now = int(time.time())
            claims = {"iss": self.url, "sub": "1", "aud": "console", "iat": now, "exp": now + 60, "nonce": self.nonce}
            claims |= {"preferred_username": "ada", "roles": ["admin"]}
            self.claims(claims)
            body = {"access_token": "an access token", "token_type": "Bearer", "id_token": self.sign(claims)}
            return self.token or JSONResponse(body)

        return app


def signed(claims: dict[str, Any], key: RSAKey = KEY, header: dict[str, Any] | None = None) -> str:
    return jwt.encode(header or {"alg": "RS256", "kid": "one"}, claims, key)


def unsigned(claims: dict[str, Any]) -> str:
    parts = [json.dumps({"alg": "none"}), json.dumps(claims)]
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts) + "."


def signed_by_secret(claims: dict[str, Any]) -> str:
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET.ljust(40)), algorithms=["HS256"])


@pytest.fixture(scope="module")
def running() -> Iterator[WrongProvider]:
    provider = WrongProvider()
    with served(provider.app()) as url:
        provider.url = url
        yield provider


@pytest.fixture
def wrong(running: WrongProvider) -> WrongProvider:
    running.reset()
    return running


def options(wrong: WrongProvider, **changes: Any) -> ProviderOptions:
    values: dict[str, Any] = {
        "issuer": wrong.url,
        "client_id": "console",
        "client_secret": SECRET,
        "scope": "openid profile",
        "name_claim": "preferred_username",
        "roles_claim": "roles",
        "roles": {str(role): role for role in AccessRole},
        "other_role": None,
    }
    return ProviderOptions(**{**values, **changes})


async def login(wrong: WrongProvider, **changes: Any) -> Identity:
    provider = LoginProvider(options(wrong, **changes), TRUST)
    url, journey = await provider.begin(REDIRECT, "/")
    wrong.nonce = parse_qs(urlsplit(url).query)["nonce"][0]
    return await provider.finish(REDIRECT, "the code", journey)


async def test_a_right_answer_is_a_login_bound_by_pkce(wrong: WrongProvider) -> None:
    assert await login(wrong) == Identity("ada", AccessRole.ADMIN)
    sent = wrong.requests[-1]
    assert sent["redirect_uri"] == [REDIRECT]
    assert hashlib.sha256(sent["code_verifier"][0].encode()).digest()


def claim(**changes: Any) -> Change:
    def change(claims: dict[str, Any]) -> None:
        for name, value in changes.items():
            claims.pop(name) if value is None else claims.update({name: value})

    return change


@pytest.mark.parametrize(
    "change",
    [
        claim(nonce="another"),
        claim(nonce=None),
        claim(aud="another"),
        claim(aud=["another"], azp="console"),
        claim(aud=["console", "another"], azp="another"),
        claim(iss="https://another.example"),
        claim(exp=1),
        claim(exp=None),
        claim(iat=4_102_444_800),
        claim(sub=None),
        claim(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
    ],
)
async def test_a_token_for_another_login_is_refused(wrong: WrongProvider, change: Change) -> None:
    wrong.claims = change

    with pytest.raises(ProviderFailed, match="its ID token is wrong") as caught:
        await login(wrong)
    assert "access token" not in str(caught.value)


@pytest.mark.parametrize(
    "sign",
    [
        unsigned,
        signed_by_secret,
        lambda claims: signed(claims, OTHER_KEY),
        lambda claims: signed(claims)[:-4] + "AAAA",
        lambda claims: signed(claims, KEY, {"alg": "RS256", "kid": "unknown"}),
        lambda claims: "no token",
        lambda claims: "",
    ],
)
async def test_a_token_that_the_provider_did_not_sign_is_refused(
    wrong: WrongProvider, sign: Callable[[dict[str, Any]], str]
) -> None:
    wrong.sign = sign

    with pytest.raises(ProviderFailed):
        await login(wrong)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Response(status_code=503), "answered 503|cannot be read"),
        (Response("<html>"), "cannot be read"),
        (JSONResponse([1]), "cannot be read"),
        (JSONResponse({"error": "invalid_grant", "error_description": "a\nb" * 500}, 400), r"refused: invalid_grant"),
        (JSONResponse({"access_token": "x", "token_type": "Bearer"}), "has no ID token"),
    ],
)
async def test_a_wrong_answer_is_named_without_what_it_holds(
    wrong: WrongProvider, answer: Response, reason: str
) -> None:
    wrong.token = answer

    with pytest.raises(ProviderFailed, match=reason) as caught:
        await login(wrong)
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()
    assert SECRET not in str(caught.value)


async def test_the_issuer_must_be_the_configured_one_and_is_asked_again(wrong: WrongProvider) -> None:
    provider = LoginProvider(options(wrong), TRUST)
    wrong.metadata = claim(issuer="https://another.example")
    for _ in range(2):
        with pytest.raises(ProviderFailed, match=r"its issuer is 'https://another.example', and CONSOLE_OIDC"):
            await provider.begin(REDIRECT, "/")

    wrong.reset()
    assert (await provider.begin(REDIRECT, "/"))[0].startswith(f"{wrong.url}/authorize?")


@pytest.mark.parametrize("padding", ["a gzip bomb", "as many bytes"])
async def test_the_bytes_of_an_answer_are_counted(wrong: WrongProvider, padding: str) -> None:
    """16 MiB of spaces around a document that is right."""
    document = b'{"access_token": "a"}' + b" " * 2**24
    if padding == "a gzip bomb":
        wrong.token = Response(gzip.compress(document), headers={"Content-Encoding": "gzip"})
        reason = "compressed"
    else:
        wrong.token, reason = Response(document), "longer than"
    with pytest.raises(ProviderFailed, match=reason):
        await login(wrong)


async def test_interim_answers_without_end_keep_no_timer_waiting(
    wrong: WrongProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while True:
                writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000)
                await writer.drain()

    monkeypatch.setattr("relay.console.access.provider._LONGEST", 1.0)
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        issuer = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        provider = LoginProvider(options(wrong, issuer=issuer), TRUST)
        with pytest.raises(ProviderFailed, match="it has not answered in 1 s"):
            await asyncio.wait_for(provider.begin(REDIRECT, "/"), patience(10))


async def test_metadata_do_not_steer_the_client(wrong: WrongProvider) -> None:
    """Authlib hands them to its client: no proxy, no hook and no check of certificates comes from the provider."""
    wrong.metadata = lambda document: document.update(
        verify=False, proxy="http://127.0.0.1:9", event_hooks={}, timeout=1e9, transport="t"
    )
    assert (await login(wrong)).role is AccessRole.ADMIN


async def test_a_provider_that_is_away_is_named_and_asked_again(wrong: WrongProvider) -> None:
    provider = LoginProvider(options(wrong, issuer="http://127.0.0.1:1"), TRUST)

    for _ in range(2):
        with pytest.raises(ProviderFailed, match="does not answer"):
            await provider.begin(REDIRECT, "/")


async def test_keys_that_the_provider_has_changed_are_read_again(wrong: WrongProvider) -> None:
    provider = LoginProvider(options(wrong), TRUST)
    fresh = RSAKey.generate_key(2048, {"kid": "two", "alg": "RS256"}, private=True, auto_kid=False)
    for keys, sign in (
        ([KEY], signed),
        ([fresh], lambda claims: signed(claims, fresh, {"alg": "RS256", "kid": "two"})),
    ):
        wrong.keys, wrong.sign = keys, sign
        url, journey = await provider.begin(REDIRECT, "/")
        wrong.nonce = parse_qs(urlsplit(url).query)["nonce"][0]
        assert await provider.finish(REDIRECT, "the code", journey) == Identity("ada", AccessRole.ADMIN)


async def test_userinfo_of_another_user_is_refused(wrong: WrongProvider) -> None:
    wrong.claims = claim(roles=None)
    wrong.userinfo = {"sub": "2", "roles": ["admin"]}
    with pytest.raises(ProviderFailed, match="names another user"):
        await login(wrong)

    wrong.userinfo = {"sub": "1", "roles": ["operator"], "preferred_username": "mallory"}
    assert await login(wrong) == Identity("ada", AccessRole.OPERATOR)


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (["reader", "admin", "x"], AccessRole.ADMIN),
        ("operator", AccessRole.OPERATOR),
        (["Admin"], None),
        ("admin reader", None),
        ([], None),
        ([["admin"], {"admin": 1}, 1, None], None),
        ({"admin": True}, None),
        (True, None),
    ],
)
async def test_only_a_value_that_the_settings_name_is_a_role(
    wrong: WrongProvider, roles: Any, expected: AccessRole | None
) -> None:
    wrong.claims = claim(roles=roles)
    if expected is not None:
        assert (await login(wrong)).role is expected
        return
    with pytest.raises(UserRefused):
        await login(wrong)
    assert (await login(wrong, other_role=AccessRole.READER)).role is AccessRole.READER


@pytest.mark.parametrize("name", ["", "\u202eadmin\n", "a\nb", 7, ["ada"]])
async def test_a_name_that_cannot_be_shown_becomes_the_subject(wrong: WrongProvider, name: Any) -> None:
    wrong.claims = claim(preferred_username=name)

    assert (await login(wrong)).name == "1"


async def test_a_subject_that_cannot_be_shown_is_cut_to_what_can(wrong: WrongProvider) -> None:
    wrong.claims = claim(preferred_username="", sub="a\nb\u202e" + "c" * 500)

    name = (await login(wrong)).name
    assert (name.isprintable(), name[:5], len(name)) == (True, "a b c", 200)
    with pytest.raises(UserRefused, match=r"^a b c+$"):
        await login(wrong, roles={})
