"""Doubles, fixtures and servers that tests share."""
