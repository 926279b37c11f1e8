# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that record scripts, in forks of a process that has imported torch."""

import atexit
import collections
import contextlib
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import unittest.mock

from torch_headroom._record.fork_server import record_at

_tools = contextlib.ExitStack()
atexit.register(_tools.close)
_cards = collections.Counter()  # the recordings for each card: the first is a process of its own


class ForkServer:
    """A fork server for recordings on a card, with its socket in a folder. A context manager: the server ends with the
    block."""

    def __init__(self, folder, gpu):
        self._address = pathlib.Path(folder, gpu)

    def __enter__(self):
        command = [sys.executable, "-m", "torch_headroom._record.fork_server", self._address.parent, self._address.name]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *error):
        self._process.terminate()
        self._process.wait()

    def wait(self):
        """Returns whether the server serves, once this is known."""
        while not self._address.exists():
            if self._process.poll() is not None:
                return False
            time.sleep(0.02)
        return True


@functools.cache
def _servers():
    """Returns the folder of this process's fork servers."""
    return _tools.enter_context(tempfile.TemporaryDirectory())


@functools.cache
def _serve(gpu):
    """Returns whether a fork server serves for a card, until this process ends."""
    return _tools.enter_context(ForkServer(_servers(), gpu)).wait()


def fork_servers(*gpus):
    """Returns the environment of programs that record scripts for cards."""
    for gpu in gpus:
        _serve(gpu)
    return {"HEADROOM_FORK_SERVERS": _servers()}


def _card_of(command):
    """Returns the card that a command of the recorder names; empty: the real one."""
    words = list(map(str, command))
    if "--device" in words:
        return ""
    return words[words.index("--gpu") + 1] if "--gpu" in words else "h100-80gb"


class Recorded(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.step = pathlib.Path(self.folder.name) / "step.hrs"

    def command(self, script, *options, arguments=()):
        return [sys.executable, "-m", "torch_headroom.record", "-o", self.step, *options, script, *arguments]

    def run_script(self, script, *options, arguments=()):
        return self.run_recorder(self.command(script, *options, arguments=arguments))

    def run_recorder(self, command, **environment):
        """Runs a command as command() returns it, with further variables."""
        gpu = _card_of(command)
        _cards[gpu] += 1
        with unittest.mock.patch.dict(os.environ, environment):
            if gpu and _cards[gpu] > 1 and _serve(gpu):
                with tempfile.TemporaryFile("w+", errors="replace") as output, tempfile.TemporaryFile("w+") as errors:
                    code = record_at(_servers(), gpu, command[3:], output, errors, self.folder.name)
                    output.seek(0)
                    errors.seek(0)
                    if code is not None:
                        return subprocess.CompletedProcess(command, code, output.read(), errors.read())
            return subprocess.run(command, capture_output=True, text=True, cwd=self.folder.name, timeout=300)

    def written(self, text):
        path = pathlib.Path(self.folder.name) / "train.py"
        path.write_text(textwrap.dedent(text))
        return path

    def recorded(self, text, *options):
        """What the recorder says of a script that it recorded."""
        result = self.run_script(self.written(text), "--json", "--gpu", "a100-80gb", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def noted(self, key):
        """What the step file says of how it was made."""
        contents = self.step.read_bytes().decode(errors="replace")
        return json.JSONDecoder().raw_decode(contents[contents.index(f'"{key}":') + len(key) + 3 :])[0]
