"""An OpenID Connect provider, by authlib: where a browser is sent, and who comes back.

The code is bound to this browser by ``state``, to this login by ``nonce``, and to this process's request by PKCE. The
ID token's issuer, audience, signature, times and nonce are checked; claims that it lacks are read from the userinfo
endpoint, whose subject must be the same.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.common.security import generate_token
from authlib.integrations.httpx_client.utils import HTTPX_CLIENT_KWARGS
from authlib.integrations.starlette_client import OAuth
from joserfc.errors import JoseError

from relay.console.access.access_options import ProviderOptions
from relay.console.access.access_role import LONGEST_NAME, AccessRole, Identity, valid_name
from relay.core.durations import in_words
from relay.core.errors import OutboxError
from relay.core.origins import LiveSecret

_TIMEOUT: Final = 10.0  # seconds of silence of the provider
_LONGEST: Final = 30.0  # seconds for what one step asks the provider
_LARGEST: Final = 1024 * 1024  # bytes of one answer; it is asked not to compress any
_LEEWAY: Final = 60  # seconds that the provider's clock may differ
_SYMMETRIC: Final = ("none", "HS256", "HS384", "HS512")


class ProviderFailed(OutboxError):
    """The provider does not answer, or its answer is wrong. The message is for the log, and holds no token."""


class UserRefused(OutboxError):
    """The provider knows the user, and the console has no role for that user."""


class Journey(NamedTuple):
    """A browser on its way to the provider; all of it comes back in the browser's cookie."""

    state: str
    nonce: str
    verifier: str
    target: str
    """The path to go to after the login."""


