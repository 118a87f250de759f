"""Imported by the process that workers are forked from: modules, and the kernels that agents of most kinds use.

The garbage collector rests meanwhile, and does not look at what is here in workers: it is no garbage.
"""

import gc
import importlib
from contextlib import suppress

gc.disable()
importlib.import_module("taciturn.experiments.engines")
with suppress(Exception):  # the run that needs a kernel says what is wrong
    importlib.import_module("taciturn.agents.warm").compile_kernels(["linucb"])
gc.freeze()
gc.enable()
