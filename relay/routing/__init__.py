"""Where events go: rules from event types to destinations. Pure; the engine obeys them, settings read their files."""
