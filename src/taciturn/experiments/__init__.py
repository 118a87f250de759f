"""Experiments: agents on streams, over repeats and seeds, and the files that hold their results."""
