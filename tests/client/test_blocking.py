"""Code for asynchronous channels over synchronous ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from openoutbox.blocking import entered, without_loop


@pytest.mark.parametrize("error", [ValueError("why"), StopIteration("why"), KeyboardInterrupt()])
def test_a_block_of_a_synchronous_manager_ends_with_the_error_that_left_it(error: BaseException) -> None:
    ends: list[BaseException] = []

    @contextmanager
    def block() -> Iterator[str]:
        try:
            yield "value"
        except BaseException as left:
            ends.append(left)
            raise

    async def work() -> str:
        with pytest.raises(type(error)) as caught:
            async with entered(block()) as value:
                raise error
        assert caught.value is error
        return value

    assert without_loop(work()) == "value"
    assert ends == [error]


def test_a_coroutine_that_suspends_is_a_fault_of_ours() -> None:
    with pytest.raises(AssertionError, match="never suspends"):
        without_loop(asyncio.sleep(0))
