"""Data sets: the only room that knows a URL, a file format or a column name."""
