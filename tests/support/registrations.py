"""A registration of a settled event store at any position, as only the owner of the store can make one."""

from __future__ import annotations


def registering(position: int, schema: str = "public") -> str:
    """The statement that registers its transaction, as ``event_registration`` does after that position was drawn."""
    words = f"'lock ', '{schema}.event'::regclass::oid, ' ', pg_current_xact_id()::xid, ' ', {position}"
    lock = f"encode(substr(sha256(Secret || concat({words})::bytea), 1, 4), 'hex')"
    locking = f"pg_advisory_xact_lock_shared(('x' || {lock})::bit(32)::int, {position})"
    return f"SELECT {locking} FROM {schema}.event_secret"
