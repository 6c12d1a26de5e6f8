"""The job ``report``: deliveries, failures, retries and latency by type and hour."""
