"""The delivery log's branch of the error tree. Each message names the fault and what to do."""

from __future__ import annotations

from relay.core.errors import OutboxError, StorageError


class DeliveryLogError(OutboxError):
    """Any error of the delivery log; the subclasses say which."""

    refusal: StorageError | None = None
    """Set where the log's database answered and refused: then a single row may be to blame (``relay.core.blame``)."""


class DeliveryLogUnavailable(DeliveryLogError):
    """The log's database does not answer, or its folder is in use; the call may be repeated later."""

    setting = "DELIVERY_LOG_URL"


class DeliveryLogBusy(DeliveryLogError):
    """The log's database rolled a statement back: a lost race, or a lock or statement timeout. It may be repeated."""


class InvalidEntry(DeliveryLogError, ValueError):
    """An entry that no driver can store, refused by its constructor."""


class InvalidCursor(DeliveryLogError, ValueError):
    """A cursor that is not one of this listing's: not base62, another resource, a broken position, another order."""


class VersionMismatch(DeliveryLogError, ValueError):
    """A cursor of an unknown version; the message names the known ones."""


class InvalidTimeRange(DeliveryLogError, ValueError):
    """A time without a zone, or a range that ends before it begins."""


class InvalidQuery(DeliveryLogError, ValueError):
    """An unknown measure, dimension, filter, order or granularity, or two options that exclude each other."""


class ResourceLimit(DeliveryLogError):
    """The answer is too large or takes too long; narrow the range, filter, or choose a coarser granularity."""
