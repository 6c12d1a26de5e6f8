"""What every room that talks to PostgreSQL shares: its URL, connections, errors, statements and codecs."""
