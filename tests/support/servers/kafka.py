"""A real Apache Kafka broker (KRaft, one node) on free ports of 127.0.0.1.

Its jars come by Maven, once, into ``.cache/`` of the checkout. Topics are never created by themselves, so that a
missing destination is as visible as in production. Needs Java 17 and Maven; where they are missing the error says so.
"""

from __future__ import annotations

import base64
import fcntl
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from relay.localservers.process import ServerFailed, accepts, free_ports, remove, run_tool
from relay.localservers.server import LocalServer
from tests.support.paths import CACHE

VERSION = "4.3.1"

_HERE = Path(__file__).parent
_CACHE = CACHE
_JAVA = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={_HERE}/kafka-log4j2.xml"]


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
        tool = [*_JAVA, "-Xmx256m", "-cp", f"{jars()}/*", "kafka.admin.ConfigCommand", "--bootstrap-server", self.url]
        quota = ["--alter", "--add-config", f"producer_byte_rate={bytes_per_second}"]
        run_tool([*tool, *quota, "--entity-type", "clients", "--entity-default"], self.folder)

    def _prepare(self) -> None:
        self.port, self._controller_port = free_ports(2)
        properties = self._write_properties()
        remove(self.folder / "data")  # a quorum's voter is known by its port
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
        command: list[str | Path] = [
            *format_tool(),
            "-t",
            cluster,
            "-c",
            properties,
            "--standalone",
            *self._format_options,
        ]
        run_tool(command, self.folder)

    def _command(self) -> list[str | Path]:
        java = [*_JAVA, *self._java_options, f"-Xmx{self._heap}", "-cp", f"{jars()}/*"]
        return [*java, "kafka.Kafka", self.folder / "server.properties"]

    def _answers(self) -> bool:
        if not accepts(self.port):
            return False
        try:
            return bool(AdminClient({"bootstrap.servers": self.url, "log_level": 0}).list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def _write_properties(self) -> Path:
        controller = f"127.0.0.1:{self._controller_port}"
        listeners = {"PLAINTEXT": self.port, **self._more_listeners, "CONTROLLER": self._controller_port}
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": controller,
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
        } | self._settings
        path = self.folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
        return path


def format_tool() -> list[str]:
    """The command that prepares a broker's folder, without its options."""
    return [*_JAVA, "-Xmx256m", "-cp", f"{jars()}/*", "kafka.tools.StorageTool", "format"]


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
