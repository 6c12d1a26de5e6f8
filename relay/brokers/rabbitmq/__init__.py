"""The publisher to RabbitMQ."""
