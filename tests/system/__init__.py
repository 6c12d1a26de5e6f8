"""The product as a command: the daemon, the command line, the image, seen from outside."""
