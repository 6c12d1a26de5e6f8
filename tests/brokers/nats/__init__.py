"""The publisher to NATS JetStream."""
