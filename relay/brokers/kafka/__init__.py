"""The publisher to Apache Kafka."""
