"""The delivery log in ClickHouse."""
