"""The delivery log's branch of the error tree. Each names what was wrong and what to do about it."""

from __future__ import annotations

from relay.core.errors import OutboxError


class DeliveryLogError(OutboxError):
    """Something about the delivery log; its subclasses say what."""


class DeliveryLogUnavailable(DeliveryLogError):
    """The log's database does not answer, or its folder is in use; the call may be repeated later."""


class DeliveryLogBusy(DeliveryLogError):
    """The log's database rolled a statement back: a lost race, or a lock or statement timeout. It may be repeated."""


class InvalidEntry(DeliveryLogError, ValueError):
    """An entry that no store could keep, found while it was being made."""


class InvalidCursor(DeliveryLogError, ValueError):
    """A cursor that is not one of this listing's: not base62, another resource, a broken position, another order."""


class VersionMismatch(DeliveryLogError, ValueError):
    """A cursor of a version this store does not know; the message names those it does."""


class InvalidTimeRange(DeliveryLogError, ValueError):
    """A time without a zone, or a range that ends before it begins."""


class InvalidQuery(DeliveryLogError, ValueError):
    """An unknown measure, dimension, filter, order or granularity, or two options that exclude each other."""


class ResourceLimit(DeliveryLogError):
    """The answer would be too large; narrow the range or choose a coarser granularity."""
