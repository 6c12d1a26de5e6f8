"""``python -m deploy.grafana``: write the dashboards as JSON, for Grafana to import, beside this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from deploy.grafana.dashboards import DASHBOARDS

FOLDER: Final = Path(__file__).parent


def texts() -> dict[str, str]:
    """The content of each file, by its name."""
    return {f"{name}.json": json.dumps(one.json(), indent=2) + "\n" for name, one in DASHBOARDS.items()}


def main() -> None:
    """Write the files."""
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
