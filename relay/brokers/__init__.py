"""One module per broker, each imported only when it is the chosen one."""
