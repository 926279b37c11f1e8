# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a script leaves behind that was ended in the middle of its loop."""

import atexit
import contextlib
import gc
import io
import multiprocessing
import os
import sys
import threading
import time

import torch.utils.data
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

_PATIENCE = 2.0  # seconds


def end_data_workers():
    """Ends the workers of every DataLoader at once. Left to themselves, persistent ones are waited for at exit, five
    seconds each, since nobody tells them that it is over."""
    if not multiprocessing.active_children():
        return
    utilities = torch.utils.data._utils
    patience, utilities.MP_STATUS_CHECK_INTERVAL = utilities.MP_STATUS_CHECK_INTERVAL, 0.0
    try:
        for thing in gc.get_objects():
            if issubclass(type(thing), _MultiProcessingDataLoaderIter):
                thing._shutdown_workers()
                for worker in thing._workers:
                    worker.join(_PATIENCE)  # it was told to end, or terminated: what runs at exit finds no child
    finally:
        utilities.MP_STATUS_CHECK_INTERVAL = patience


def end_children():
    """Ends the processes that a script started with multiprocessing: the one that they work for is over."""
    for child in multiprocessing.active_children():
        child.terminate()


def end_process(exit_code):
    """Ends this process with what Python does at its end: threads are waited for, what atexit registered runs, files are
    closed. Two things are left out. A thread that feeds the script's loop would wait for the loop forever: after a while
    the end comes all the same. And no object is taken apart, which after `import transformers` takes half a second."""
    once = threading.Lock()

    def end():
        once.acquire()
        atexit._run_exitfuncs()
        _close_files()
        os._exit(exit_code)

    def end_after_a_while():
        time.sleep(_PATIENCE)
        end()

    threading.Thread(target=end_after_a_while, daemon=True).start()
    threading._shutdown()
    end()


def _close_files():
    """What is written to files of Python's io and not yet handed to the system is so now."""
    gc.unfreeze()  # else what was there before the script, such as sys.stdout, is not among the objects
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, io.IOBase)}
    files = [thing for thing in objects if type(thing) in kinds]
    for file in sorted(files, key=_layer):
        with contextlib.suppress(Exception):  # closed already, or its other end is gone
            file.close()


def _layer(file):
    """Of the files that write to each other, as a text file to a compressed one to one of the system: from above."""
    layers = (io.TextIOBase, (), (io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair), io.RawIOBase)
    return next((number for number, kinds in enumerate(layers) if isinstance(file, kinds)), 1)
