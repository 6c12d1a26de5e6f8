"""What of the storage can be tested without a server."""
