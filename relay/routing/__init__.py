"""Where events go: rules from event types to destinations, and a publisher that obeys them."""
