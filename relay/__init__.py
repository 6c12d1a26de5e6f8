"""Open Outbox Relay: carries rows of a transactional outbox to a message broker, at least once."""
