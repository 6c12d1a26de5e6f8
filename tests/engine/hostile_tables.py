"""A generator of hostile tables: what an application may put on its table, so that the database refuses one row.

``hostile(seed)`` is one such table. It refuses the rows of type ``bad``, at one step of an event's way, and no other.

There is no rule for UPDATE among them: PostgreSQL refuses every claim of a table with one (SQLSTATE 0A000), of
whichever row. relay-cli check names it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

import psycopg

from relay.core.outcome import ACKNOWLEDGED, Outcome, Permanent, Transient

STATES: Final = sorted(
    {
        str(state)
        for error in vars(psycopg.errors).values()
        if isinstance(error, type) and issubclass(error, psycopg.Error) and (state := getattr(error, "sqlstate", None))
        # A state of success or of a warning is no error; a psycopg of its own reads these.
        if not str(state).startswith(("00", "01", "02"))
    }
)
"""Every SQLSTATE of PostgreSQL's errcodes.txt."""

_FUNCTION: Final = """
CREATE FUNCTION hostile() RETURNS trigger LANGUAGE plpgsql AS $hostile$ BEGIN {body} END $hostile$;
GRANT EXECUTE ON FUNCTION hostile() TO PUBLIC;
"""
_TRIGGER: Final = "CREATE {kind} TRIGGER hostile {when} {event} ON openoutbox_events {deferred} FOR EACH ROW "
_RULE: Final = "CREATE RULE hostile AS ON DELETE TO openoutbox_events WHERE OLD.event_type = 'bad' DO INSTEAD NOTHING;"
_WHEN: Final = "{row}.event_type = 'bad' AND {row}.status = '{status}'"


@dataclass(frozen=True, slots=True)
class Hostile:
    """One table: statements that make it, and what becomes of its bad row."""

    name: str
    sql: str
    outcome: Outcome
    """What the broker answers for the bad event."""
    waiting: str
    """The status that the bad row stays in; DELIVERED where a DELETE leaves it, and an UPDATE settles it."""
    deletes: bool = False
    """Whether the relay works with ON_DELIVERED=delete."""
    statement_timeout: float = 0.0
    """Seconds; the relay's user has this statement_timeout. 0 is none."""
    held: str = ""
    """What another session's open transaction has locked meanwhile: a statement."""


def hostile(seed: int) -> Hostile:
    """The table of a seed."""
    chance = random.Random(seed)
    ways: list[tuple[str, Outcome]] = [
        ("DELIVERING", ACKNOWLEDGED),
        ("DELIVERED", ACKNOWLEDGED),
        ("PENDING", Transient("LATER", "not yet")),
        ("DEAD", Permanent("NEVER", "no")),
    ]
    status, outcome = chance.choice(ways)
    waiting = "PENDING" if status == "DELIVERING" else "DELIVERING"
    if status == "DELIVERED" and chance.random() < 0.3:
        sql, name = _on_delete(chance)
        waiting = "DELIVERED" if "keeps" in name else waiting
        return Hostile(f"{seed}: delete, {name}", sql, outcome, waiting, deletes=True)
    name, sql = chance.choice(_KINDS)(chance, status)
    timeout = 1.0 if "sleeps" in name or "waits" in name else 0.0
    held = "SELECT FROM report FOR UPDATE" if "report" in name else ""
    return Hostile(f"{seed}: {status}, {name}", sql, outcome, waiting, statement_timeout=timeout, held=held)


def _raise(chance: random.Random) -> tuple[str, str]:
    state = chance.choice(STATES)
    return state, f"RAISE EXCEPTION 'not this one' USING ERRCODE = '{state}';"


def _trigger(body: str, event: str, status: str, when: str = "BEFORE", deferred: bool = False, row: str = "NEW") -> str:
    timing = {"kind": "CONSTRAINT", "when": "AFTER", "deferred": "DEFERRABLE INITIALLY DEFERRED"}
    values = timing if deferred else {"kind": "", "when": when, "deferred": ""}
    sql = _TRIGGER.format(event=event, **values) + f"WHEN ({_WHEN.format(row=row, status=status)}) "
    return _FUNCTION.format(body=body) + sql + "EXECUTE FUNCTION hostile();"


def _before(chance: random.Random, status: str) -> tuple[str, str]:
    state, body = _raise(chance)
    return f"BEFORE raises {state}", _trigger(f"{body} RETURN NEW;", "UPDATE", status)


def _after(chance: random.Random, status: str) -> tuple[str, str]:
    state, body = _raise(chance)
    return f"AFTER raises {state}", _trigger(f"{body} RETURN NULL;", "UPDATE", status, "AFTER")


def _deferred(chance: random.Random, status: str) -> tuple[str, str]:
    state, body = _raise(chance)
    return f"deferred raises {state}", _trigger(f"{body} RETURN NULL;", "UPDATE", status, deferred=True)


def _keeps(_: random.Random, status: str) -> tuple[str, str]:
    return "BEFORE returns NULL", _trigger("RETURN NULL;", "UPDATE", status)


