"""A real PostgreSQL that takes TLS alone and asks everybody but its superuser for a secret, with an empty outbox."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg

from relay.localservers.postgres import PostgresServer
from relay.localservers.process import make_folder, unprivileged
from relay.postgres.sql import load_sql, sql_files
from tests.support.servers.identities import Identities, KeyPair

PASSWORD = "s3cret/of:ours"
CERTIFIED = "relay.test"
"""The user who comes in by certificate; its common name is the user's."""
_HBA = f"""
host all postgres 127.0.0.1/32 trust
hostssl all relay 127.0.0.1/32 scram-sha-256
hostssl all {CERTIFIED} 127.0.0.1/32 cert
hostssl all all 127.0.0.1/32 scram-sha-256
"""


class SecuredPostgres:
    """Lets ``relay`` in with a password and ``CERTIFIED`` with a certificate, over TLS alone."""

    def __init__(self, folder: Path) -> None:
        """``folder`` takes the certificates."""
        self.identities = Identities(folder / "ours")
        self.strangers = Identities(folder / "strangers")
        """Another authority, which the server does not know."""
        self._files = make_folder("identity", unprivileged())
        self.server = PostgresServer(settings=self._settings())

    def __enter__(self) -> Self:
        self.server.start()
        with psycopg.connect(self.server.url, autocommit=True) as admin:
            for migration in sql_files("outbox/migrations"):
                admin.execute(load_sql(migration).encode())
            admin.execute(f"CREATE ROLE relay LOGIN PASSWORD '{PASSWORD}'".encode())
            admin.execute(f'CREATE ROLE "{CERTIFIED}" LOGIN'.encode())
            admin.execute(f'GRANT SELECT, UPDATE ON openoutbox_events TO relay, "{CERTIFIED}"'.encode())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.server.close()
        shutil.rmtree(self._files)

    def url(self, password: str = PASSWORD, **parameters: object) -> str:
        """For the user with a password; by default the server's certificate is verified."""
        return self._url(f"relay:{quote(password, safe='')}", parameters)

    def url_of(self, user: str, password: str, database: str, ca_file: str) -> str:
        """For another user, who has a password, in another database."""
        return self._url(f"{user}:{password}", {"sslrootcert": ca_file}, database)

    def url_with(self, pair: KeyPair | None) -> str:
        """For the user who needs a certificate."""
        return self._url(CERTIFIED, {"sslcert": pair.certificate, "sslkey": pair.key} if pair else {})

    def _url(self, login: str, parameters: dict[str, object], database: str = "postgres") -> str:
        known: dict[str, object] = {"sslmode": "verify-full", "sslrootcert": self.identities.ca_file}
        query = "&".join(f"{name}={value}" for name, value in (known | parameters).items())
        return f"postgres://{login}@127.0.0.1:{self.server.port}/{database}?{query}"

    def _settings(self) -> dict[str, str]:
        (self._files / "hba").write_text(_HBA, encoding="utf-8")
        (self._files / "hba").chmod(0o644)
        shutil.copyfile(self.identities.ca_file, self._files / "ca.pem")
        (self._files / "ca.pem").chmod(0o644)
        pair = _readable(self.identities.issue("server"), self._files)
        files = {
            "ssl_cert_file": pair.certificate,
            "ssl_key_file": pair.key,
            "ssl_ca_file": self._files / "ca.pem",
            "hba_file": self._files / "hba",
        }
        return {name: str(path) for name, path in files.items()} | {"ssl": "on"}


def _readable(pair: KeyPair, folder: Path) -> KeyPair:
    """A copy for the account that the server runs as; it takes no key that others may read."""
    copy = KeyPair(folder / "server.crt", folder / "server.key")
    account = unprivileged()
    for source, target in ((pair.certificate, copy.certificate), (pair.key, copy.key)):
        shutil.copyfile(source, target)
        target.chmod(0o600)
        if account is not None:
            os.chown(target, account.uid, account.gid)
    return copy
