"""The slow, obvious versions: dense matrices, plain loops, one line a formula."""
