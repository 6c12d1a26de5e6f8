"""What every room that talks to PostgreSQL shares."""
