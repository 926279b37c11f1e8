# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads of values that the simulated GPU invents: branches that depend on one are counted, and loops that may wait for
one forever are ended with a message."""

import atexit
import ctypes
import dis
import os
import sys
import threading

import torch

# Number of reads of invented values at one place after which the enclosing loop is ended. The limit for a `for` is
# higher, as it usually ends and may be long: a layer of a mixture reads values for each expert.
_MOST_READS_IN_WHILE = 10_000
_MOST_READS_IN_FOR = 1_000_000

_OURS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)


class EndlessLoop(SystemExit):
    """Ends the program with a sentence, even if it catches every Exception."""


class Inventions:
    """Invented values that change what the program does: their number, and the place of the first."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.count = 0
        self.first = None  # place in the program; None in autograd's threads

    def add(self, frame):
        self.count += 1
        if self.first is None and frame is not None:
            self.first = f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def __str__(self):
        place = f" at {self.first}" if self.first else ""
        if self.count == 1:
            return f"once{place}"
        return f"{self.count} times" + (f", first{place}" if place else "")


decisions = Inventions()  # truth values on which the program branches
sizes = Inventions()  # sizes of results
of_other_ranks = Inventions()  # values of other ranks, which were taken to equal this rank's

# Arguments of headroom_on_invented_value()'s callback.
_OTHER_RANK = 3
_COUNTED = {1: decisions, 2: sizes, _OTHER_RANK: of_other_ranks}


class _Reads:
    """Counts the reads of invented values at each place of the program."""

    def __init__(self):
        self._counts = {}

    def add(self, what):
        frame = _program_frame(sys._getframe().f_back)
        counted = _COUNTED.get(what)
        if counted:
            counted.add(frame)
        if frame is None or what == _OTHER_RANK:
            return
        place = frame.f_code, frame.f_lineno
        count = self._counts[place] = self._counts.get(place, 0) + 1
        if count % _MOST_READS_IN_WHILE == 0:
            self._end_loop(frame, count)

    def _end_loop(self, frame, count):
        """Ends the loop around a place with `count` reads, unless it is a `for` that may be long."""
        loop, is_for = _loop_around(frame)
        if loop is None or (is_for and count < _MOST_READS_IN_FOR):
            return
        place = f"{loop.f_code.co_filename}:{loop.f_lineno}"
        _end(frame, f"{place}: this loop has read {count:,} values of the GPU that Headroom simulates, which has no "
                    "data and invents them, and may never end: end it after a number of steps, or by values that are "
                    "made on the CPU")


def _program_frame(frame):
    """Returns the innermost frame of the program; None in autograd's threads."""
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame


def _loop_around(frame):
    """Returns the frame with the innermost loop in which `frame` runs, and whether that is a `for`; (None, False)
    without a loop."""
    while frame is not None:
        is_for = _innermost_loop(frame.f_code, frame.f_lasti)
        if is_for is not None:
            return frame, is_for
        frame = _program_frame(frame.f_back)
    return None, False


def _innermost_loop(code, at):
    """Returns whether the loop around an instruction is a `for`; None without a loop. A loop is a backward jump."""
    names = {}
    begin = None
    for instruction in dis.get_instructions(code):
        names[instruction.offset] = instruction.opname
        if instruction.opcode not in dis.hasjrel and instruction.opcode not in dis.hasjabs:
            continue
        target = instruction.argval
        if target <= at <= instruction.offset and (begin is None or target > begin):
            begin = target
    return None if begin is None else names[begin] == "FOR_ITER"


def _end(frame, sentence):
    in_main = threading.current_thread() is threading.main_thread()

    # Exceptions in a callback are lost, so the exception is raised at the next line of the reading frame.
    def at_next_line(*_):
        sys.settrace(None)
        raise EndlessLoop(sentence) if in_main else SystemExit

    frame.f_trace = at_next_line
    sys.settrace(lambda *_: None)
    if not in_main:
        # SystemExit ends a thread silently and the others continue, so the main thread gets the error too.
        error = type("EndlessLoop", (EndlessLoop,), {"__init__": lambda self: super(error, self).__init__(sentence)})
        main = ctypes.c_ulong(threading.main_thread().ident)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(error))


def patch(library):
    tell = ctypes.CFUNCTYPE(None, ctypes.c_int)(_Reads().add)
    library.headroom_on_invented_value.restype = None
    library.headroom_on_invented_value.argtypes = [ctypes.c_void_p]
    library.headroom_on_invented_value(ctypes.cast(tell, ctypes.c_void_p))
    # Keeps the callback alive as long as it may be called; autograd's thread may read after Python has ended.
    atexit.register(lambda kept=tell: library.headroom_on_invented_value(None))
