"""Experiments: agents on streams, repeats and seeds, and the files that results go to."""
