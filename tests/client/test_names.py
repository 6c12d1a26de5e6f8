"""The public names of ``openoutbox``."""

from __future__ import annotations

import pytest

import openoutbox


@pytest.mark.parametrize("name", openoutbox.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(openoutbox, name) is not None


def test_another_name_does_not() -> None:
    with pytest.raises(AttributeError, match="enqeue"):
        openoutbox.enqeue  # type: ignore[attr-defined] # noqa: B018
