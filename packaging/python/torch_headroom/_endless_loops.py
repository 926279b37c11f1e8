# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads of values that the simulated GPU invents: where a program decides by one, and loops that wait for one and so may
never end, which are told so and ended."""

import atexit
import ctypes
import dis
import os
import sys
import threading

import torch

# Reads of invented values at one place after which the loop around it is ended. A `for` has an end in most cases, and
# may be long: a layer of a mixture reads values for each of its experts.
_OF_WHILE = 10_000
_OF_ANY = 1_000_000

_OURS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)


class EndlessLoop(SystemExit):
    """Ends the program with a sentence, also where it catches every Exception."""


class Inventions:
    """Values that were invented and change what the program does: how many, and where first."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.count = 0
        self.first = None  # place in the program; a thread of autograd has none

    def add(self, frame):
        self.count += 1
        if self.first is None and frame is not None:
            self.first = f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def __str__(self):
        place = f" at {self.first}" if self.first else ""
        if self.count == 1:
            return f"once{place}"
        return f"{self.count} times" + (f", first{place}" if place else "")


decisions = Inventions()  # truth values, by which a program decides what it does next
sizes = Inventions()  # of results
of_other_ranks = Inventions()  # not invented, but those of this rank


_OF_RANKS = 3
_CHANGES = {1: decisions, 2: sizes, _OF_RANKS: of_other_ranks}  # as headroom_on_invented_value() says


class _Reads:
    """How often each place of the program has read an invented value."""

    def __init__(self):
        self._counts = {}

    def add(self, what):
        frame = _of_the_program(sys._getframe().f_back)  # none in a thread of autograd
        changed = _CHANGES.get(what)
        if changed:
            changed.add(frame)
        if frame is None or what == _OF_RANKS:
            return
        place = frame.f_code, frame.f_lineno
        count = self._counts[place] = self._counts.get(place, 0) + 1
        if count % _OF_WHILE == 0:
            self._look_at(frame, count)

    def _look_at(self, frame, count):
        loop, is_for = _loop_around(frame)
        if loop is None or (is_for and count < _OF_ANY):
            return
        _end(
            frame,
            f"{loop.f_code.co_filename}:{loop.f_lineno}: this loop has read {count:,} values of the GPU that Headroom simulates, which has no data and "
            "invents them, and may never end: end it after a number of steps, or by values that are made on the CPU",
        )


def _of_the_program(frame):
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame


def _loop_around(frame):
    """The frame whose loop `frame` runs in, the innermost, and whether that is a `for`; None, False without one."""
    while frame is not None:
        is_for = _innermost_loop(frame.f_code, frame.f_lasti)
        if is_for is not None:
            return frame, is_for
        frame = _of_the_program(frame.f_back)
    return None, False


def _innermost_loop(code, at):
    """Whether the loop around an instruction is a `for`; None: there is no loop. Jumps backwards make them."""
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

    # What a callback raises is lost: the exception is raised where the frame that reads goes on.
    def at_next_line(*_):
        sys.settrace(None)
        raise EndlessLoop(sentence) if in_main else SystemExit

    frame.f_trace = at_next_line
    sys.settrace(lambda *_: None)
    if not in_main:
        # A thread that ends so says nothing, and the others go on.
        error = type("EndlessLoop", (EndlessLoop,), {"__init__": lambda self: super(error, self).__init__(sentence)})
        main = ctypes.c_ulong(threading.main_thread().ident)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(error))


def patch(library):
    tell = ctypes.CFUNCTYPE(None, ctypes.c_int)(_Reads().add)
    library.headroom_on_invented_value.restype = None
    library.headroom_on_invented_value.argtypes = [ctypes.c_void_p]
    library.headroom_on_invented_value(ctypes.cast(tell, ctypes.c_void_p))
    # It lives as long as it may be called; autograd's thread may read after Python has ended.
    atexit.register(lambda kept=tell: library.headroom_on_invented_value(None))