def _returns_old(_: random.Random, status: str) -> tuple[str, str]:
    return "BEFORE returns OLD", _trigger("RETURN OLD;", "UPDATE", status)


def _sleeps(_: random.Random, status: str) -> tuple[str, str]:
    return "sleeps beyond statement_timeout", _trigger("PERFORM pg_sleep(60); RETURN NEW;", "UPDATE", status)


def _locks(chance: random.Random, status: str) -> tuple[str, str]:
    name, option = chance.choice([("waits for", ""), ("finds locked", " NOWAIT")])
    return f"{name} a report's row", (
        "CREATE TABLE report (id INT); INSERT INTO report VALUES (1); GRANT SELECT, UPDATE ON report TO PUBLIC;"
        + _trigger(f"PERFORM 1 FROM report FOR UPDATE{option}; RETURN NEW;", "UPDATE", status)
    )


def _check(_: random.Random, status: str) -> tuple[str, str]:
    return (
        "CHECK",
        f"ALTER TABLE openoutbox_events ADD CHECK (NOT (event_type = 'bad' AND status = '{status}')) NOT VALID;",
    )


def _generated(_: random.Random, status: str) -> tuple[str, str]:
    changed = "updated_at > created_at"  # so that the row as it was inserted can be indexed
    fails = f"CASE WHEN event_type = 'bad' AND status = '{status}' AND {changed} THEN 0 ELSE 1 END"
    return "index of an expression that fails", f"CREATE INDEX hostile ON openoutbox_events ((1 / {fails}));"


def _generated_column(_: random.Random, status: str) -> tuple[str, str]:
    changed = "updated_at > created_at"
    fails = f"CASE WHEN event_type = 'bad' AND status = '{status}' AND {changed} THEN 0 ELSE 1 END"
    return "generated column that fails", (
        f"ALTER TABLE openoutbox_events ADD COLUMN hostile INT GENERATED ALWAYS AS (1 / {fails}) STORED;"
    )


def _unique(_: random.Random, status: str) -> tuple[str, str]:
    return "unique index", (
        "INSERT INTO openoutbox_events (event_id, event_type, payload, status, available_at) "
        "VALUES (gen_random_uuid(), 'bad', '', 'DEAD', 'infinity');"
        "CREATE UNIQUE INDEX hostile ON openoutbox_events (event_type) "
        f"WHERE event_type = 'bad' AND status IN ('DEAD', '{status}') AND (attempts > 0 OR status <> 'PENDING');"
    )


def _foreign(chance: random.Random, status: str) -> tuple[str, str]:
    deferred = chance.random() < 0.5
    return f"foreign key{', deferred' if deferred else ''}", (
        "CREATE TABLE tenants (id INT PRIMARY KEY); GRANT SELECT ON tenants TO PUBLIC;"
        "ALTER TABLE openoutbox_events ADD COLUMN tenant INT REFERENCES tenants "
        f"{'DEFERRABLE INITIALLY DEFERRED' if deferred else ''};"
        + _trigger("NEW.tenant := 1; RETURN NEW;", "UPDATE", status)
    )


def _policy(_: random.Random, status: str) -> tuple[str, str]:
    return "restrictive policy", (
        "ALTER TABLE openoutbox_events ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY everybody ON openoutbox_events USING (true);"
        "CREATE POLICY hostile ON openoutbox_events AS RESTRICTIVE FOR UPDATE USING (true) "
        f"WITH CHECK (NOT (event_type = 'bad' AND status = '{status}'));"
    )


def _no_schema(_: random.Random, status: str) -> tuple[str, str]:
    return "its tenant's schema is gone", _trigger("INSERT INTO gone.audit VALUES (1); RETURN NEW;", "UPDATE", status)


def _nested(_: random.Random, status: str) -> tuple[str, str]:
    return "changes the row itself", _trigger(
        "UPDATE openoutbox_events SET headers = '{}' WHERE event_id = NEW.event_id; RETURN NEW;", "UPDATE", status
    ).replace("LANGUAGE plpgsql", "LANGUAGE plpgsql SECURITY DEFINER")


_KINDS: Final = [
    _before,
    _before,
    _after,
    _deferred,
    _deferred,
    _keeps,
    _check,
    _generated,
    _unique,
    _foreign,
    *(_policy, _no_schema, _nested, _sleeps),
    *(_locks, _generated_column, _returns_old),
]


def _on_delete(chance: random.Random) -> tuple[str, str]:
    state, body = _raise(chance)
    return chance.choice(
        [
            (_trigger(f"{body} RETURN OLD;", "DELETE", "DELIVERING", row="OLD"), f"BEFORE raises {state}"),
            (_trigger(f"{body} RETURN NULL;", "DELETE", "DELIVERING", "AFTER", row="OLD"), f"AFTER raises {state}"),
            (_trigger(f"{body} RETURN NULL;", "DELETE", "DELIVERING", deferred=True, row="OLD"), f"deferred {state}"),
            (_trigger("RETURN NULL;", "DELETE", "DELIVERING", row="OLD"), "BEFORE keeps it"),
            (_RULE, "a rule keeps it"),
        ]
    )
