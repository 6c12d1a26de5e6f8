"""The job ``report``: deliveries, failures, retries and latency by type and hour; ``outcomes`` has what they are."""
