"""The publisher of webhooks."""
