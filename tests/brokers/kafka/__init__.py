"""The publisher to Kafka."""
