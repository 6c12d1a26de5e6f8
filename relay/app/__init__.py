"""The composition root: the only room that knows every room."""
