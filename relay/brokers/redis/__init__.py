"""The publisher to Redis streams."""
