"""What a process does before it serves agents."""

import os

from threadpoolctl import threadpool_limits

from taciturn.agents.warm import compile_kernels

PREPARED_KINDS = ("viewucb", "linucb")
"""Kinds of agents whose kernels are compiled before the service is ready; those of others when one is created."""

BLAS_VARIABLES = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"}
"""An operator who sets one of these decides how many threads linear algebra has."""


def prepare() -> None:
    """Compile what decisions need, and give linear algebra one thread: agents have a thread each.

    With more, the training of one agent occupies all processors, and the decisions of the others wait.
    """
    compile_kernels(PREPARED_KINDS)  # this also loads the libraries whose threads are limited
    if not BLAS_VARIABLES & os.environ.keys():
        threadpool_limits(1)
