"""A real Kafka broker that grants nothing unasked: the user ``relay`` may do what an ACL says."""

from __future__ import annotations

from relay.localservers.process import free_ports
from tests.support.servers.kafka import KafkaServer

_SECURITY = "org.apache.kafka.common.security"


class GrantingKafka(KafkaServer):
    """Who comes to its open port may do everything; ``login_url`` is where ``relay`` logs in."""

    def __init__(self) -> None:
        super().__init__(
            settings={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
                "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                "listener.name.login.plain.sasl.jaas.config": (
                    f'{_SECURITY}.plain.PlainLoginModule required user_relay="secret";'
                ),
                "listener.name.login.scram-sha-256.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
            }
        )
        self._format_options = ["--add-scram", "SCRAM-SHA-256=[name=relay,password=secret]"]

    def login_url(self, mechanism: str = "PLAIN") -> str:
        """Where ``relay`` logs in."""
        address = f"127.0.0.1:{self._more_listeners['LOGIN']}"
        return f"kafka://relay:secret@{address}?security.protocol=SASL_PLAINTEXT&sasl.mechanism={mechanism}"

    def _prepare(self) -> None:
        self._more_listeners = {"LOGIN": free_ports(1)[0]}
        super()._prepare()
