"""Secrets kept out of logs, errors and reprs: what may be a password in a URL is replaced by ``***``.

Both functions rather mask too much than too little, and never raise.
"""

from __future__ import annotations

import re

MASK = "***"

_SENSITIVE = r"[\w.\-]*(?:passw|passphrase|pwd|secret|token|credential|apikey|api_key|jwt|seed)[\w.\-]*"
# Up to the last @ before a blank, a quote or the next URL of a list: an unescaped @ or / in a password is masked too.
_USER_INFO = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*://)(?P<info>(?:(?!,\s*[A-Za-z][A-Za-z0-9+.\-]*://)[^\s\"'<>])*)@"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_NEXT_URL = re.compile(r",(?=\s*[A-Za-z][A-Za-z0-9+.\-]*://)")
_CONNECTION_STRING = re.compile(r"\s*\w+\s*=")
_PARAMETER = re.compile(rf"(?P<name>(?:^|[?&;\s]){_SENSITIVE}\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^&\s\"',;]+)", re.IGNORECASE)


def mask_url(url: str) -> str:
    """A URL, a list of them or a connection string, fit to be shown.

    The password in front of the host is masked, a user name stays (on NATS a name without a password is a token,
    so it goes too), and so are parameters whose name says that they are secret. Without a scheme, everything
    before an ``@`` goes. A password may hold any character unescaped, blanks and quotes too.
    """
    if "@" not in url or _CONNECTION_STRING.match(url):
        return mask_secrets(url)
    parts = _NEXT_URL.split(url)
    logins = ["@" in part for part in parts]
    if logins != sorted(logins, reverse=True):  # a part without a login in front may be the begin of a password
        parts = [url]
    return mask_secrets(",".join(map(_masked_login, parts)))


def _masked_login(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not _SCHEME.fullmatch(scheme.strip()) or not separator:
        scheme, separator, rest = "", "", url
    info, at, address = rest.rpartition("@")
    if not at:
        return url
    user, colon, _ = info.partition(":")
    shown = f"{user}:{MASK}" if colon and separator else MASK
    return f"{scheme}{separator}{shown}@{address}"


def mask_secrets(text: str) -> str:
    """Any text, with the passwords of the URLs and connection strings in it masked."""
    if "@" in text:
        text = _USER_INFO.sub(_masked_user_info, text)
    if "=" in text:
        text = _PARAMETER.sub(lambda match: match["name"] + MASK, text)
    return text


def _masked_user_info(match: re.Match[str]) -> str:
    user, colon, _ = match["info"].partition(":")
    return f"{match['scheme']}{user}:{MASK}@" if colon else f"{match['scheme']}{MASK}@"
