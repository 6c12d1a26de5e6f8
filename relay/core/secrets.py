"""Secrets kept out of all that the product shows: logs, errors, ``relay-cli``, the console. One list of words for all.

A name is that of a secret when a word of ``SECRET_WORDS`` stands in it, however it is spelled. What may be a secret is
replaced by ``***``. Every function rather masks too much than too little, and none raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote

MASK: Final = "***"

SECRET_WORDS: Final = (
    "passw",
    "passphrase",
    "passwd",
    "pwd",
    "secret",
    "token",
    "credential",
    "apikey",
    "accesskey",
    "privatekey",
    "accountkey",
    "keypem",
    "oauthbearerconfig",
    "authorization",
    "jaas",
    "jwt",
    "seed",
    "signature",
)
"""Small letters alone: a name is compared without its case, its separators and its percent-encoding."""
OPEN_PARAMETERS: Final = frozenset(
    {"host", "hostaddr", "port", "dbname", "user", "sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout"}
    | {"target_session_attrs", "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username"}
    | {"ssl.ca.location", "ssl.certificate.location", "ssl.key.location"}
)
"""Parameters of URLs and connection strings whose values are no secret; of a URL no others are shown."""

_PLAIN: Final = re.compile(r"[\w./:,+\-]*")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_NEXT_URL: Final = re.compile(r",(?=\s*[A-Za-z][A-Za-z0-9+.\-]*://)")
_CONNECTION_STRING: Final = re.compile(r"\s*\w+\s*=")

_URL: Final = re.compile(r"(?<![\w+.\-:/@])[A-Za-z][A-Za-z0-9+.\-]*+://")
_ENCODED_LOGIN: Final = re.compile(r"(%3A%2F%2F)[^\s\"'&]*(%40|@)", re.IGNORECASE)
_BARE_LOGIN: Final = re.compile(r"(?<![\w/])[^\s\"'<>@:/,=&?]++:[^\s\"'<>@]+(?:@[^\s\"'<>@]*)*@")
_TOKEN_END: Final = re.compile(r"[\s\"'<>]")
_USER_AND_MORE: Final = re.compile(r"[^\s/?#@:\[]*:(?!\d{1,5}(?:[/?,;)\s\"']|$))")
_WHOLE_ADDRESS: Final = re.compile(r"@[\w.\-\[\]]*(?::\d|/)[^@]*$")
"""A host with a port or a path: an ``@`` after a blank belongs to something else."""
_HEADER: Final = re.compile(r"\b(bearer|basic)(\s+)[\w.~+/=\-]{8,}", re.IGNORECASE)
_QUOTED_NAME: Final = r"(?<!\\)(?P<mark>\\*[\"'])(?P<key>[^\"'\\=:]{1,100})(?P=mark)\s*[=:]\s*"
_BARE_NAME: Final = r"(?<![\w.\-%])(?P<name>[\w.\-%]++)\s*=\s*"
_NAMED: Final = re.compile(f"{_QUOTED_NAME}|{_BARE_NAME}")
_OPENING: Final = re.compile(r"\\*[\"']")
_END_OF_BARE: Final = re.compile(r"[\s,}\]]|$")
_NEXT_NAME: Final = re.compile(r"[\s,;&]+(?P<name>[\w.\-%]++)\s*=")


def is_secret(name: str) -> bool:
    """Whether the value of a variable, a property or a parameter of this name is a secret."""
    letters = re.sub(r"[\W_]", "", unquote(name)).lower()
    return any(word in letters for word in SECRET_WORDS)


def mask_url(url: str) -> str:
    """A URL, a list of them or a connection string, fit to be shown.

    The password in front of the host is masked, a user name stays (on NATS a name without a password is a token,
    so it goes too), and so are all parameters but ``OPEN_PARAMETERS``. Without a scheme, everything before an ``@``
    goes. A password may hold any character unescaped, blanks and quotes too.
    """
    if _CONNECTION_STRING.match(url):
        return mask_secrets(url)
    parts = _NEXT_URL.split(url) if "@" in url else [url]
    logins = ["@" in part for part in parts]
    if logins != sorted(logins, reverse=True):  # a part without a login in front may be the begin of a password
        parts = [url]
    return ",".join(map(_masked_url, parts))


def mask_values(text: str, properties: Mapping[str, object]) -> str:
    """``text`` without the values of those properties that are secrets."""
    for name, value in properties.items():
        if value and isinstance(value, str) and is_secret(name):
            text = text.replace(value, MASK)
    return text


def mask_secrets(text: str) -> str:
    """Any text, with the secrets of the URLs, connection strings, JAAS texts and JSON in it masked."""
    if "%40" in text:
        text = _ENCODED_LOGIN.sub(rf"\1{MASK}\2", text)
    if "@" in text or "=" in text or ":" in text:
        text = "".join(map(_masked_line, text.splitlines(keepends=True)))
    return _HEADER.sub(rf"\1\2{MASK}", text)


def _masked_url(url: str) -> str:
    address, mark, query = url.partition("?")
    scheme, separator, rest = address.partition("://")
    if not _SCHEME.fullmatch(scheme.strip()) or not separator:
        scheme, separator, rest = "", "", address
    if "@" in query:  # the ? may be one of the password, or the @ one of a parameter
        return f"{scheme}{separator}{MASK}"
    shown = f"{scheme}{separator}{_masked_login(rest, named=bool(separator))}"
    return shown + mark + "&".join(map(_masked_parameter, query.split("&")))


def _masked_login(rest: str, *, named: bool) -> str:
    """User and host; ``named`` says that a name in front of a colon is a user's."""
    info, at, address = rest.rpartition("@")
    if not at:
        return rest
    user, colon, _ = info.partition(":")
    return f"{user}:{MASK}@{address}" if colon and named else f"{MASK}@{address}"


