# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cleans up after a script that was ended in the middle of its loop."""

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
    """Ends the workers of every DataLoader at once. Otherwise Python waits at exit for persistent workers, five seconds
    for each, since they get no message."""
    if not multiprocessing.active_children():
        return
    utilities = torch.utils.data._utils
    patience, utilities.MP_STATUS_CHECK_INTERVAL = utilities.MP_STATUS_CHECK_INTERVAL, 0.0
    try:
        for thing in gc.get_objects():
            if issubclass(type(thing), _MultiProcessingDataLoaderIter):
                thing._shutdown_workers()
                for worker in thing._workers:
                    worker.join(_PATIENCE)  # it has ended or was terminated, so exit handlers find no child
    finally:
        utilities.MP_STATUS_CHECK_INTERVAL = patience


def end_children():
    """Ends the processes that a script started with multiprocessing, as the script is over."""
    for child in multiprocessing.active_children():
        child.terminate()


def end_process(exit_code):
    """Ends this process as Python does: waits for threads, runs atexit handlers, closes files. There are two
    differences. The wait for threads is limited, since a thread that feeds the script's loop would wait forever. And no
    objects are destroyed, which after `import transformers` would take half a second."""
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
    """Closes all files of Python's io, so that buffered data is written."""
    gc.unfreeze()  # otherwise gc does not list older objects, such as sys.stdout
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, io.IOBase)}
    files = [thing for thing in objects if type(thing) in kinds]
    for file in sorted(files, key=_layer):
        with contextlib.suppress(Exception):  # closed already, or the other end is closed
            file.close()


def _layer(file):
    """Returns the layer of a file; files must be closed from the top, such as a text file on a compressed file on a raw
    file."""
    layers = (io.TextIOBase, (), (io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair), io.RawIOBase)
    return next((number for number, kinds in enumerate(layers) if isinstance(file, kinds)), 1)
