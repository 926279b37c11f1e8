# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a script leaves behind that was ended in the middle of its loop."""

import atexit
import gc
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


def do_not_wait_for_threads(exit_code):
    """Python waits at exit for threads that are no daemons, and one that feeds the script's loop waits for the loop.
    After a while the process ends all the same, as it would without them: with what was registered by atexit."""
    at_exit = threading.Event()
    atexit.register(at_exit.set)  # comes first of all, when threads were waited for

    def watch():
        time.sleep(_PATIENCE)
        if not at_exit.is_set():
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(exit_code)

    threading.Thread(target=watch, daemon=True).start()
