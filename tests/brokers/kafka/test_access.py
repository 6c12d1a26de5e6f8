"""Every way to log in to Kafka, each with a good and a bad secret: which of them connects, and what is reported."""

from __future__ import annotations

import asyncio
import base64
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from relay.brokers.kafka.asking import KafkaAsking
from relay.brokers.kafka.publisher import KafkaPublisher
from relay.core.errors import BrokerRefused, BrokerUnreachable
from relay.core.origins import LiveUrl, PasswordCommand, SecretOrigin, remember
from relay.core.outcome import Acknowledged, Unreachable
from tests.brokers.harness.base import Collector, make_event
from tests.support.fixtures.kafka import create_topic
from tests.support.options import kafka_options
from tests.support.servers.identities import Identities, KeyPair
from tests.support.servers.kafka_secured import PASSWORD, USER, SecuredKafka
from tests.support.servers.token_issuer import TokenIssuer
from tests.support.waiting import patience

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("secured kafka")]

CLIENT_SECRET = "the+client's secret"
WRONG = "wr0ng/secret+of ours"
TOPIC = "letters"


@dataclass(frozen=True, slots=True)
class Secured:
    """The broker and everything that a client needs."""

    broker: SecuredKafka
    identities: Identities
    strangers: Identities
    """Another authority, which the broker does not know."""
    issuer: TokenIssuer

    def url(self, listener: str, login: str = "", **properties: str | Path) -> str:
        """The PUBLISHER_URL for one listener; an underscore in a property's name stands for a dot."""
        known: dict[str, str | Path] = {"ssl_ca_location": self.identities.ca_file}
        parameters = known | properties
        query = "&".join(f"{name.replace('_', '.')}={quote(str(value), safe='')}" for name, value in parameters.items())
        return f"kafka://{login}{self.broker.address(listener)}?{query}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    identities = Identities(folder / "ours")
    with (
        TokenIssuer(USER, CLIENT_SECRET, folder / "keys.json") as issuer,
        SecuredKafka(identities, folder / "keys.json") as broker,
    ):
        create_topic(AdminClient({"bootstrap.servers": broker.url}), TOPIC)
        yield Secured(broker, identities, Identities(folder / "strangers"), issuer)


def sasl(secured: Secured, mechanism: str, password: str) -> str:
    listener = "PLAIN" if mechanism == "PLAIN" else "SCRAM"
    return secured.url(listener, f"{USER}:{quote(password, safe='')}@", sasl_mechanism=mechanism)


def oauth(secured: Secured, secret: str) -> str:
    return secured.url(
        "OAUTH",
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_method="oidc",
        sasl_oauthbearer_client_id=USER,
        sasl_oauthbearer_client_secret=secret,
        sasl_oauthbearer_token_endpoint_url=secured.issuer.url,
    )


def by_certificate(secured: Secured, pair: KeyPair) -> str:
    return secured.url(
        "MUTUAL", security_protocol="SSL", ssl_certificate_location=pair.certificate, ssl_key_location=pair.key
    )


def good_url(secured: Secured, way: str) -> str:
    match way:
        case "TLS":
            return secured.url("TLS", security_protocol="SSL")
        case "MUTUAL":
            return by_certificate(secured, secured.identities.issue("client", "relay.test"))
        case "OAUTHBEARER":
            return oauth(secured, CLIENT_SECRET)
        case _:
            return sasl(secured, way, PASSWORD)


def bad_url(secured: Secured, way: str) -> str:
    match way:
        case "TLS":
            return secured.url("TLS", security_protocol="SSL", ssl_ca_location=secured.strangers.ca_file)
        case "MUTUAL":
            return by_certificate(secured, secured.strangers.issue("client", "relay.test"))
        case "OAUTHBEARER":
            return oauth(secured, WRONG)
        case _:
            return sasl(secured, way, WRONG)


REASONS = {
    "PLAIN": "Invalid username or password",
    "SCRAM-SHA-256": "invalid credentials with SASL mechanism SCRAM-SHA-256",
    "SCRAM-SHA-512": "invalid credentials with SASL mechanism SCRAM-SHA-512",
    "OAUTHBEARER": "invalid_client",
    "TLS": "broker certificate could not be verified",
    "MUTUAL": "bad certificate",
}


@pytest.mark.parametrize("way", REASONS)
async def test_a_good_secret_connects(secured: Secured, way: str) -> None:
    publisher, sink, events = KafkaPublisher(kafka_options(good_url(secured, way))), Collector(), [make_event(TOPIC)]
    await publisher.open()
    await publisher.publish(events, sink)
    assert await sink.outcomes(events) == [Acknowledged()]
    await publisher.close()


