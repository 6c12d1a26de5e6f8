"""An endpoint: where requests go, and how they are signed."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from relay.brokers.http.addresses import literal_refusal
from relay.brokers.http.headers import lines_of
from relay.brokers.http.options import HttpOptions
from relay.brokers.http.origin import PORTS, Origin, login_in
from relay.brokers.http.proxy import EgressProxy, read_proxy
from relay.brokers.http.signing import Signer
from relay.core.errors import ConfigError
from relay.version import __version__

_AGENT: Final = f"openoutbox-relay/{__version__}"
_SHAPE: Final = (
    "write https://host/path, and percent-encode special characters (a blank is %20; in a login @ is %40, / is %2F)"
)
_BETWEEN: Final = re.compile(r"[/?&=:;]+")
_TELLING: Final = 8  # characters from which on a part of the path may be a secret; shorter ones are words as a rule
_SHORTEST_SECRET: Final = 4
_VISIBLE: Final = re.compile(r"[!-~]+")
_CONTENT_TYPE: Final = re.compile(r"[!#$&^_.+\-0-9A-Za-z]+/[!#$&^_.+\-0-9A-Za-z]+(?:;[ !-~]*[!-~])?")


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """Where a request goes, and how it is signed."""

    origin: Origin
    target: str = field(repr=False)
    """Path and query: they may hold a secret."""
    authorization: str | None = field(repr=False)
    """The value of Authorization; None without a login in the URL."""
    signer: Signer = field(repr=False)
    proxy: EgressProxy | None
    """What its requests go through."""
    head: bytes = field(repr=False)
    """How each request begins: what is the same for all of them."""

    @property
    def receiver(self) -> str:
        """Host and path, without query and login."""
        return f"{self.origin}{self.target.partition('?')[0]}"

    def masked(self, text: str) -> str:
        """A text of the receiver's without the request's path, query and login."""
        token = (self.authorization or "").removeprefix("Basic ")
        login = base64.b64decode(token).decode()
        secrets = {self.target, token, login, *login.split(":", 1)}
        secrets |= {part for part in _BETWEEN.split(f"{self.target}/{unquote(self.target)}") if len(part) >= _TELLING}
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, "***")
        return text


def receiver(options: HttpOptions) -> str:
    """See ``Endpoint.receiver``. Raises ConfigError as ``read_endpoint`` does."""
    return read_endpoint(options).receiver


def read_endpoint(options: HttpOptions) -> Endpoint:
    """The endpoint of the options. Raises ConfigError, which names the variable.

    No message shows a secret, or a part of a URL that is wrong: it may hold a login.
    """
    if not _CONTENT_TYPE.fullmatch(options.content_type):
        raise ConfigError(f"HTTP_CONTENT_TYPE: {options.content_type!r} is not a media type; write application/json")
    signer, where = Signer(options.secrets.split()), "PUBLISHER_URL"
    url = options.url.strip()
    try:
        parts = urlsplit(url)
        port, host = parts.port, (parts.hostname or "").encode("idna").decode()
    except ValueError:
        raise ConfigError(f"{where} is not the URL of an endpoint: {_SHAPE}") from None
    if parts.scheme not in PORTS or not host or "#" in url or not _VISIBLE.fullmatch(host + parts.path + parts.query):
        raise ConfigError(f"{where} is not the URL of an endpoint: {_SHAPE}")
    if not options.allow_private and (refusal := literal_refusal(host)):
        raise ConfigError(f"{where}: {refusal}")
    origin = Origin(parts.scheme, host, port or PORTS[parts.scheme])
    headers = [("Host", origin.authority), ("User-Agent", _AGENT)]
    if (login := login_in(parts)) is not None:
        headers.append(("Authorization", login))
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    head = b"POST %s HTTP/1.1\r\n%s" % (target.encode(), lines_of(headers))
    proxy = read_proxy(options.egress_proxy, allow_private=options.allow_private)
    return Endpoint(origin, target, login, signer, proxy, head)
