"""The page of a job, and where people find it."""

from __future__ import annotations

from pathlib import Path

from relay.core.errors import ConfigError
from relay.spark.jobs.folder import Folder

NAME = "index.html"


def publish_page(folder: Folder, file: str | None, html: str) -> str:
    """Write the page to the job's folder, and to a local file if one is named; returns the place that people open.

    Raises ConfigError for a local file that cannot be written.
    """
    folder.write(NAME, html)
    if file is None:
        return f"{folder.path}/{NAME}"
    try:
        Path(file).write_text(html, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--page: {file}: {error.strerror}") from None
    return file
