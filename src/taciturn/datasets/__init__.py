"""Data sets: the only package that knows a URL, a file format or a column name."""
