# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that run `python -m torch_headroom.record` on a script."""

import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest


class Recorded(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.step = pathlib.Path(self.folder.name) / "step.hrs"

    def command(self, script, *options, arguments=()):
        return [sys.executable, "-m", "torch_headroom.record", "-o", self.step, *options, script, *arguments]

    def run_script(self, script, *options, arguments=()):
        command = self.command(script, *options, arguments=arguments)
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
