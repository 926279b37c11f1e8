# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loops of a function, read from its bytecode, and the numbers by which a `while` may end. Names of instructions
are those of Python 3.10 to 3.14."""

import dis
import functools
import inspect
import sys
from numbers import Real

import torch


class Loop:
    """A loop from instruction `begin`, whose work begins at `head`, to `end`, a backward jump. `is_for`: an iterator
    ends it. `yields`: its consumer may end it."""

    def __init__(self, begin, head, end, is_for, yields):
        self.begin, self.head, self.end, self.is_for, self.yields = begin, head, end, is_for, yields

    def __contains__(self, at):
        return self.begin <= at <= self.end


_SILENT = ("EXTENDED_ARG", "CACHE", "NOP", "RESUME", "PRECALL", "TO_BOOL", "NOT_TAKEN", "COPY_FREE_VARS")
_ITERATES = ("FOR_ITER", "GET_ANEXT")


@functools.lru_cache(maxsize=256)
def loops_of(code):
    """Returns the loops of a code object, inner ones first."""
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
    """What tells two moments of a loop apart: the two numbers of each comparison, by instruction (None for one that is
    not known, as the program would have to be called; what is tested alone is compared with 0), and the present
    elements of each `for` around it."""

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
    """Returns the variables of a frame by name. Before 3.13 a function's frame keeps the copy that is made for this,
    and with it tensors that the program drops; so it is emptied, unless locals() has given it to the program or a trace
    function runs, after which Python restores the variables from it."""
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
    """Returns whether the numbers of a test approach each other between two moments, so fast that they meet within
    `times` times as long. A number that changes may also reach one that is not known."""
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
    calls = " + " in instruction.argrepr  # a callable and the place of its self, in either order
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
