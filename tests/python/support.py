# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the Python package share. `simulated` comes before anything that imports torch."""

import importlib.util
import pathlib
import struct
import subprocess
import sys
import unittest

SKIPPED = 77  # what CTest takes for a skipped test


def simulated(gpu):
    """torch, after `cuda` became the card `gpu`."""
    need("torch")
    import torch_headroom

    torch_headroom.simulate(gpu)
    import torch

    return torch


def need(*modules):
    """Ends the process as skipped unless this Python has these, which it does not import: it is too early for torch."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        print(f"skipped: this Python has no {', '.join(missing)}", file=sys.stderr)
        sys.exit(SKIPPED)


def skip_without(package):
    """Skips a test where this Python cannot import `package`."""
    try:
        __import__(package)
    except ImportError as error:
        raise unittest.SkipTest(f"this Python cannot import {package}: {error}") from error


def placeholder_values():
    from torch_headroom._library import load

    return load().headroom_placeholder_values()


def tensor_bytes():
    """What tensors take of the simulated GPU now, and at most: as torch.cuda.memory_allocated(), but without what a block
    of the caching allocator has beyond a multiple of 512 bytes, which MemTracker and a recorded step leave out, too."""
    from torch_headroom._library import load
    from torch_headroom._simulate.memory import read

    memory = read(load())
    return memory.live, memory.peak


def columns(step):
    """The columns of a step file by name (core/trace/step_format.h)."""
    data = pathlib.Path(step).read_bytes()
    found = {}
    for i in range(struct.unpack_from("<I", data, 12)[0]):
        name, kind, width, count, offset, _ = struct.unpack_from("<32sIIQQQ", data, 64 * (i + 1))
        found[name.rstrip(b"\0").decode()] = memoryview(data)[offset:offset + width * count].cast(" BHIqdcc"[kind])
    return found


class Checker:
    """plan_checker.cpp, asked line by line."""

    def __init__(self, path):
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *fields):
        self._process.stdin.write("\t".join(map(str, fields)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n").split("\t")
        if answer[0] == "error":
            raise Wrong(answer[1])
        return answer

    def close(self):
        self._process.communicate()


class Wrong(Exception):
    """What a program shows to be wrong, as one sentence."""
