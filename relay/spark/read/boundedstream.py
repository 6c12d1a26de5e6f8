"""The event store as a stream whose micro-batches have a bound; for Spark 4.2 and newer, which asks sources for one."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from relay.spark.read.events import Events
from relay.spark.read.eventstream import POSITION, EventStream, Offset


class BoundedEventStream(EventStream, SupportsTriggerAvailableNow):
    """A stream, as Spark asks for it since 4.2."""

    def __init__(self, events: Events) -> None:
        super().__init__(events)
        self._target: int | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How much a micro-batch takes unless the trigger says otherwise."""
        most = self.events.options.most_events
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # type: ignore[override]  # noqa: N802
        """Where the micro-batch that begins at ``start`` ends; at ``start`` itself when there is nothing to read."""
        after = int(start[POSITION])
        end = self.horizon()
        if self._target is not None:
            end = min(end, self._target)
        if end <= after:
            return {POSITION: after}  # also where a transaction in flight has drawn the horizon back for a moment
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
            end = self.asked(lambda connection: self.events.nth(connection, after, end, most))
        return {POSITION: end}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What comes later than now is left to the next run."""
        self._target = self.horizon()
