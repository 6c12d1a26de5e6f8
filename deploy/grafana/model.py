"""A Grafana dashboard in a few words: panels, queries and variables, and the JSON that Grafana imports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

_COLUMNS: Final = 24
_WIDTH, _HEIGHT = 12, 8
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Query:
    """One line or set of lines of a panel."""

    expr: str
    legend: str = ""
    exemplars: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot."""

    title: str
    description: str
    unit: str
    """By Grafana's names: ``s``, ``cps`` (a second), ``short``, ``percentunit``, ``bytes``."""
    link: str
    """A document and its section, below the variable ``docs``."""
    queries: tuple[Query, ...]
    states: tuple[tuple[int, str, str], ...] = ()
    """Values that are states: value, name, colour; shown as a timeline."""
    warn_above: float | None = None
    """Drawn as a red line; the threshold of an alert."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top, from the values of a label."""

    name: str
    label: str
    series: str
    of: str
    """The label whose values can be chosen."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One file."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]

    def json(self) -> dict[str, Any]:
        """What Grafana imports."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["openoutbox"],
            "schemaVersion": 39,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "templating": {"list": [*_fixed_variables(), *(_variable(variable) for variable in self.variables)]},
            "links": [
                {"type": "dashboards", "title": "Open Outbox", "tags": ["openoutbox"], "asDropdown": True},
                {"type": "link", "title": "Documentation", "url": "${docs}/operate/monitoring.md#dashboards"},
            ],
            "panels": [_panel(index, panel) for index, panel in enumerate(self.panels)],
        }


def _fixed_variables() -> list[dict[str, Any]]:
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        {
            "name": "docs",
            "label": "Documentation",
            "type": "textbox",
            "description": "Where the folder docs of this project is served",
            "query": "/docs",
            "current": {"text": "/docs", "value": "/docs"},
        },
    ]


def _variable(variable: Variable) -> dict[str, Any]:
    query = f"label_values({variable.series}, {variable.of})"
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": _DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(index: int, panel: Panel) -> dict[str, Any]:
    x, y = index * _WIDTH % _COLUMNS, index * _WIDTH // _COLUMNS * _HEIGHT
    return {
        "id": index + 1,
        "type": "state-timeline" if panel.states else "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT},
        "links": [{"title": "Documentation", "url": f"${{docs}}/{panel.link}", "targetBlank": True}],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "single" if panel.states else "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _DATASOURCE,
                "expr": query.expr,
                "legendFormat": query.legend,
                "exemplar": query.exemplars,
                "range": True,
            }
            for number, query in enumerate(panel.queries)
        ],
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.states:
        options = {str(value): {"text": name, "color": colour} for value, name, colour in panel.states}
        return {**defaults, "mappings": [{"type": "value", "options": options}]}
    defaults |= {"min": 0, "custom": {"drawStyle": "line", "fillOpacity": 10, "showPoints": "never"}}
    if panel.warn_above is not None:
        steps = [{"color": "green", "value": None}, {"color": "red", "value": panel.warn_above}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
        defaults["custom"] |= {"thresholdsStyle": {"mode": "line"}}
    return defaults
