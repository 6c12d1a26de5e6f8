"""One folder or module per broker, each imported only when PUBLISHER_TYPE names it."""
