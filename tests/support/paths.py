"""Where the checkout is, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
"""The root of the checkout."""

CACHE: Final = ROOT / ".cache"
"""Downloads that can be made again."""
