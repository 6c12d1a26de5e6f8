"""A real Kafka broker with a listener for each way to log in: PLAIN, SCRAM, OAUTHBEARER, TLS and mutual TLS.

The listener of ``url`` is open, for a test's own admin client and consumers. Every other one speaks TLS.
"""

from __future__ import annotations

from pathlib import Path

from relay.localservers.process import free_ports
from tests.support.servers.identities import Identities
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.token_issuer import AUDIENCE, ISSUER

USER = "relay"
PASSWORD = "s3cret/of:the relay"

_PROTOCOLS = {"PLAIN": "SASL_SSL", "SCRAM": "SASL_SSL", "OAUTH": "SASL_SSL", "TLS": "SSL", "MUTUAL": "SSL"}
_PACKAGE = "org.apache.kafka.common.security"


class SecuredKafka(KafkaServer):
    """``address(listener)`` with PLAIN, SCRAM, OAUTH, TLS or MUTUAL."""

    def __init__(self, identities: Identities, token_keys: Path) -> None:
        """``token_keys`` is the file of JSON web keys by which tokens are checked."""
        super().__init__(settings=_settings(identities, token_keys))
        self._format_options = [
            part
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for part in ("--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")
        ]
        self._java_options = [f"-D{_PACKAGE.rsplit('.', 2)[0]}.sasl.oauthbearer.allowed.urls={token_keys.as_uri()}"]

    def address(self, listener: str) -> str:
        """The bootstrap address of one listener."""
        return f"127.0.0.1:{self._more_listeners[listener]}"

    def _prepare(self) -> None:
        self._more_listeners = dict(zip(_PROTOCOLS, free_ports(len(_PROTOCOLS)), strict=True))
        super()._prepare()


def _settings(identities: Identities, token_keys: Path) -> dict[str, str]:
    server = identities.issue("server")
    store = identities.folder / "server.pem"
    store.write_bytes(server.key.read_bytes() + server.certificate.read_bytes() + identities.ca_file.read_bytes())
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **_PROTOCOLS}
    scram = f"{_PACKAGE}.scram.ScramLoginModule required;"
    plain = f'{_PACKAGE}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    return {
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(identities.ca_file),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plain.plain.sasl.jaas.config": plain,
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.scram.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.scram.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule required;",
        "listener.name.oauth.oauthbearer.sasl.server.callback.handler.class": (
            f"{_PACKAGE}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "listener.name.oauth.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": token_keys.as_uri(),
        "listener.name.oauth.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        "listener.name.oauth.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
    }
