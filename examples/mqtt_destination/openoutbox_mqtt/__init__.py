"""MQTT 5 as a destination of the Open Outbox Relay."""
