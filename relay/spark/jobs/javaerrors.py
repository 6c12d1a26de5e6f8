"""Java's errors, where PySpark has a JVM: PySpark's client for Spark Connect comes without Py4J."""

from __future__ import annotations

from typing import Any, Final

try:
    from py4j.protocol import Py4JJavaError
except ImportError:
    Py4JJavaError = None

JAVA_ERRORS: Final[tuple[type[Exception], ...]] = () if Py4JJavaError is None else (Py4JJavaError,)
"""What Py4J raises for an error of Java's that PySpark has no class for."""


def java_message(error: Any) -> str:  # noqa: ANN401 - Py4J has no types
    """The class and the first line of the message of one of ``JAVA_ERRORS``."""
    return str(error.java_exception.toString()).partition("\n")[0]
