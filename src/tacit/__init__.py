"""tacit: decisions that learn from silence.

Online partially rewarded learning: for every arriving context choose one of K arms at once; the world answers right,
wrong or nothing at all, and tacit learns from all three.
"""

__version__ = "0.1.0"
