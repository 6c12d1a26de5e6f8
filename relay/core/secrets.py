"""Secrets kept out of all that the product shows: logs, errors, ``relay-cli``, the console. One list of words for all.

A name is that of a secret when a word of ``SECRET_WORDS`` stands in it, however it is spelled. What may be a secret is
replaced by ``***``. Every function rather masks too much than too little, and none raises.

Each takes time in proportion to the length of its text: applications and brokers write much of it. So no pattern begins
within what it has read in vain (a lookbehind holds it to the begin of a run), and what is read for a value is masked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

MASK: Final = "***"

SECRET_WORDS: Final = (
    "passw",
    "passphrase",
    "passcode",
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
    "cookie",
    "sessionid",
)
"""Small letters alone: a name is compared without its case, its separators and its percent-encoding."""
_SECRET_NAMES: Final = frozenset({"pass", "pw", "sig", "sid", "auth"})
"""Too short to be looked for within a name: its last part is compared with them."""
OPEN_PARAMETERS: Final = frozenset(
    {"host", "hostaddr", "port", "dbname", "user", "sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout"}
    | {"target_session_attrs", "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username"}
    | {"ssl.ca.location", "ssl.certificate.location", "ssl.key.location"}
)
"""Parameters of URLs and connection strings whose values are no secret; of a URL no others are shown."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_\-\s]{16,}={0,2}\s*")
_PLAIN: Final = re.compile(r"[\w./:,+\-]*")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_NEXT_URL: Final = re.compile(r",(?=\s*[A-Za-z][A-Za-z0-9+.\-]*://)")
_CONNECTION_STRING: Final = re.compile(r"\s*\w+\s*=")

_URL: Final = re.compile(r"(?<![\w+.\-:/@])[A-Za-z][A-Za-z0-9+.\-]*+://")
_ENCODED_URL: Final = re.compile(r"%3A%2F%2F([^\s\"'&]*)", re.IGNORECASE)
_TOKEN_WITH_AT: Final = re.compile(r"(?<![^\s\"'<>])[^\s\"'<>@]*@[^\s\"'<>]*")
_BARE_USER: Final = re.compile(r"(?<![^\s\"'<>@:/,=&?])[^\s\"'<>@:/,=&?]++(?=:[^\s\"'<>@])")
_NO_LETTER: Final = re.compile(r"[^\w/]")
_TOKEN_END: Final = re.compile(r"[\s\"'<>]")
_USER_AND_MORE: Final = re.compile(r"[^\s/?#@:\[]*:(?!\d{1,5}(?:[/?,;)\s\"']|$))")
_WHOLE_ADDRESS: Final = re.compile(r"@[\w.\-\[\]]*(?::\d|/)[^@]*$")
"""A host with a port or a path: an ``@`` after a blank belongs to something else."""
_HEADER: Final = re.compile(
    r"\b((?:bearer|basic)\s+|authorization:\s*(?:\w{1,40}\s+)?(?=\S{0,200}\d))[\w.~+/=\-]{8,}"
    r"|\b(authorization:\s*digest\s).+",
    re.IGNORECASE,
)
_KEY_BLOCK: Final = re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(-----END|\Z)", re.DOTALL)
_ISSUED: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:AKIA|ASIA)[A-Z0-9]{16}|S[ACNOUX][A-Z2-7]{50,}|gh[oprsu]_\w{20,}|github_pat_\w{20,}"
    r"|(?:glpat-|xox[a-z]-|[rs]k_live_|[rs]k_test_|sk-|npm_|hf_|pypi-|AIza|ya29\.|SG\.)[\w.\-]{20,}"
    r"|eyJ[\w\-]{17,}(?:\.[\w\-]*){0,2})"
)
"""Keys and tokens that are known by how they begin: of AWS, NATS, GitHub, GitLab, Slack, Stripe and others; JWT."""
_HOOK: Final = re.compile(r"(hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/)[^\s\"'<>]+")
_PASSWORD_FILE: Final = re.compile(
    r"(?<![\w.\-*])([\w.\-*]++:(?:\d{2,5}|\*):[\w\-*]{1,100}:[\w\-*]{1,100}:)[^\s:@/]++(?!\S)"
)
"""A line of libpq's password file."""
_QUOTED_NAME: Final = r"(?<!\\)(?P<mark>\\*[\"'])(?P<key>[^\"'\\=:]{1,100})(?P=mark)\s*(?:=>|[=:])\s*"
_BARE_NAME: Final = r"(?<![\w.\-%])(?P<name>[\w.\-%]++)\s*:?=\s*"
_SAID_NAME: Final = r"(?<![\w.\-%])(?P<said>[\w.\-%]++)\s*:(?!//)\s*|(?<![\w.\-%])(?P<flag>--[\w\-]++)\s+"
_BEFORE_QUOTE: Final = r"(?<![\w.\-%])(?P<verb>(?i:password|identified\s+by))\s+(?=[\"'])"
_TAG: Final = r"<(?P<tag>[\w.\-:]++)(?=[^<>]{0,200}>)"
_ENCODED_NAME: Final = r"(?<![\w.\-])(?P<encoded>[\w.\-]++)(?i:(?:%22)?(?:%3D|%3A)(?:%2[02])*)"
_NAMED: Final = re.compile(f"{_QUOTED_NAME}|{_BARE_NAME}")
_SAID: Final = re.compile(f"{_SAID_NAME}|{_BEFORE_QUOTE}|{_TAG}|{_ENCODED_NAME}")
_LIKE_SECRET: Final = re.compile(r"(?=[^\s,;\"'<>]{0,100}\d)[^\s,;\"'<>]{6,}|\S{1,100}$")
_END_OF_ENCODED: Final = re.compile(r"(?i:%26|%22)|[\s&\"'<>]|$")
_OPENING: Final = re.compile(r"\\*[\"']")
_END_OF_BARE: Final = re.compile(r"[\s,}\]]|$")
_QUOTE_OR_NAME: Final = re.compile(r"[\"'](?!\w)|(?<![\w.\-%])(?P<name>[\w.\-%]++)\s*=")
_SIGNS: Final = ("@", "=", ":", "--", "<", "%", "'", '"')
"""One of them is in each text that ``_masked_line`` masks a part of."""
_NAMED_SIGNS: Final = ("=", "'", '"')
"""One of them is in each match of ``_NAMED``."""
_SAID_SIGNS: Final = (":", "--", "<", "%", "'", '"')
"""One of them is in each match of ``_SAID``, or follows it."""
_SEPARATORS: Final = " \t\f\v,;&"


