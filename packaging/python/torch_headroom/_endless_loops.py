# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the program reads of the simulated GPU without data, and is told anyway: invented values, of which branches that
depend on one are counted, and that work is done. Loops that may wait for an invented value forever are ended with a
message."""

import atexit
import ctypes
import os
import sys
import threading

import torch

from . import _code_loops

# Numbers of reads of invented values at one place: from which on a `while` around it is watched, after which one is
# ended that still runs, and after which any loop is. A `for` usually ends and may be long, as a `while` that counts.
_READS_UNWATCHED = 1_000
_MOST_READS_IN_WHILE = 10_000
_MOST_READS = 1_000_000

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
queries = Inventions()  # questions whether work of the GPU is done, which was said to be
timings = Inventions()  # times between events, which were those of this machine

# Arguments of headroom_on_invented_value()'s callback.
_OTHER_RANK, _DONE = 3, 4
_COUNTED = {1: decisions, 2: sizes, _OTHER_RANK: of_other_ranks, _DONE: queries}


class _Reads:
    """Counts the reads of invented values at each place of the program, and watches a `while` around one with many."""

    def __init__(self):
        self._counts = {}
        self._watches = {}

    def add(self, what):
        frame = _program_frame(sys._getframe().f_back)
        counted = _COUNTED.get(what)
        if counted:
            counted.add(frame)
        if frame is None or what in (_OTHER_RANK, _DONE):
            return
        place = threading.get_ident(), frame.f_code, frame.f_lineno
        count = self._counts[place] = self._counts.get(place, 0) + 1
        if count % _READS_UNWATCHED == 0:
            self._look(place, frame, count)

    def _look(self, place, frame, count):
        around, loops = _loops_around(frame)
        if not loops:
            return
        watch = self._watches.get(place)
        if watch is None or not watch.sees(around, loops[0]):
            watch = self._watches[place] = _Watch(around, loops, count - _READS_UNWATCHED)
        reads = count - watch.begin
        if reads >= _MOST_READS_IN_WHILE and not watch.has_progress(around, loops, _MOST_READS // reads):
            self._end(around, frame, reads)
        elif count >= _MOST_READS:
            self._end(around, frame, count)

    def _end(self, around, frame, reads):
        _end(frame, f"{around.f_code.co_filename}:{around.f_lineno}: this loop has read {reads:,} values of the GPU "
                    "that Headroom simulates, which has no data and invents them, and may never end: end it after a "
                    "number of steps, or by values that are made on the CPU")


def _loops_around(frame):
    """Returns the loops in which a frame runs, innermost first, with their frame; (None, []) without a loop."""
    while frame is not None:
        loops = [loop for loop in _code_loops.loops_of(frame.f_code) if frame.f_lasti in loop]
        if loops:
            return frame, loops
        frame = _program_frame(frame.f_back)
    return None, []


class _Watch:
    """Compares two moments of a loop. It does not hold the loop's frame, which keeps the program's tensors alive."""

    def __init__(self, frame, loops, begin):
        self.begin = begin  # number of reads before
        self._loop = loops[0]
        self._before = _code_loops.numbers(frame, loops)
        frame.f_trace = self

    def __call__(self, *_):
        """The frame's mark is no trace function: it sees nothing."""

    def sees(self, frame, loop):
        """Returns whether this is the loop in the same call of its function."""
        return frame.f_trace is self and loop is self._loop

    def has_progress(self, frame, loops, times):
        """Returns whether something else than invented values says how long the loop runs. `times` is how much longer
        it may run if it counts."""
        if self._loop.is_for or self._loop.yields:
            return True
        after = _code_loops.numbers(frame, loops)
        if after.begins != self._before.begins:  # the loop has begun again, in one around it
            self._before, self.begin = after, self.begin + _MOST_READS_IN_WHILE
            return True
        return _code_loops.is_counting(self._before.tests, after.tests, times)


def _program_frame(frame):
    """Returns the innermost frame of the program; None in autograd's threads."""
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame


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
