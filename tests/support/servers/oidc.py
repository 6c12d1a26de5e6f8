"""A real OpenID Connect provider, npm's oidc-provider, on a free port of 127.0.0.1."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from relay.localservers.process import ServerFailed, accepts, free_port, remove, run_tool
from relay.localservers.server import LocalServer
from tests.support.paths import CACHE

VERSION: Final = "9.13.3"
CLIENT_ID: Final = "console"
CLIENT_SECRET: Final = "the secret of this test's client"

_SCRIPT: Final = Path(__file__).with_name("oidc-provider.mjs")


class OidcProvider(LocalServer):
    """One provider with one client, whose users are the keys of ``users`` and log in with any password."""

    name = "oidc-provider"
    ready_within = 30.0

    def __init__(self, redirect_uri: str, users: Mapping[str, Any], *, claims_in_token: bool = True) -> None:
        super().__init__()
        self._redirect_uri = redirect_uri
        self._users = users
        self._claims_in_token = claims_in_token
        self.port = 0

    @property
    def url(self) -> str:
        """The issuer."""
        return f"http://127.0.0.1:{self.port}"

    def _prepare(self) -> None:
        self.port = free_port()

    def _command(self) -> list[str | Path]:
        client = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "redirect_uris": [self._redirect_uri]}
        options = {
            "module": (_package() / "lib/index.js").as_uri(),
            "issuer": self.url,
            "client": client,
            "users": self._users,
            "claims_in_token": self._claims_in_token,
        }
        return ["node", _SCRIPT, json.dumps(options)]

    def _answers(self) -> bool:
        return accepts(self.port)


def _package() -> Path:
    """The folder of the package; fetched by npm on the first call in a checkout."""
    folder = CACHE / f"oidc-provider-{VERSION}"
    package = folder / "node_modules/oidc-provider"
    if package.is_dir():
        return package
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            raise ServerFailed(
                f"the tests log in at a real OpenID Connect provider and need {tool}: install nodejs, npm"
            )
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "oidc-provider.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            unfinished = folder.with_suffix(".unfinished")
            remove(unfinished)
            unfinished.mkdir()
            options = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(unfinished)]
            run_tool(["npm", "install", *options, f"oidc-provider@{VERSION}"], unfinished)
            unfinished.rename(folder)
    return package
