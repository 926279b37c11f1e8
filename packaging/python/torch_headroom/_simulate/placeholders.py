# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that the program reads of the simulated GPU where nobody knows the value: placeholders. Branches that depend
on a placeholder are counted. Loops that may wait for a placeholder forever are ended with a message. The loops of a
function, and the numbers by which a `while` may end, are read from the bytecode; names of instructions are the names of
Python 3.10 to 3.14.

Random values of large CPU tensors are drawn at the first read (core/device/deferred_fill.h), so that a model that is
only moved to the simulated GPU is built at once. Ops draw the values; patch_random_values() covers methods that access
a tensor's memory without an op."""

import atexit
import ctypes
import dis
import functools
import inspect
import os
import random
import sys
import threading
from numbers import Real

import torch

from .. import _remarks as remarks
from .._library import OWN_FOLDER, check
from .._torch import change_after_import, patch_around


# Numbers of reads of placeholders at one place: the first number starts the watch of a `while` around the place, the
# second ends a `while` that still runs, the third ends any loop. A `for` usually ends and may be long, as may a `while`
# that counts.
_READS_UNWATCHED = 1_000
_MOST_READS_IN_WHILE = 10_000
_MOST_READS = 1_000_000

_OURS = (os.path.dirname(torch.__file__) + os.sep, OWN_FOLDER)
# Asks whether arguments and samples are valid, and nothing else: the other way is an exception.
_VALIDATION = torch.distributions.distribution.__file__


class EndlessLoop(SystemExit):
    """Ends the program with a sentence, even if the program catches every Exception."""


class Placeholders:
    """Placeholders that change what the program does: the number, and the place of the first."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.count = 0
        self.first = ""  # place in the program, or node of autograd

    def add(self, frame):
        self.count += 1
        self.first = self.first or _place(frame)

    def __str__(self):
        if self.count == 1:
            return f"once {self.first}".rstrip()
        return f"{self.count} times" + (f", first {self.first}" if self.first else "")


def _place(frame):
    """Returns "at FILE:LINE", or the node of the backward pass where no line of the program runs; "" elsewhere."""
    if frame is not None:
        return f"at {frame.f_code.co_filename}:{frame.f_lineno}"
    node = torch._C._current_autograd_node()
    return f"in {node.name()} of the backward pass" if node else ""


decisions = Placeholders()  # truth values on which the program branches
sizes = Placeholders()  # sizes of results
of_other_ranks = Placeholders()  # values of other ranks, taken to equal this rank's
queries = Placeholders()  # questions whether work of the GPU is done, which was said to be
timings = Placeholders()  # times between events, taken on this machine

_SENTENCES = {
    decisions:
        "the program asked {} for a truth value that depends on data, and got a placeholder: on the card the step "
        "may go another way from there",
    sizes:
        "the sizes of results are placeholders {}, as only data decides the sizes: on the card results, and so "
        "memory, may be smaller",
    of_other_ranks:
        "the program read values of other ranks {}, here taken as equal to this rank's: on the card the "
        "step may go another way from there",
    queries:
        "the program asked {} whether work of the card is done (query), and the answer was yes: on the card the "
        "work may still run, and memory that waits for the work lives longer",
}


def _sentences():
    """Returns remarks on the placeholders that the program read in this step."""
    return [sentence.format(counter) for counter, sentence in _SENTENCES.items() if counter.count]


def _begin_step():
    for counter in (*_SENTENCES, timings):
        counter.clear()


remarks.add_source(remarks.PLACEHOLDERS, _sentences, _begin_step)

# Arguments of headroom_on_placeholder_value()'s callback.
_OTHER_RANK, _DONE = 3, 4
_COUNTED = {1: decisions, 2: sizes, _OTHER_RANK: of_other_ranks, _DONE: queries}


class _Reads:
    """Counts the reads of placeholders at each place of the program, and watches a `while` around a place with many
    reads."""

    def __init__(self):
        self._counts = {}
        self._watches = {}

    def add(self, what):
        asking = sys._getframe().f_back
        frame = _program_frame(asking)
        counted = _COUNTED.get(what)
        if counted and not (counted is decisions and asking and asking.f_code.co_filename == _VALIDATION):
            counted.add(frame)
        if frame is None or what in (_OTHER_RANK, _DONE):
            return
        place = threading.get_ident(), frame.f_code, frame.f_lineno
        count = self._counts[place] = self._counts.get(place, 0) + 1
        if count % _READS_UNWATCHED == 0:
            self._check(place, frame, count)

    def _check(self, place, frame, count):
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
        _end(frame, f"{around.f_code.co_filename}:{around.f_lineno}: this loop has read {reads:,} placeholder "
                    "values of Headroom's simulated GPU, and may never end: end the loop after a number of steps, "
                    "or by values that are made on the CPU")


def _loops_around(frame):
    """Returns the loops in which a frame runs, innermost first, with the loops' frame; (None, []) without a loop."""
    while frame is not None:
        loops = [loop for loop in loops_of(frame.f_code) if frame.f_lasti in loop]
        if loops:
            return frame, loops
        frame = _program_frame(frame.f_back)
    return None, []


