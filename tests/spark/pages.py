"""What Spark's own pages show, by the REST API of the session's user interface."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from pyspark.sql import SparkSession

from tests.support.waiting import wait_until


def page(session: SparkSession, path: str) -> list[dict[str, Any]]:
    """The answer for a path below the application's."""
    context = session.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{path}"
    with urllib.request.urlopen(address, timeout=30) as answer:
        entries: list[dict[str, Any]] = json.load(answer)
    return entries


def description(session: SparkSession, start: str) -> str:
    """The description of the last job that begins so; waits for it, since Spark's listeners are behind the driver."""

    def matching() -> list[str]:
        return [each["description"] for each in page(session, "jobs") if each.get("description", "").startswith(start)]

    return wait_until(matching)[0]
