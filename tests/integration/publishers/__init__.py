"""Each broker's own ways, against the real server."""
