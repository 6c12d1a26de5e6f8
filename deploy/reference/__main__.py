"""``python -m deploy.reference``: rewrite the generated parts of http.md and sql.md."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from deploy.reference.pages import PAGES, renewed
from relay.core.markers import rewrite

ROOT: Final = Path(__file__).parents[2]

if __name__ == "__main__":
    for page in PAGES:
        rewrite(ROOT / page, partial(renewed, page))
