"""What all kernels have in common."""

import importlib
import pkgutil

import pytest
from numba.core.dispatcher import Dispatcher

from taciturn import kernels

MODULES = [importlib.import_module(f"taciturn.kernels.{info.name}") for info in pkgutil.iter_modules(kernels.__path__)]
KERNELS = {
    f"{module.__name__}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, Dispatcher)
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_lets_other_threads_run_meanwhile(name):
    """A long one held up every request and every other agent of the process."""
    assert KERNELS[name].targetoptions["nogil"]


def test_all_kernels_are_found():
    assert {"taciturn.kernels.knn.fill", "taciturn.kernels.ridge._sparse_scores"} <= KERNELS.keys()
