# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manual and README.md against the Python package: its command lines, its options, what it exports. Without torch."""

import pathlib
import re
import shlex
import sys
import unittest

import torch_headroom
from torch_headroom._library import HeadroomError

from torch_headroom import run  # noqa: E402
from torch_headroom._record import options as record_options  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANUAL = ROOT / "resources" / "manual"
PYTHON = re.compile(r"(?:python3?) -m torch_headroom\.record\b(.*)")
SCRIPT = re.compile(r"torch-headroom record\b(.*)")
OPTION = re.compile(r"(?:`|, )(--?[A-Za-z][A-Za-z-]*)")


def listings(text):
    """Lines of the listings of a page."""
    inside = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif inside:
            yield line.removeprefix("$ ").strip()


def names_script(arguments):
    return any(word.endswith(".py") or word == "-m" for word in arguments)


def recorded_scripts(text):
    """The arguments of each command that records a script."""
    for line in listings(text):
        if found := PYTHON.match(line):
            yield shlex.split(found.group(1), comments=True)
        elif (found := SCRIPT.match(line)) and names_script(words := shlex.split(found.group(1), comments=True)):
            yield words


def problem(arguments):
    """Why the module would not take the arguments; None: it does."""
    try:
        options = record_options.parser().parse_args(arguments)
    except HeadroomError as error:
        return str(error)
    return None if options.script or options.gpu == "list" else "no script"


def options_of(module):
    names = {name for action in module.parser()._actions for name in action.option_strings}
    return names - {"-h", "--help", "--version"}


def options_in(text, section):
    body = re.search(rf"^## {re.escape(section)}$(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)
    cells = [line.split(" | ")[0] for line in body.splitlines() if line.startswith("| `-")]
    return {name for cell in cells for name in OPTION.findall(cell)}


class ManualTest(unittest.TestCase):
    def test_commands_parse(self):
        count = 0
        for page in [ROOT / "README.md", *sorted(MANUAL.glob("*.md"))]:
            for arguments in recorded_scripts(page.read_text()):
                with self.subTest(page=page.name, arguments=arguments):
                    self.assertIsNone(problem(arguments))
                count += 1
        self.assertGreater(count, 4, "the listings were not found")

    def test_a_command_that_does_not_parse_is_found(self):
        text = "```sh\npython -m torch_headroom.record --gpus a100-80gb train.py\n$ torch-headroom record --steps 0 train.py\n```\n"
        found = [problem(arguments) for arguments in recorded_scripts(text)]
        self.assertEqual(len(found), 2)
        self.assertNotIn(None, found)

    def test_the_command_line_page_has_every_option_and_no_other(self):
        page = (MANUAL / "commands.md").read_text()
        self.assertEqual(options_in(page, "record a script"), options_of(record_options))
        self.assertEqual(options_in(page, "run a script"), options_of(run))

    def test_a_missing_option_is_found(self):
        page = "## record a script\n\n| `--gpu NAME` | card, or `--list` |\n\n## verify\n\n| `--steps` | |\n"
        self.assertEqual(options_in(page, "record a script"), {"--gpu"})

    def test_the_package_page_has_every_function(self):
        headings = set(re.findall(r"^## (\w+)$", (MANUAL / "python.md").read_text(), re.M))
        functions = {name for name in torch_headroom.__all__ if name.islower()}
        self.assertLessEqual(functions, headings)


if __name__ == "__main__":
    sys.exit(unittest.main())
