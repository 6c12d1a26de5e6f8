"""A real Apache Kafka broker (KRaft, one node) on free ports of 127.0.0.1.

Its jars come by Maven, once, into ``.cache/`` of the checkout. Topics are never created by themselves, so that a
missing destination is as visible as in production. Needs Java 17 and Maven; where they are missing the error says so.
"""

from __future__ import annotations

import base64
import fcntl
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from relay.localservers.process import ServerFailed, accepts, free_ports, remove, run_tool
from relay.localservers.server import LocalServer
from tests.support.paths import CACHE
from tests.support.servers.java_classes import LEAN, with_classes

VERSION = "4.3.1"

_HERE = Path(__file__).parent
_CACHE = CACHE
_LOG4J = f"-Dlog4j2.configurationFile={_HERE}/kafka-log4j2.xml"
_CLUSTER = "openoutbox-relay-tests"
"""Every cluster's id; Kafka takes any text for it that is as long as one of its own."""


class KafkaServer(LocalServer):
    """One broker, which is its own controller."""

    name = "Kafka"
    ready_within = 90.0

    def __init__(self, *, heap: str = "512m", settings: Mapping[str, str] | None = None) -> None:
        """``heap`` is Java's -Xmx; ``settings`` are broker properties beyond or instead of the usual ones."""
        super().__init__()
        self._heap = heap
        self._settings = dict(settings or {})
        self.port = 0
        self._controller_port = 0
        self._format_options: list[str] = []
        """More options of the tool that prepares the folder; for subclasses, as the next two."""
        self._java_options: list[str] = []
        self._more_listeners: dict[str, int] = {}
        """Ports by the names of listeners, beside the open one."""

    @property
    def url(self) -> str:
        """The bootstrap address, ``host:port``."""
        return f"127.0.0.1:{self.port}"

    def limit_producers(self, bytes_per_second: int) -> None:
        """Set the quota of each client that has none of its own."""
        tool = _java("kafka.admin.ConfigCommand", "--bootstrap-server", self.url)
        quota = ["--alter", "--add-config", f"producer_byte_rate={bytes_per_second}"]
        run_tool([*tool, *quota, "--entity-type", "clients", "--entity-default"], self.folder)

    def _prepare(self) -> None:
        self.port, self._controller_port = free_ports(2)
        self._format()

    def _format(self) -> None:
        properties = self._write_properties()
        remove(data := self.folder / "data")  # of an attempt whose ports were taken
        if self._format_options:
            run_tool(_format_tool(properties, self._format_options), self.folder)
        else:
            shutil.copytree(_formatted(properties), data)
            ids = {"version": "1", "cluster.id": _CLUSTER, "node.id": self._settings.get("node.id", "1")}
            _write(data / "meta.properties", ids | {"directory.id": _random_id()})

    def _command(self) -> list[str | Path]:
        # Without waiting: while the archive is written by a broker, its own command is asked for.
        lean = with_classes("kafka", sorted(jars().iterdir()), _write_classes, wait=False).split()
        properties = self.folder / "server.properties"
        return _java("kafka.Kafka", properties, heap=self._heap, options=[*lean, *self._java_options])

    def _answers(self) -> bool:
        if not accepts(self.port):
            return False
        try:
            return bool(AdminClient({"bootstrap.servers": self.url, "log_level": 0}).list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def _write_properties(self) -> Path:
        listeners = {"PLAINTEXT": self.port, **self._more_listeners, "CONTROLLER": self._controller_port}
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
        } | self._settings
        return _write(self.folder / "server.properties", properties)


def _java(name: str, *arguments: str | Path, heap: str = "256m", options: Sequence[str] = ()) -> list[str | Path]:
    """The command that runs a class of Kafka's."""
    return ["java", *(options or LEAN.split()), _LOG4J, f"-Xmx{heap}", "-cp", f"{jars()}/*", name, *arguments]


def _write(path: Path, properties: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
    return path


def _random_id() -> str:
    """As Kafka writes one: 22 characters, none of which may be taken for an option or a separator."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A").replace("_", "B")


def _format_tool(properties: Path, options: Sequence[str]) -> list[str | Path]:
    return _java("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", properties, *options)


def _formatted(properties: Path) -> Path:
    """The data of a broker that never ran: formatted once for a checkout, since that takes a JVM of its own."""
    folder = _CACHE / f"kafka-{VERSION}-formatted"
    tool = _format_tool(properties, [])  # before the lock: it may fetch the jars
    with (_CACHE / "kafka-formatted.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            run_tool(tool, properties.parent)
            remove(unfinished := _CACHE / f"{folder.name}.unfinished")
            shutil.move(properties.parent / "data", unfinished)  # a copy where it is another file system
            unfinished.rename(folder)
    return folder


def _write_classes(archive: Path) -> None:
    """A broker starts and ends."""
    broker = KafkaServer()
    broker._java_options = [f"-XX:ArchiveClassesAtExit={archive}"]
    with broker:
        broker.stop()


def jars() -> Path:
    """The folder of Kafka's jars; fetched by Maven on the first call in a checkout."""
    return fetched(f"kafka-{VERSION}", "kafka-pom.xml")


def fetched(name: str, pom: str) -> Path:
    """The folder ``name`` of jars that a pom names; fetched by Maven on the first call in a checkout."""
    folder = _CACHE / name
    if folder.is_dir():
        return folder
    for tool, package in (("java", "openjdk-17-jre-headless"), ("mvn", "maven")):
        if shutil.which(tool) is None:
            raise ServerFailed(
                f"the tests start a real Apache Kafka and need {tool} for it: install {package} (Debian: apt-get "
                f"install {package}), or name a running broker in TEST_KAFKA_URL"
            )
    _CACHE.mkdir(exist_ok=True)
    with (_CACHE / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            unfinished = _CACHE / f"{name}.unfinished"
            remove(unfinished)
            command = ["mvn", "-q", "-B", "-f", str(_HERE / pom), "dependency:copy-dependencies"]
            # Maven's usual repository is below the account's home, which may not be there or not be writable.
            where = [f"-DoutputDirectory={unfinished}", f"-Dmaven.repo.local={_CACHE}/maven"]
            run_tool([*command, *where], _CACHE)
            unfinished.rename(folder)
    return folder
