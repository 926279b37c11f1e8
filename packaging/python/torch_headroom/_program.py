# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a user's program inside of this process, as `python script.py` or `python -m module` would."""

import os
import pathlib
import runpy
import sys
import traceback

_OWN = str(pathlib.Path(__file__).parent)


def run(script, arguments, is_module=False):
    """Runs a script with its arguments as `__main__`; `is_module`: `script` names a module."""
    sys.argv = [script, *arguments]
    if is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(pathlib.Path(script).resolve().parent)
        runpy.run_path(script, run_name="__main__")


def own_traceback(error):
    """Returns the program's traceback, without the frames of Headroom and runpy."""
    report = traceback.TracebackException.from_exception(error)
    report.stack = traceback.StackSummary.from_list([f for f in report.stack if not runs_it(f.filename)])
    return report


def without_runner(trace):
    """Returns the part of a traceback (`error.__traceback__`) that begins in the program."""
    while trace.tb_next is not None and runs_it(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def runs_it(filename):
    """Returns whether a source file belongs to Headroom or runpy, which run the program."""
    return filename.startswith(_OWN) or "runpy" in filename