class _Watch:
    """Compares two moments of a loop. Does not hold the loop's frame, which keeps the program's tensors alive."""

    def __init__(self, frame, loops, begin):
        self.begin = begin  # number of reads before
        self._loop = loops[0]
        self._before = numbers(frame, loops)
        frame.f_trace = self

    def __call__(self, *_):
        """The frame's mark is no trace function and sees nothing."""

    def sees(self, frame, loop):
        """Returns whether `loop` is the watched loop in the same call of the function."""
        return frame.f_trace is self and loop is self._loop

    def has_progress(self, frame, loops, times):
        """Returns whether something else than placeholders says how long the loop runs. `times`: a loop that counts may
        run so many times longer."""
        if self._loop.is_for or self._loop.yields:
            return True
        after = numbers(frame, loops)
        if after.begins != self._before.begins:  # the loop has begun again, inside an outer loop
            self._before, self.begin = after, self.begin + _MOST_READS_IN_WHILE
            return True
        return is_counting(self._before.tests, after.tests, times)


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


def patch_placeholders(library):
    tell = ctypes.CFUNCTYPE(None, ctypes.c_int)(_Reads().add)
    library.headroom_on_placeholder_value.restype = None
    library.headroom_on_placeholder_value.argtypes = [ctypes.c_void_p]
    library.headroom_on_placeholder_value(ctypes.cast(tell, ctypes.c_void_p))
    # Keeps the callback alive as long as the library may call back; autograd's thread may read after Python has ended.
    atexit.register(lambda kept=tell: library.headroom_on_placeholder_value(None))


class Loop:
    """A loop from instruction `begin`, with work that begins at `head`, to `end`, a backward jump. `is_for`: an
    iterator ends the loop. `yields`: the consumer may end the loop."""

    def __init__(self, begin, head, end, is_for, yields):
        self.begin, self.head, self.end, self.is_for, self.yields = begin, head, end, is_for, yields

    def __contains__(self, at):
        return self.begin <= at <= self.end


_SILENT = ("EXTENDED_ARG", "CACHE", "NOP", "RESUME", "PRECALL", "TO_BOOL", "NOT_TAKEN", "COPY_FREE_VARS")
_ITERATES = ("FOR_ITER", "GET_ANEXT")


@functools.lru_cache(maxsize=256)
def loops_of(code):
    """Returns the loops of a code object, inner loops first."""
    instructions = list(dis.get_instructions(code))
    ends = {}  # begin -> end
    for instruction in instructions:
        is_jump = instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs
        # The jumps without interrupts belong to `await` and `yield from`.
        if is_jump and instruction.argval <= instruction.offset and "NO_INTERRUPT" not in instruction.opname:
            ends[instruction.argval] = max(instruction.offset, ends.get(instruction.argval, 0))
    loops = []
    for begin, end in ends.items():
        inside = [i for i in instructions if begin <= i.offset <= end]
        head = next(i for i in inside if i.opname not in _SILENT)
        yields = any(i.opname == "YIELD_VALUE" for i in inside)
        loops.append(Loop(begin, head.offset, end, head.opname in _ITERATES, yields))
    return sorted(loops, key=lambda loop: -loop.begin)


class Numbers:
    """What tells two moments of a loop apart: the two numbers of each comparison, by instruction, and the present
    elements of each `for` around the loop. A number is None if unknown, since finding the number would call the
    program. A value that is tested alone is compared with 0."""

    def __init__(self):
        self.tests, self.begins = {}, []


def numbers(frame, loops):
    """Returns the numbers of the loops of a frame, which are given innermost first."""
    variables = _variables(frame)
    outermost, found = loops[-1], Numbers()
    heads = [loop.head for loop in loops[1:] if loop.is_for]
    stack, last = [], None
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset not in outermost or instruction.opname in _SILENT:
            continue
        if instruction.opname == "COMPARE_OP":
            right, left = _popped(stack), _popped(stack)
            found.tests[instruction.offset] = _number(left), _number(right)
            stack.append(None)
        elif instruction.opname.startswith("POP_JUMP"):
            found.tests[instruction.offset] = _number(_length(_popped(stack))), 0
        else:
            if last in heads:
                element = variables.get(instruction.argval) if instruction.opname.startswith("STORE") else None
                found.begins.append(element if _number(element) is not None else id(element))
            _run(instruction, variables, stack)
        last = instruction.offset
    return found


