"""Imported by the process that workers are forked from: modules, and the kernels that agents of most kinds use.

The garbage collector rests meanwhile, and does not look at what is here in workers: it is no garbage. Ctrl-C ends this
process, and a worker before its first run, without a word: the process that started them says what there is to say.
"""

import gc
import importlib
import os
import signal
from contextlib import suppress

signal.signal(signal.SIGINT, lambda *_: os._exit(1))
gc.disable()
importlib.import_module("taciturn.experiments.engines")
with suppress(Exception):  # the run that needs a kernel says what is wrong
    importlib.import_module("taciturn.agents.warm").compile_kernels(["linucb"])
gc.freeze()
gc.enable()
