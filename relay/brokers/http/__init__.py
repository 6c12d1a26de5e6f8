"""The publisher of webhooks: events as HTTP requests, signed by the rules of Standard Webhooks."""