def _variables(frame):
    """Returns the variables of a frame by name. Before 3.13 a function's frame keeps the copy that is made here, and
    with the copy tensors that the program drops. So the copy is emptied, unless locals() has given the copy to the
    program or a trace function runs: Python then restores the variables from the copy."""
    copy = frame.f_locals
    variables = {name: value for names in (frame.f_globals, copy) for name, value in names.items()
                 if name in frame.f_code.co_varnames + frame.f_code.co_names + frame.f_code.co_freevars
                 + frame.f_code.co_cellvars}
    is_own = sys.getrefcount(copy) <= _REFERENCES_TO_OWN and sys.gettrace() is None
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED and is_own:
        copy.clear()
    return variables


_REFERENCES_TO_OWN = 3  # of the frame, of the name above and of the call


def is_counting(before, after, times):
    """Returns whether the numbers of a test approach each other between two moments, so fast that the numbers meet
    within `times` times as long. A number that changes may also reach an unknown number."""
    return any(_approach(test, after[place], times) for place, test in before.items() if place in after)


def _approach(before, after, times):
    if None in before or None in after:
        known = [pair for pair in zip(before, after) if None not in pair]
        return any(early != late for early, late in known)
    early, late = before[0] - before[1], after[0] - after[1]
    return early * late >= 0 and abs(late) < abs(early) and abs(late) <= times * (abs(early) - abs(late))


def _popped(stack):
    return stack.pop() if stack else None


def _number(value):
    return value if isinstance(value, Real) and not isinstance(value, bool) else None


def _length(value):
    return len(value) if isinstance(value, _SIZED) else value


_SIZED = (list, tuple, dict, set, str, bytes, range, torch.Size)


def _run(instruction, variables, stack):
    """Runs an instruction on a stack of the values that are known without calling anything of the program."""
    name, argument = instruction.opname, instruction.argval
    calls = " + " in instruction.argrepr  # a callable and a self, in either order
    if name.startswith(("LOAD_CONST", "LOAD_SMALL_INT")):
        stack.append(argument)
    elif name.startswith(("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF")):
        for variable in argument if isinstance(argument, tuple) else (argument,):  # some load two
            stack.append(variables.get(variable, len if variable == "len" else None))
        if calls:
            stack.append(stack[-1])
    elif name == "PUSH_NULL":
        stack.append(stack[-1] if stack else None)
    elif name == "LOAD_ATTR" and not calls:
        stack.append(_attribute(_popped(stack), argument))
    elif name == "BINARY_SUBSCR" or (name == "BINARY_OP" and instruction.argrepr == "[]"):
        index, values = _popped(stack), _popped(stack)
        fits = isinstance(values, torch.Size) and isinstance(index, int) and -len(values) <= index < len(values)
        stack.append(values[index] if fits else None)
    elif name in ("CALL", "CALL_FUNCTION") and len(stack) > 1 and stack[-2] is len:
        argument = _popped(stack)
        while stack and stack[-1] is len:
            stack.pop()
        stack.append(_length(argument) if isinstance(argument, _SIZED) else None)
    else:
        _forget(instruction, stack)


def _forget(instruction, stack):
    """Leaves unknown what an instruction makes."""
    change = dis.stack_effect(instruction.opcode, instruction.arg if instruction.opcode >= dis.HAVE_ARGUMENT else None,
                              jump=False)
    del stack[max(len(stack) + min(change, 0), 0):]
    if change > 0:
        stack.extend([None] * change)
    elif stack:
        stack[-1] = None


def _attribute(value, name):
    if isinstance(value, torch.Tensor):
        return value.shape if name == "shape" else None
    return getattr(value, "__dict__", {}).get(name)


_METHODS_THAT_READ = {"tolist": False, "untyped_storage": False,
                      "numpy": True, "data_ptr": True, "__dlpack__": True}  # whether the caller keeps the address
_COMPARES_ADDRESSES = ("reset_sharded_param", "_same_storage")  # functions of FSDP that take no values
_SEED = 0


def patch_random_values(library):
    library.headroom_make_values.argtypes = [ctypes.c_void_p, ctypes.c_int]

    def make_values(keeps_address, tensor, *_, **__):
        if tensor.device.type == "cpu" and sys._getframe(2).f_code.co_name not in _COMPARES_ADDRESSES:
            check(library.headroom_make_values(tensor._cdata, keeps_address))

    for name, keeps_address in _METHODS_THAT_READ.items():
        patch_around(torch.Tensor, name, before=functools.partial(make_values, keeps_address))
    library.headroom_defer_fills()


def set_seeds():
    """Seeds Python, PyTorch and NumPy for a script that sets no seed. Random numbers may decide sizes, such as sizes of
    masks and boxes: a step under a policy takes the planned memory only if the step draws the same numbers."""
    random.seed(_SEED)
    torch.manual_seed(_SEED)
    change_after_import("numpy.random", lambda module: module.seed(_SEED))
