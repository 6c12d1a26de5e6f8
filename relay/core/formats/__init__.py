"""Message formats other than the contract's own: pure functions from an outbox event to what its message carries."""
