"""Streams: the only package that knows the right arm and which rewards are missing."""
