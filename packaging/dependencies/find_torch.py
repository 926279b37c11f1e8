# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the folder of torch of the Python that runs this file; exit code 1 if torch-versions.txt does not have its
version. Does not import torch."""

import importlib.util
import pathlib
import re
import sys


def supported():
    """Returns the list torch-versions.txt, as oldest, newest and installed."""
    lines = pathlib.Path(__file__).with_name("torch-versions.txt").read_text().splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def minor(version):
    """Returns (2, 11) of 2.11.0."""
    return tuple(int(part) for part in version.split(".")[:2])


def main():
    spec = importlib.util.find_spec("torch")
    folder = pathlib.Path(spec.submodule_search_locations[0]) if spec else None
    found = folder and re.search(r"__version__ = '(\d+\.\d+)\.", (folder / "version.py").read_text())
    versions = supported()
    if not found or not minor(versions["oldest"]) <= minor(found[1]) <= minor(versions["newest"]):
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
