# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process of a recording or training: runs the user's program as Python would, and ends with certainty. Ctrl+C ends
a script that catches everything, and processes that the script leaves behind end with the recording. The script cannot
tell: the script is no parent of processes that others started, and has no foreign thread or handler."""

import atexit
import contextlib
import ctypes
import gc
import io
import mmap
import multiprocessing
import os
import pathlib
import resource
import runpy
import signal
import sys
import threading
import time
import traceback

from .._library import OWN_FOLDER

_GRACE = 10.0  # seconds that a script has to save state after Ctrl+C; a second Ctrl+C ends the script at once
_PATIENCE = 0.5  # seconds that processes which were left behind have to end themselves

# Options of Linux's prctl().
_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36

# Shared by the processes.
_complete = mmap.mmap(-1, 1)
_reason = mmap.mmap(-1, 4096)  # of another try: UTF-8, ends with a zero


def result_is_complete():
    """Notes in the recording's process that the file is written, whatever happens to the process later."""
    _complete[0] = 1


def request_rerun(reason):
    """Requests, in the recording's process, another run of the work in a new process, once this process has ended by
    itself. The work is given `reason`; at most 4,095 bytes of the reason count."""
    text = reason.encode(errors="replace")[:len(_reason) - 1]
    _reason[:len(text) + 1] = text + b"\0"


def fork(number):
    """As os.fork(); the child gets the signal `number` when its parent ends."""
    parent, child = os.getpid(), os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, number, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
    return child


def supervise(work, program):
    """Runs `work` in a new process; `work` is given the reason for another run, empty at first. Returns the exit code
    of the work; ends this process by the signal that ended the new process."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    parent = os.getpid()
    # Not the ignored signals, as nohup ignores SIGHUP: an ignored signal comes all the same where a process waits for
    # the signal.
    requests = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
                if signal.getsignal(number) is not signal.SIG_IGN]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*requests, signal.SIGCHLD))
    reason = ""
    while True:
        sys.stdout.flush()
        sys.stderr.flush()
        _reason[0] = 0
        child = fork(signal.SIGKILL)
        if child == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return work(reason)
        status, request = _await(child, requests)
        _end_all(_children_of(parent))
        reason = _reason[:].partition(b"\0")[0].decode(errors="replace")
        if request or not reason or not os.WIFEXITED(status):
            return _exit_code(status, request, program)


def _await(child, requests):
    """Waits for the end of a child. Returns the status, and the signal for which the child was killed; 0: the child
    ended itself."""
    request, deadline = 0, float("inf")
    while True:
        came = signal.sigtimedwait((*requests, signal.SIGCHLD), 0.2)
        if came and came.si_signo in requests:
            if came.si_code <= 0:  # sent to this process alone; a terminal sends Ctrl+C to both
                os.kill(child, came.si_signo)
            deadline = time.monotonic() + _GRACE if not request else 0
            request = came.si_signo
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1], request
        status = _reaped(child)
        if status is not None:
            return status, 0


def _reaped(child):
    """Reaps processes that have ended. Returns the status of `child` if the child is among the ended processes."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended == child:
            return status
        if ended == 0:
            return None


def _children_of(parent):
    """Returns the processes that `parent` has as children."""
    children = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended
        if int(fields[1]) == parent:
            children.append(int(folder.name))
    return children


def _signal(processes, number):
    for process in processes:
        try:
            os.kill(process, number)
        except OSError:
            pass  # the process has ended, or belongs to another user


def _end_all(processes):
    """Ends processes and the processes that were started there. A process becomes a child of this process when the
    parent ends."""
    _signal(processes, signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE
    for last in (False, True):
        while processes and time.monotonic() < deadline:
            if last:
                _signal(processes, signal.SIGKILL)
            time.sleep(0.01)
            _reaped(0)
            processes = _children_of(os.getpid())
        deadline = time.monotonic() + _PATIENCE


def _exit_code(status, request, program):
    if request:
        result = "the step file is complete" if _complete[0] else "nothing was written"
        print(f"{program}: interrupted; {result}", file=sys.stderr)
        return 128 + request
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child has left a core dump if the user wants one
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
    os.kill(os.getpid(), number)
    return 128 + number


def run(script, arguments, is_module=False):
    """Runs a script with arguments as `__main__`; `is_module`: `script` names a module."""
    sys.argv = [script, *arguments]
    if is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(pathlib.Path(script).resolve().parent)
        runpy.run_path(script, run_name="__main__")


def own_traceback(error):
    """Returns the program's traceback, without the frames of Headroom and runpy."""
    report = traceback.TracebackException.from_exception(error)
    report.stack = traceback.StackSummary.from_list([f for f in report.stack if not runs_it(f.filename)])
    return report


def without_runner(trace):
    """Returns the part of a traceback (`error.__traceback__`) that begins in the program."""
    while trace.tb_next is not None and runs_it(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def runs_it(filename):
    """Returns whether a source file belongs to Headroom or runpy, which run the program."""
    return filename.startswith(OWN_FOLDER) or "runpy" in filename


_EXIT_PATIENCE = 2.0  # seconds


def end_data_workers():
    """Ends the workers of every DataLoader at once. Otherwise Python waits at exit for persistent workers, five seconds
    for each worker, since no worker gets a message."""
    if not multiprocessing.active_children():
        return
    import torch.utils.data
    from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

    utilities = torch.utils.data._utils
    patience, utilities.MP_STATUS_CHECK_INTERVAL = utilities.MP_STATUS_CHECK_INTERVAL, 0.0
    try:
        for thing in gc.get_objects():
            if issubclass(type(thing), _MultiProcessingDataLoaderIter):
                thing._shutdown_workers()
                for worker in thing._workers:
                    worker.join(_EXIT_PATIENCE)  # the worker has ended: exit handlers find no child
    finally:
        utilities.MP_STATUS_CHECK_INTERVAL = patience


def end_children():
    """Ends the processes that a script started with multiprocessing, as the script is over."""
    for child in multiprocessing.active_children():
        child.terminate()


def end_process(exit_code):
    """Ends this process as Python does: waits for threads, runs atexit handlers, closes files. There are two
    differences. The wait for threads is limited, since a thread that feeds the script's loop would wait forever. And no
    objects are destroyed, since destruction after `import transformers` would take half a second."""
    once = threading.Lock()

    def end():
        once.acquire()
        atexit._run_exitfuncs()
        _close_files()
        os._exit(exit_code)

    def end_after_a_while():
        time.sleep(_EXIT_PATIENCE)
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
