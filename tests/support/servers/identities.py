"""Certificates and keys of the tests' own: an authority, a server's and a client's certificate, as PEM files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, each in a file."""

    certificate: Path
    key: Path


class Identities:
    """An authority; everything it makes is written to ``folder``, its own certificate to ``ca_file``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.ca_file = folder / "ca.pem"
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(str(self.ca_file))

    def issue(self, name: str, *hosts: str) -> KeyPair:
        """A certificate for hosts (by default 127.0.0.1 and localhost); its common name is the first of them."""
        hosts = hosts or ("127.0.0.1", "localhost")
        leaf = self._authority.issue_cert(*hosts, common_name=hosts[0])
        pair = KeyPair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        # Java takes PKCS 8 alone.
        pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        pair.certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        pair.key.chmod(0o600)
        return pair