@pytest.mark.parametrize(("way", "reason"), REASONS.items())
async def test_a_bad_secret_is_unreachable_and_reported_without_it(
    secured: Secured, way: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    publisher, sink, events = KafkaPublisher(kafka_options(bad_url(secured, way))), Collector(), [make_event(TOPIC)]
    await publisher.open()
    reported = await _probe_error(publisher, reason)
    await publisher.publish(events, sink)
    await publisher.abandon(reported)
    assert await sink.outcomes(events) == [Unreachable(reported)]
    await publisher.close()
    for secret in (WRONG, quote(WRONG, safe=""), "PRIVATE KEY"):
        assert secret not in reported + caplog.text


async def _probe_error(publisher: KafkaPublisher, until: str) -> str:
    """What a probe says once it knows the reason; the first may only report a timeout."""
    async with asyncio.timeout(patience()):
        while True:
            with pytest.raises(BrokerUnreachable) as caught:
                await publisher.probe(1.0)
            if until in str(caught.value):
                assert isinstance(caught.value, BrokerRefused)
                return str(caught.value)


async def test_a_password_that_changes_in_its_file_is_given_to_the_clients(secured: Secured, tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(sasl(secured, "SCRAM-SHA-256", "first"))
    admin = AdminClient({"bootstrap.servers": secured.broker.url})
    change_password(admin, "first")
    remember(file.read_text(), SecretOrigin("PUBLISHER_URL_FILE", file.read_text))
    url = file.read_text()
    publisher = KafkaPublisher(kafka_options(url, live=LiveUrl(url)))
    await publisher.open()
    await published(publisher)
    await publisher.probe(patience(10))
    change_password(admin, "second")
    file.write_text(sasl(secured, "SCRAM-SHA-256", "second"))
    await publisher.probe(patience(10))
    await publisher.abandon("a new connection")
    await published(publisher)
    await publisher.close()
    change_password(admin, PASSWORD)


async def test_new_files_of_certificates_are_read_and_no_event_in_flight_is_lost(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    used = KeyPair(tmp_path / "certificate", tmp_path / "key")

    def put(pair: KeyPair) -> None:
        for source, target in ((pair.certificate, used.certificate), (pair.key, used.key)):
            target.with_suffix(".new").write_bytes(source.read_bytes())
            target.with_suffix(".new").rename(target)

    good = secured.identities.issue("client", "relay.test")
    put(good)
    publisher = KafkaPublisher(kafka_options(by_certificate(secured, used)))
    await publisher.open()
    await publisher.probe(patience(10))
    sink, events = Collector(), [make_event(TOPIC) for _ in range(200)]
    await publisher.publish(events, sink)
    put(secured.strangers.issue("client", "relay.test"))
    with pytest.raises(BrokerRefused):
        await publisher.probe(patience(5))
    assert await sink.outcomes(events) == [Acknowledged()] * len(events)
    used.key.write_text("half of one")
    with pytest.raises(BrokerUnreachable):
        await publisher.probe(patience(5))
    assert "the new certificates are not used" in caplog.text
    put(good)
    await publisher.probe(patience(10))
    await published(publisher)
    await publisher.close()


async def test_what_looks_for_proofs_reads_new_files_of_certificates_too(secured: Secured, tmp_path: Path) -> None:
    used = KeyPair(tmp_path / "certificate", tmp_path / "key")

    def put() -> None:
        pair = secured.identities.issue("client", "relay.test")
        used.certificate.write_bytes(pair.certificate.read_bytes())
        used.key.write_bytes(pair.key.read_bytes())

    put()
    asking = KafkaAsking(kafka_options(by_certificate(secured, used), transactions_prefix=uuid4().hex))
    await asking.open()
    assert not await asking.keeps_proofs()
    first = asking._looker
    await asking.probe(patience(10))
    assert asking._looker is first
    put()
    await asking.probe(patience(10))
    asking._look_at = 0.0
    assert not await asking.keeps_proofs()
    assert asking._looker is not None
    assert asking._looker is not first
    await asking.close()


@pytest.mark.process
async def test_a_command_prints_the_tokens(secured: Secured, tmp_path: Path) -> None:
    """OAUTHBEARER without OIDC: what MSK's and other services' signers print."""
    file = tmp_path / "token"
    file.write_text("no token\n2099-01-01T00:00:00Z\n")
    url = secured.url("OAUTH", security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER")
    command = PasswordCommand("KAFKA_PASSWORD_COMMAND", f"cat {file}")
    publisher = KafkaPublisher(kafka_options(url, live=LiveUrl(url, command)))
    await publisher.open()
    with pytest.raises(BrokerUnreachable):
        await publisher.probe(patience(2))
    file.write_text(f"{secured.issuer.token(USER)}\n")
    command.refused()
    await publisher.probe(patience(10))
    await published(publisher)
    await publisher.close()


@pytest.mark.process
async def test_the_tokens_for_msk_reach_a_listener_which_is_not_msk(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only MSK checks AWS' signatures: another broker refuses the token, and says so."""
    for name, value in {"AWS_ACCESS_KEY_ID": "AKIAOFTHETESTS000000", "AWS_SECRET_ACCESS_KEY": WRONG}.items():
        monkeypatch.setenv(name, value)
    command = PasswordCommand("KAFKA_PASSWORD_COMMAND", f"{sys.executable} -m relay.brokers.kafka.msk eu-central-1")
    signed = base64.urlsafe_b64decode(command.password() + "==").decode()
    assert signed.startswith("https://kafka.eu-central-1.amazonaws.com/?Action=kafka-cluster%3AConnect&X-Amz-Algorithm")
    assert 600 < command.until - time.time() <= 900
    url = secured.url("OAUTH", security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER")
    publisher = KafkaPublisher(kafka_options(url, live=LiveUrl(url, command)))
    await publisher.open()
    reported = await _probe_error(publisher, "invalid_token")
    await publisher.close()
    assert WRONG not in reported


def change_password(admin: AdminClient, password: str) -> None:
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    changes = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, mechanism, password.encode())])
    for change in changes.values():
        change.result(patience(10))


async def published(publisher: KafkaPublisher) -> None:
    sink, events = Collector(), [make_event(TOPIC)]
    await publisher.publish(events, sink)
    assert await sink.outcomes(events) == [Acknowledged()]
