"""Files of certificates and keys: librdkafka reads them once, when a client is made, so new ones need new clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from relay.brokers.kafka.options import CERTIFICATES, KafkaOptions, refusal
from relay.core.errors import ConfigError
from relay.core.filemark import FileMark, file_mark

_NOT_TRIED: Final = ("oauth_cb", "logger")
"""There is no token yet, for which it would wait."""


def try_out(config: Mapping[str, Any], options: KafkaOptions) -> None:
    """Make a producer of it, which reads the files. Raises ConfigError naming the property."""
    # log_level 0 because librdkafka writes its complaints straight to standard error.
    trial = {name: value for name, value in config.items() if name not in _NOT_TRIED} | {"log_level": 0}
    try:
        Producer(trial)
    except KafkaException as error:
        raise ConfigError(refusal(error.args[0].str(), options)) from None


class CertificateFiles:
    """Those that a client's configuration names."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._paths = [str(config[name]) for name in CERTIFICATES if name in config]
        self._last = self._marks()

    def changed(self) -> bool:
        """Whether one of them is another than at the last call, also one that is missing or back."""
        before, self._last = self._last, self._marks()
        return self._last != before

    def _marks(self) -> list[FileMark]:
        return [file_mark(path) for path in self._paths]