class LoginProvider:
    """One provider. It is asked for its addresses and keys when the first browser needs them."""

    def __init__(self, options: ProviderOptions, trust: ssl.SSLContext | None = None) -> None:
        """``trust`` says which certificates count; by default the system's, or those of SSL_CERT_FILE."""
        self._options = options
        self._secret = LiveSecret(options.client_secret)
        # authlib makes a client for each request. A context of its own would cost each 0.2 s of the event loop.
        trust = trust or httpx2.create_ssl_context()
        self._client: Any = OAuth().register(
            "console",
            client_id=options.client_id,
            client_secret=options.client_secret,
            server_metadata_url=f"{options.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": options.scope,
                "code_challenge_method": "S256",
                "timeout": _TIMEOUT,
                "verify": trust,
                "headers": {"Accept-Encoding": "identity"},
                "event_hooks": {"response": [_read_bounded]},
            },
        )

    async def begin(self, redirect_uri: str, target: str) -> tuple[str, Journey]:
        """The provider's URL for a login, and what its answer is checked against. Raises ProviderFailed."""
        await self._metadata()
        journey = Journey(generate_token(32), generate_token(32), generate_token(64), target)
        begun = await self._asked(
            self._client.create_authorization_url(
                redirect_uri, state=journey.state, nonce=journey.nonce, code_verifier=journey.verifier
            )
        )
        return str(begun["url"]), journey

    async def finish(self, redirect_uri: str, code: str, journey: Journey) -> Identity:
        """Exchange the code for the user. Raises ProviderFailed and UserRefused."""
        metadata = await self._metadata()
        self._client.client_secret = self._secret.present()
        token = await self._asked(
            self._client.fetch_access_token(redirect_uri, code=code, code_verifier=journey.verifier)
        )
        if isinstance(token, Mapping) and not token.get("id_token"):  # authlib 1.8 raises KeyError
            raise ProviderFailed("its answer has no ID token; CONSOLE_OIDC_SCOPE must contain openid")
        checks = {
            "iss": {"essential": True, "value": self._options.issuer},
            "aud": {"essential": True, "value": self._options.client_id},
        }
        claims = await self._asked(
            self._client.parse_id_token(token, nonce=journey.nonce, claims_options=checks, leeway=_LEEWAY)
        )
        roles = self._claim(claims, self._options.roles_claim)
        name = self._claim(claims, self._options.name_claim)
        if (roles is None or name is None) and "userinfo_endpoint" in metadata:
            details = await self._asked(self._client.userinfo(token=token))
            if details.get("sub") != claims["sub"]:
                raise ProviderFailed("its userinfo endpoint names another user than its ID token")
            claims = {**details, **claims}
        return self._identity(claims)

    async def logout_url(self) -> str | None:
        """Where the provider ends its own login; None when it offers nothing for it. Raises ProviderFailed."""
        metadata = await self._metadata()
        if "end_session_endpoint" not in metadata:
            return None
        begun = await self._asked(self._client.create_logout_url(client_id=self._options.client_id))
        return str(begun["url"])

    async def _metadata(self) -> Mapping[str, Any]:
        metadata: dict[str, Any] = await self._asked(self._client.load_server_metadata())
        if metadata.get("issuer") != self._options.issuer:
            shown = metadata.pop("issuer", None)
            metadata.pop("_loaded_at", None)  # authlib keeps what has this mark; wrong metadata must not stay
            raise ProviderFailed(f"its issuer is {shown!r}, and CONSOLE_OIDC_ISSUER is {self._options.issuer!r}")
        for name in HTTPX_CLIENT_KWARGS:  # authlib makes its client of the metadata, too
            metadata.pop(name, None)
        # A symmetric signature would be checked with a public key as its secret.
        algorithms = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
        metadata["id_token_signing_alg_values_supported"] = [one for one in algorithms if one not in _SYMMETRIC]
        return metadata

    async def _asked(self, answer: Any) -> Any:  # noqa: ANN401 - authlib has no types
        """Await an answer of the provider. Raises ProviderFailed with its kind, without what it holds."""
        try:
            async with asyncio.timeout(_LONGEST):
                return await answer
        except TimeoutError:
            raise ProviderFailed(f"it has not answered in {in_words(_LONGEST)}") from None
        except httpx2.HTTPStatusError as error:
            raise ProviderFailed(f"it answered {error.response.status_code}") from None
        except httpx2.HTTPError as error:
            raise ProviderFailed(f"it does not answer: {str(error) or type(error).__name__}") from None
        except AuthlibBaseError as error:
            raise ProviderFailed(f"it refused: {error.error} ({_short(error.description)})") from None
        except JoseError as error:
            raise ProviderFailed(f"its ID token is wrong: {_short(str(error))}") from None
        except (ValueError, KeyError, TypeError, RuntimeError, AttributeError) as error:
            # What authlib raises for an answer that is no JSON, or JSON of another shape.
            raise ProviderFailed(f"its answer cannot be read ({type(error).__name__})") from None

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        options = self._options
        name = self._claim(claims, options.name_claim)
        if not isinstance(name, str) or not valid_name(name[:LONGEST_NAME]):
            name = _short(claims["sub"]).strip()
        values = self._claim(claims, options.roles_claim)
        texts = [values] if isinstance(values, str) else values if isinstance(values, list) else []
        roles = [options.roles[text] for text in texts if isinstance(text, str) and text in options.roles]
        role = max(roles, default=options.other_role)
        if role is None:
            raise UserRefused(name)
        return Identity(name[:LONGEST_NAME], AccessRole(role))

    def _claim(self, claims: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401 - JSON
        """A claim by its name, which may itself contain dots, or by a path into objects; None where it is absent."""
        if path in claims:
            return claims[path]
        value: Any = claims
        for key in path.split("."):
            if not isinstance(value, Mapping) or key not in value:
                return None
            value = value[key]
        return value


async def _read_bounded(response: Any) -> None:  # noqa: ANN401 - of authlib's client
    """Read the body before authlib does, up to ``_LARGEST`` bytes as they come. Raises ProviderFailed for more."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ProviderFailed("its answer is compressed, and it was asked for one that is not")
    body = b""
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _LARGEST:
            raise ProviderFailed(f"its answer is longer than {_LARGEST} bytes")
    response._content = body  # noqa: SLF001 - what aread() leaves


def _short(text: object) -> str:
    """A provider's message, fit for a log."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text or ""))[:200]
