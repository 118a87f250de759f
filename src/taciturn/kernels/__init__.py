"""Array kernels: no state of their own, no randomness but what is passed in, nothing of ours imported."""
