# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What README.md and the manual say that commands print: each `console` listing with output is run, page after page in
one folder, and its lines are found in what the command prints, in their order. A listing may leave lines out.

manual_output_test.py FOLDER_OF_THE_PROGRAMS, with the Python that has torch.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "resources" / "manual").glob("*.md"))]
PROGRAMS = sys.argv.pop()
NO_PLAN = 3  # exit code of a plan that does not fit
LISTING = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)


def commands(page):
    """(command, lines that it is said to print) of each listing in which a command prints anything."""
    for listing in LISTING.findall(page.read_text()):
        steps = []
        for line in listing.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            elif line:
                steps[-1][1].append(line.rstrip())
        if any(lines for _, lines in steps):
            yield from steps


def missing(lines, printed):
    """The first of `lines` that does not come in `printed` after those before it; None: all do."""
    rest = iter(line.rstrip() for line in printed)
    return next((line for line in lines if line not in rest), None)


class ManualOutputTest(unittest.TestCase):
    def test_listings_say_what_commands_print(self):
        count = 0
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(ROOT / "tests" / "python" / "scripts" / "fsdp_llama.py", folder + "/fsdp_llama.py")
            environment = os.environ | {
                "PATH": PROGRAMS + os.pathsep + os.environ["PATH"],
                "VIRTUAL_ENV": sys.prefix,
                "HOME": folder,
                "XDG_DATA_HOME": folder,
                "QT_QPA_PLATFORM": "offscreen",
            }
            for page in PAGES:
                for command, lines in commands(page):
                    done = subprocess.run(command, shell=True, cwd=folder, env=environment, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
                    with self.subTest(page=page.name, command=command):
                        printed = done.stdout.splitlines()
                        self.assertIn(done.returncode, (0, NO_PLAN), printed)
                        self.assertIsNone(missing(lines, printed), "\n".join(printed))
                    count += bool(lines)
        self.assertGreater(count, 20, "the listings were not found")

    def test_a_line_that_is_not_printed_is_found(self):
        self.assertEqual(missing(["a", "c"], ["a", "b", "c"]), None)
        self.assertEqual(missing(["c", "a"], ["a", "b", "c"]), "a")


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        sys.exit(77)
    unittest.main()
