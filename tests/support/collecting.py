"""Collecting without the garbage collector: what it creates, modules and tests, lives as long as the process."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Stop the collector meanwhile, and exclude those objects later: a quarter of the time, on two shared cores."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