def _masked_parameter(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    if not equals:  # the rest of a value with a bare &, or nothing
        return MASK if name else ""
    shown = unquote(name) in OPEN_PARAMETERS and _PLAIN.fullmatch(value)
    return f"{name}={value if shown else MASK}"


def _masked_line(line: str) -> str:
    """One line of a text. What is masked for two reasons is masked once, as far as either reaches."""
    logins = list(_logins(line)) if "@" in line else []
    bare = [match.span() for match in _BARE_LOGIN.finditer(line)] if "@" in line else []
    others = [(start, end - 1) for start, end in bare if not any(start < to and at < end for at, to in logins)]
    pieces: list[str] = []
    at = 0
    for start, end in sorted([*logins, *others, *_named(line)]):
        if start > at or not pieces:
            pieces += [line[at:start], MASK]
        at = max(at, end)
    return "".join(pieces) + line[at:]


def _logins(line: str) -> Iterator[tuple[int, int]]:
    """Where the secret of each URL with a login begins and ends: after the user's name, and before the last ``@``."""
    urls = list(_URL.finditer(line))
    ends_of_urls = [*(url.start() for url in urls), len(line)][1:]
    for url, end_of_url in zip(urls, ends_of_urls, strict=True):
        segment = line[url.end() : end_of_url]
        quote = line[url.start() - 1 : url.start()]
        if quote and quote in "\"'":
            # A quote within the password ends nothing, nor does one before the login is complete.
            ends = [match.start() for match in re.finditer(rf"{quote}(?!\w)", segment)]
            segment = next((segment[:end] for end in ends if "@" in segment[:end]), segment)
        else:
            token = _TOKEN_END.split(segment, maxsplit=1)[0]
            if _WHOLE_ADDRESS.search(token):
                segment = token
            elif "@" not in token and not _USER_AND_MORE.match(segment):
                continue
        info, at, _ = segment.rpartition("@")
        if at:
            user, colon, _ = info.partition(":")
            yield url.end() + (len(user) + 1 if colon else 0), url.end() + len(info)


def _named(line: str) -> Iterator[tuple[int, int]]:
    """Where each value that a name with a secret word announces begins and ends."""
    position = 0
    while (match := _NAMED.search(line, position)) is not None:
        position = match.end()  # a value may itself begin with a name, as that of a URL's parameter
        if is_secret(match["key"] or match["name"]):
            position = _end_of_value(line, match)
            yield match.end(), position


def _end_of_value(line: str, match: re.Match[str]) -> int:
    start, end = match.end(), len(line.rstrip("\r\n"))
    opening = _OPENING.match(line, start)
    if opening is not None:
        closing = re.compile(rf"(?<!\\){re.escape(opening[0])}(?![\w\"'])").search(line, opening.end())
        return closing.end() if closing is not None else end
    if match["key"] is not None:
        bare = line[start : start + 1] not in ("[", "{")  # a list or an object: everything after it goes too
        return min(end, _END_OF_BARE.search(line, start).start()) if bare else end  # type: ignore[union-attr] # $ matches
    if "jaas" in match["name"].lower():
        return end
    # Blanks and separators may be part of it: it ends where a known name follows, or the quotes around all of it end.
    for following in _NEXT_NAME.finditer(line, start):
        if unquote(following["name"]) in OPEN_PARAMETERS:
            end = min(end, following.start())
            break
    for quote in "\"'":
        if line.count(quote, 0, match.start()) % 2:
            closing = re.compile(rf"{quote}(?!\w)").search(line, start)
            end = min(end, closing.start()) if closing is not None else end
    return end
