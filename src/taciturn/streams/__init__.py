"""Streams: the only room that knows the true arm and which rewards are withheld."""
