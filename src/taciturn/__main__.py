"""``python -m taciturn``, the same as the command ``taciturn``."""

from taciturn.cli import main

main()
