"""``python -m taciturn`` is ``taciturn``."""

from taciturn.cli import main

main()