def is_secret(name: str) -> bool:
    """Whether the value of a variable, a property or a parameter of this name is a secret."""
    parts = re.split(r"[\W_]+", unquote(name).lower())
    letters = "".join(parts)
    return parts[-1] in _SECRET_NAMES or any(word in letters for word in SECRET_WORDS)


def shown_secret(text: str) -> str:
    """What may be shown of a value that should be a URL: its length alone, where it is none."""
    if _SCHEME.fullmatch(text.partition("://")[0]) and "://" in text:
        return repr(mask_url(text))
    alike = "; this looks like base64: decode it once more" if _BASE64.fullmatch(text) else ""
    return f"a value of {len(text)} characters that begins with no scheme://{alike}"


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
    if "-----BEGIN" in text:
        text = _KEY_BLOCK.sub(rf"\1{MASK}\2", text)
    if "%40" in text:
        text = _ENCODED_URL.sub(_masked_encoded, text)
    if any(sign in text for sign in _SIGNS):
        text = "".join(map(_masked_line, text.splitlines(keepends=True)))
        text = _PASSWORD_FILE.sub(rf"\1{MASK}", text)
    text = _HEADER.sub(rf"\1\2{MASK}", text)
    return _ISSUED.sub(MASK, _HOOK.sub(rf"\1{MASK}", text))


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


def _masked_encoded(url: re.Match[str]) -> str:
    """A percent-encoded URL without what stands before its last ``@``."""
    at = max(url[1].rfind("@"), url[1].rfind("%40"))
    return url[0] if at < 0 else f"{url[0][: url.start(1) - url.start()]}{MASK}{url[1][at:]}"


def _masked_line(line: str) -> str:
    """One line of a text. What is masked for two reasons is masked once, as far as either reaches."""
    spans = [*_named(line), *_said(line)]
    if "@" in line:
        logins = list(_logins(line))
        spans += [*logins, *_apart(_bare_logins(line), logins)]
    pieces: list[str] = []
    at = 0
    for start, end in sorted(spans):
        if start > at or not pieces:
            pieces += [line[at:start], MASK]
        at = max(at, end)
    return "".join(pieces) + line[at:]


def _bare_logins(line: str) -> Iterator[tuple[int, int]]:
    """Where a login without a scheme begins and ends: from a user's name to the last ``@`` of its token."""
    for token in _TOKEN_WITH_AT.finditer(line):
        end = line.rindex("@", token.start(), token.end())
        for user in _BARE_USER.finditer(line, token.start(), end):
            start = user.start()
            if line[start - 1 : start] == "/":  # of a path: what begins behind another sign may be a user's name
                sign = _NO_LETTER.search(user[0])
                start = user.end() if sign is None else start + sign.end()
            if start < user.end():
                yield start, end
                break


