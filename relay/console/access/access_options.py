"""What the settings say about who may use the console, and the rule for the address that it listens on."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from relay.console.access.access_role import AccessRole
from relay.console.access.logins import SHORTEST_SECRET
from relay.console.access.tokens import SHORTEST_TOKEN
from relay.core.errors import ConfigError
from relay.settings.address import Address, is_loopback
from relay.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class ProviderOptions:
    """An OpenID Connect provider, and which of its users have which role."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str
    name_claim: str
    roles_claim: str
    roles: Mapping[str, AccessRole]
    """AccessRole by a value of the claim."""
    other_role: AccessRole | None
    """The role of users that no value of the claim names; None refuses them."""

    @property
    def host(self) -> str:
        """The provider's name on the login page."""
        return urlsplit(self.issuer).hostname or self.issuer


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Who may use the console. ``secret`` signs cookies."""

    listen: Address
    url: str | None
    """How browsers reach the console, without a path; None: by any name, or on loopback by its names."""
    tokens_file: Path | None
    api_token: str | None = field(repr=False)
    provider: ProviderOptions | None
    secret: bytes = field(repr=False)
    lifetime: float
    """Seconds that a login of a browser lasts."""
    trusted_proxies: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]

    @property
    def authenticates(self) -> bool:
        """Whether anything proves who sends a request; without it, every client that reaches the console is admin."""
        return self.admits_people or self.api_token is not None

    @property
    def admits_people(self) -> bool:
        """Whether users can log in to the pages; API_TOKEN admits programs to the API alone."""
        return bool(self.tokens_file or self.provider)

    @property
    def public(self) -> bool:
        """Whether other machines may reach the console."""
        return not is_loopback(self.listen.host)


def access_options(settings: Settings) -> AccessOptions:
    """What the settings say. Raises ConfigError with every problem, before anything listens."""
    problems = [*_secret_problems(settings), *_api_token_problems(settings), *_provider_problems(settings)]
    options = AccessOptions(
        listen=settings.console_port,
        url=settings.console_url,
        tokens_file=Path(settings.console_tokens_file) if settings.console_tokens_file is not None else None,
        api_token=settings.api_token.get_secret_value().strip() if settings.api_token is not None else None,
        provider=_provider(settings) if not problems else None,
        secret=_secret(settings),
        lifetime=settings.console_login_lifetime,
        trusted_proxies=settings.console_trusted_proxies or (),
    )
    intended = options.authenticates or settings.console_oidc_issuer is not None
    if options.public and not intended:
        host, port = options.listen
        problems.append(
            f"CONSOLE_PORT={host}:{port} is open to other machines, and no login is configured for the console. Set "
            "CONSOLE_TOKENS_FILE or CONSOLE_OIDC_ISSUER, or listen on 127.0.0.1; for programs that read the API, "
            "API_TOKEN is enough"
        )
    if problems:
        raise ConfigError("\n".join(problems))
    return options


def _secret_problems(settings: Settings) -> Iterator[str]:
    secret = settings.console_secret
    if secret is not None and len(secret.get_secret_value()) < SHORTEST_SECRET:
        yield f"CONSOLE_SECRET is shorter than {SHORTEST_SECRET} characters; write for example 32 random bytes as hex"


def _api_token_problems(settings: Settings) -> Iterator[str]:
    if settings.api_token is None:
        return
    token = settings.api_token.get_secret_value().strip()
    if not token:
        yield "API_TOKEN is blank; unset it, or write for example 32 random bytes as hex"
    elif len(token) < SHORTEST_TOKEN and not is_loopback(settings.console_port.host):
        yield (
            f"API_TOKEN is shorter than {SHORTEST_TOKEN} characters, and other machines can try to guess it: "
            f"CONSOLE_PORT is {settings.console_port.host}:{settings.console_port.port}. Write for example 32 random "
            "bytes as hex, or listen on 127.0.0.1"
        )


def _provider_problems(settings: Settings) -> Iterator[str]:
    required = {
        "CONSOLE_OIDC_ISSUER": settings.console_oidc_issuer,
        "CONSOLE_OIDC_CLIENT_ID": settings.console_oidc_client_id,
        "CONSOLE_OIDC_CLIENT_SECRET": settings.console_oidc_client_secret,
    }
    missing = [name for name, value in required.items() if value is None]
    if missing and len(missing) < len(required):
        yield f"{' and '.join(missing)} must be set too: OpenID Connect needs {', '.join(required)}"
    if settings.console_oidc_issuer is None:
        return
    if "openid" not in settings.console_oidc_scope.split():
        yield f"CONSOLE_OIDC_SCOPE={settings.console_oidc_scope!r} must contain openid"
    if settings.console_url is None and not is_loopback(settings.console_port.host):
        yield (
            "CONSOLE_URL is not set, and OpenID Connect needs it on any but a loopback address: the provider sends "
            "browsers back to it; write for example https://outbox.example.com"
        )


def _provider(settings: Settings) -> ProviderOptions | None:
    issuer, client_id = settings.console_oidc_issuer, settings.console_oidc_client_id
    secret = settings.console_oidc_client_secret
    if issuer is None or client_id is None or secret is None:
        return None
    other = settings.console_oidc_other_role
    return ProviderOptions(
        issuer=issuer,
        client_id=client_id,
        client_secret=secret.get_secret_value(),
        scope=settings.console_oidc_scope,
        name_claim=settings.console_oidc_name_claim,
        roles_claim=settings.console_oidc_roles_claim,
        roles={value: AccessRole.parse(role) for value, role in settings.console_oidc_roles.items()},
        other_role=None if other == "none" else AccessRole.parse(other),
    )


def _secret(settings: Settings) -> bytes:
    secret = settings.console_secret
    return secret.get_secret_value().encode() if secret is not None else secrets.token_bytes(32)
