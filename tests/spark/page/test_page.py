"""The page: whatever stands in it is text, it asks for nothing from the network, and its plots stand any data."""

from __future__ import annotations

import math
from html.parser import HTMLParser

import pytest

from relay.spark.page.document import Document, Figure, PageTable, Plot, render
from relay.spark.page.plots import Series, distribution, duration, lines, stacked
from relay.spark.page.words import count, lasting, moment, share

HOSTILE = "<script>alert(1)</script>\"'&$\\frac{$ 漢字 \u202e</td><img src=x onerror=y>"


class Seen(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.labels: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        self.labels += [value or "" for name, value in attrs if name == "aria-label"]

    def handle_data(self, data: str) -> None:
        self.text += data


def document(text: str, svg: str = "<svg></svg>") -> Document:
    return Document(
        title=text,
        verdict=text,
        lead=text,
        figures=[Figure(text, text, text, "bad")],
        plots=[Plot(text, svg, text)],
        tables=[PageTable(text, [text, "n"], [[text, "1"]], frozenset({1}), text), PageTable("empty", ["a"], [])],
        facts=[(text, text)],
        good=False,
        notes=[text],
    )


def test_all_text_is_escaped() -> None:
    seen = Seen(render(document(HOSTILE)))
    assert "script" not in seen.tags
    assert "img" not in seen.tags
    assert seen.text.count(HOSTILE) == 16
    assert seen.labels.count(HOSTILE) == 2


def test_a_page_needs_nothing_else() -> None:
    svg = lines([0, 3600], [Series("p50", [0.1, 0.2])])
    page = render(document("plain", svg))
    seen = Seen(page)
    assert all(link.startswith("#") for link in seen.links)
    assert "url(http" not in page
    assert "@import" not in page
    assert not {"script", "link", "iframe", "img"} & set(seen.tags)
    assert page.startswith("<!doctype html>")
    assert 'lang="en"' in page


def test_long_cells_are_cut() -> None:
    seen = Seen(render(document("x" * 1000)))
    assert "x" * 119 + "…" in seen.text


@pytest.mark.parametrize(
    "starts",
    [
        [0],
        *([1_700_000_000, 1_700_000_000 + span] for span in (240, 4 * 3600, 84 * 3600, 4 * 86_400, 4 * 365 * 86_400)),
        [1_700_000_000 + 3600 * each for each in range(120)],
        [86_400, 32_000_000_000],
    ],
)
def test_plots_of_any_span(starts: list[int]) -> None:
    values = [float(each) for each in range(len(starts))]
    holes = [None, *values[1:]]
    for svg in (
        stacked(starts, 3600, [Series("a", values), Series("b", holes)]),
        lines(starts, [Series("p50", holes), Series("worst", [value * 1e9 for value in values])]),
    ):
        assert svg.startswith("<svg ")
        assert 'width="' not in svg.partition(">")[0]
        assert "<style" not in svg
        assert "currentColor" in svg


def test_a_distribution() -> None:
    assert distribution([(0.001, 0.01), (0.01, 0.1)], [3, 4]).startswith("<svg ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 µs"), (2e-5, "20 µs"), (0.0015, "1.5 ms"), (12, "12 s"), (600, "10 min"), (7200, "2 h"), (864000, "10 d")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_words() -> None:
    assert (count(None), count(1234567)) == ("", "1,234,567")
    assert (lasting(None), lasting(math.pi)) == ("", "3.14 s")
    assert moment(1_700_000_000_123_456) == "2023-11-14 22:13:20.123"
    assert moment(2**63 - 1) == f"{2**63 - 1} µs"
    assert moment(None) == ""
    assert (share(1, 0), share(999_999, 1_000_000), share(5, 5), share(1, 3)) == (
        "",
        "over 99.9 %",
        "100.0 %",
        "33.3 %",
    )
