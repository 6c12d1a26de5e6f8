"""The event store as a stream whose micro-batches have a bound, for Spark 4.2 and newer."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from relay.spark.read.events import Events
from relay.spark.read.eventstream import POSITION, EventStream, Offset


class BoundedEventStream(EventStream, SupportsTriggerAvailableNow):
    """A stream with the interface of Spark 4.2."""

    def __init__(self, events: Events) -> None:
        super().__init__(events)
        self._target: int | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The bound of a micro-batch unless the trigger has another one."""
        most = self.events.options.most_events
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # type: ignore[override]  # noqa: N802
        """The end of the micro-batch that begins at ``start``; ``start`` itself without new events.

        Raises PositionsWentBack.
        """
        self.check_offset(start)
        after = int(start[POSITION])
        end = self.horizon()
        if self._target is not None:
            end = min(end, self._target)
        if end <= after:
            return start  # also when a transaction in flight has moved the horizon back for a moment
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
            end = self.query(lambda connection: self.events.nth(connection, after, end, most))
        latest = self.offset(end)
        return latest if latest[POSITION] > after else start

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Stop at the present horizon; the next run reads later events."""
        self._target = self.horizon()
