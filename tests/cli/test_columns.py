"""Tables for people: what fits into a width, and which columns go first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relay_cli.columns import ScreenColumn, fit

ID = ScreenColumn("id", ["aaaaaaaa", "bbbbbbbb"], 0)
KIND = ScreenColumn("kind", ["order.created", "user"], 1, 6)
ERROR = ScreenColumn("error", ["", "no acknowledgement"], 2, 6)
TIME = ScreenColumn("time", ["12:00", "13:00"], 5)
EMPTY = ScreenColumn("key", ["", ""], 3)
ALL = [ID, KIND, ERROR, TIME, EMPTY]


def test_everything_is_shown_where_there_is_room_but_empty_columns() -> None:
    assert fit(ALL, 80) == (
        [
            "id        kind           error               time",
            "aaaaaaaa  order.created                      12:00",
            "bbbbbbbb  user           no acknowledgement  13:00",
        ],
        False,
    )


def test_the_least_important_columns_go_first_and_the_first_is_never_cut() -> None:
    assert fit(ALL, 30) == (
        ["id        kind          error", "aaaaaaaa  order.creat…", "bbbbbbbb  user          no ac…"],
        True,
    )
    assert fit(ALL, 17).lines == ["id        kind", "aaaaaaaa  order.…", "bbbbbbbb  user"]
    assert fit(ALL, 5).lines == ["id", "aaaaaaaa", "bbbbbbbb"]


@given(
    st.integers(8, 200), st.lists(st.text(st.characters(codec="ascii", categories=["L", "N"])), min_size=2, max_size=2)
)
def test_no_line_is_wider_than_the_terminal(width: int, cells: list[str]) -> None:
    table = fit([ID, ScreenColumn("kind", cells, 1, 6), ERROR, TIME], width)
    assert max(map(len, table.lines)) <= width
    assert len(table.lines) == 3