def _apart(spans: Iterable[tuple[int, int]], others: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Those of ``spans`` that meet none of the others; both are sorted."""
    place = 0
    for start, end in spans:
        while place < len(others) and others[place][1] <= start:
            place += 1
        if place == len(others) or others[place][0] > end:
            yield start, end


def _logins(line: str) -> Iterator[tuple[int, int]]:
    """Where the secret of each URL with a login begins and ends: after the user's name, and before the last ``@``."""
    urls = list(_URL.finditer(line))
    ends_of_urls = [*(url.start() for url in urls), len(line)][1:]
    for url, end_of_url in zip(urls, ends_of_urls, strict=True):
        segment = line[url.end() : end_of_url]
        quote = line[url.start() - 1 : url.start()]
        if quote and quote in "\"'":
            # A quote within the password ends nothing, nor does one before the login is complete.
            closing = re.compile(rf"{quote}(?!\w)").search(segment, max(segment.find("@"), 0))
            segment = segment[: closing.start()] if closing is not None and "@" in segment else segment
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
    end_of_line = len(line.rstrip("\r\n"))
    position = counted = 0
    odd = dict.fromkeys("\"'", False)
    """Whether a quote of that kind is open."""
    last = max(map(line.rfind, _NAMED_SIGNS))
    while position <= last and (match := _NAMED.search(line, position)) is not None:
        position = match.end()  # a value may itself begin with a name, as that of a URL's parameter
        if is_secret(match["key"] or match["name"]):
            for quote in odd:
                odd[quote] ^= line.count(quote, counted, match.start()) % 2 == 1
            counted = match.start()
            position = _end_of_value(line, match, end_of_line, [quote for quote in odd if odd[quote]])
            yield match.end(), position


def _said(line: str) -> Iterator[tuple[int, int]]:
    """Where the value of ``name: value``, of ``--name value``, of a tag, of an encoded name begins and ends."""
    end_of_line = len(line.rstrip("\r\n"))
    position = 0
    last = max(map(line.rfind, _SAID_SIGNS))
    while position <= last and (match := _SAID.search(line, position)) is not None:
        position = max(match.end(), _end_of_said(line, match, end_of_line))
        if position > match.end():
            yield match.end(), position


def _end_of_said(line: str, match: re.Match[str], end: int) -> int:
    """0 where it is no secret. Names in capital letters begin messages about variables."""
    start = match.end()
    if not match["verb"] and not is_secret(match["said"] or match["flag"] or match["tag"] or match["encoded"]):
        return 0
    if match["tag"]:  # its other attributes, too
        closing = line.find("<", start)
        return end if closing < 0 else closing
    if match["encoded"]:
        return min(end, _END_OF_ENCODED.search(line, start).start())  # type: ignore[union-attr] # $ matches
    if match["said"] and match["said"] == match["said"].upper():
        return 0
    return _end_of_quoted(line, start, end) if _OPENING.match(line, start) else _end_of_word(line, match, end)


def _end_of_word(line: str, match: re.Match[str], end: int) -> int:
    """A word behind a colon may be prose: a secret has a digit, or the line to itself."""
    value = _LIKE_SECRET.match(line, match.end(), end)
    if value is None:
        return 0
    alone = value.end() == end and not line[: match.start()].strip(" \t-")
    return value.end() if alone or re.search(r"\d", value[0]) else 0


def _end_of_quoted(line: str, start: int, end: int) -> int:
    opening = _OPENING.match(line, start)
    if opening is None:
        return end
    closing = re.compile(rf"(?<!\\){re.escape(opening[0])}(?![\w\"'])").search(line, opening.end())
    return closing.end() if closing is not None else end


def _end_of_value(line: str, match: re.Match[str], end: int, quotes: Collection[str]) -> int:
    """``end`` is that of the line, ``quotes`` are those that are open where the name begins."""
    start = match.end()
    if _OPENING.match(line, start):
        return _end_of_quoted(line, start, end)
    if match["key"] is not None:
        bare = line[start : start + 1] not in ("[", "{")  # a list or an object: everything after it goes too
        return min(end, _END_OF_BARE.search(line, start).start()) if bare else end  # type: ignore[union-attr] # $ matches
    if "jaas" in match["name"].lower():
        return end
    return _end_of_bare(line, start, end, quotes)


def _end_of_bare(line: str, start: int, end: int, quotes: Collection[str]) -> int:
    # Blanks and separators may be part of it: it ends where a known name follows, or the quotes around all of it end.
    for following in _QUOTE_OR_NAME.finditer(line, start, end):
        at = following.start()
        if following["name"] is None:
            if line[at] in quotes:
                return at
        elif unquote(following["name"]) in OPEN_PARAMETERS:
            value = line[start:at]
            shown = value.rstrip(_SEPARATORS)
            if len(shown) < len(value):
                return start + len(shown)
    return end
