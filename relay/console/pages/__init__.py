"""The console's pages: HTML rendered on the server, which work without scripts too."""
