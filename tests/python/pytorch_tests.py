# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PyTorch's own tests on the simulated GPU: `pytorch_tests.py FOLDER [FILE...]`, where FOLDER is `test` of PyTorch's
sources (such as Debian's source package; nothing is fetched here). Each test passes, is skipped by PyTorch, is refused
by name, or fails by design: tests/data/pytorch_tests.json says which and why. Any other outcome is an error.

With --list, every outcome is printed. A test that takes longer than two minutes, or ends the process, is an error."""

import argparse
import collections
import fnmatch
import functools
import importlib.util
import inspect
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import traceback
import types
import unittest

import support

_REASONS = pathlib.Path(__file__).parent.parent / "data" / "pytorch_tests.json"
_SECONDS = 120  # for one test
_RANKS = 4  # of the machine that tests of several processes run on
# Files below FOLDER, and what the names of their tests have to match.
_FILES = {
    "test_cuda.py": "*",
    "test_cuda_expandable_segments.py": "*",
    "test_cuda_trace.py": "*",
    "test_cuda_primary_ctx.py": "*",
    "test_optim.py": "*CUDA.*",
    "test_utils.py": "*Checkpoint*",
    "test_autograd.py": "*checkpoint*",
    "distributed/_composable/test_checkpoint.py": "*",
    "distributed/_composable/fsdp/*.py": "*",
}


class Results(unittest.TestResult):
    """Writes a line of JSON for each test, before and after it."""

    def __init__(self, file, out):
        super().__init__()
        self._file, self._out = file, out

    def _write(self, test, outcome, text=""):
        name = f"{self._file}::{type(test).__name__}.{test._testMethodName}"
        print(json.dumps([name, outcome, text]), file=self._out, flush=True)

    def startTest(self, test):
        super().startTest(test)
        self._placeholders = support.placeholder_values()
        self._problem = ("passed", "")
        signal.alarm(_SECONDS)
        self._write(test, "begins")

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)
        self._write(test, *self._problem)

    def _failed(self, error):
        kind, value, trace = error
        last = "".join(traceback.format_exception_only(kind, value)).strip()
        frames = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(trace)]
        read = support.placeholder_values() - self._placeholders
        self._problem = "failed", f"{last}\n[invented values: {read}] {' < '.join(reversed(frames[-4:]))}"

    def addError(self, test, err):
        self._failed(err)

    def addFailure(self, test, err):
        self._failed(err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._failed(err)

    def addSkip(self, test, reason):
        self._problem = "skipped", reason

    def addExpectedFailure(self, test, err):
        pass

    def addUnexpectedSuccess(self, test):
        self._problem = "failed", "unexpected success"


class _Dropped:
    """A name that older sources import and this torch does not have. Tests that it decorates or that call it fail."""

    importing = True

    def __init__(self, name):
        self.name = name

    def __bool__(self):
        return False

    def __call__(self, *arguments, **named):
        if not _Dropped.importing:
            raise NameError(f"this torch has no {self.name}")
        if not (arguments and inspect.isfunction(arguments[0])):
            return self
        return functools.wraps(arguments[0])(lambda *_, **__: self())


def _execute(loader, module):
    """Runs a module of sources that may be older than this torch."""
    while True:
        try:
            loader.exec_module(module)
        except ImportError as error:
            dropped = re.match(r"cannot import name '(\w+)' from '(torch[\w.]*)'", str(error))
            if not dropped:
                raise
            setattr(sys.modules[dropped[2]], dropped[1], _Dropped(dropped[1]))
        else:
            _Dropped.importing = False
            return


def _tests_of(suite):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from _tests_of(part)
        else:
            yield part


def _as_one_rank():
    """Tests that start a process or a thread for each rank run as the first rank of a job, as recorded scripts do."""
    from torch_headroom._distributed import job as jobs, ranks

    job = jobs.Job(_RANKS)
    ranks.enter(job, [])
    import torch.distributed as dist
    from torch.testing._internal import common_distributed

    def join_or_run(test, function):
        def run(self):
            self.rank = 0
            self._outcome = None  # a test that copies itself does not copy the results
            job.processes = job.per_node = int(self.world_size)
            dist.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=job.processes)
            try:
                getattr(self, "perThreadSetUp", lambda: None)()
                function()
            except SystemExit as end:
                skips = {skip.exit_code: skip.message for skip in common_distributed.TEST_SKIPS.values()}
                raise unittest.SkipTest(skips[end.code]) from end
            finally:
                dist.destroy_process_group()

        return types.MethodType(run, test)

    for case, start in ((common_distributed.MultiProcessTestCase, "_spawn_processes"),
                        (common_distributed.MultiThreadedTestCase, "_spawn_threads")):
        case.join_or_run = join_or_run
        setattr(case, start, lambda self: None)


def _run(folder, file, gpu, done, out):
    """Runs the tests of a file that are not in `done`, in this process."""
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "cuda"
    support.simulated(gpu)
    if "/fsdp/" in file:
        _as_one_rank()
    sys.path[:0] = [str(folder), str((folder / file).parent)]
    sys.argv[:] = [str(folder / file)]  # as if it was started
    spec = importlib.util.spec_from_file_location(pathlib.Path(file).stem, folder / file)
    module = sys.modules[spec.name] = sys.modules["__main__"] = importlib.util.module_from_spec(spec)
    _execute(spec.loader, module)
    pattern = next(pattern for files, pattern in _FILES.items() if fnmatch.fnmatch(file, files))

    def stop(*_):
        raise TimeoutError(f"longer than {_SECONDS} s")

    signal.signal(signal.SIGALRM, stop)
    results = Results(file, out)
    for test in _tests_of(unittest.defaultTestLoader.loadTestsFromModule(module)):
        name = f"{type(test).__name__}.{getattr(test, '_testMethodName', '')}"
        if f"{file}::{name}" not in done and fnmatch.fnmatch(name, pattern):
            unittest.TestSuite([test]).run(results)


def _outcomes(folder, file, gpu):
    """Runs the tests of a file in processes of their own; returns (outcome, text) by test."""
    outcomes = {}
    while True:
        with tempfile.NamedTemporaryFile("w+") as lines, tempfile.NamedTemporaryFile("w+") as done:
            json.dump(list(outcomes), done)
            done.flush()
            command = [sys.executable, __file__, folder, file, "--gpu", gpu, "--lines", lines.name, "--done", done.name]
            child = subprocess.run(command, capture_output=True, text=True, errors="replace")
            running = None
            for name, outcome, text in map(json.loads, lines.read().splitlines()):
                running = name if outcome == "begins" else None
                if not running:
                    outcomes[name] = outcome, text
        if child.returncode == 0:
            return outcomes
        said = (child.stderr.strip().splitlines() or [""])[-1]
        if running is None:
            outcomes[f"{file}::"] = "failed", f"the file cannot be run: {said}"
            return outcomes
        outcomes[running] = "failed", f"the process ended with {child.returncode}: {said}"


def _classified(outcomes, reasons):
    """Returns (name, class, reason) of each outcome. The first entry of `reasons` that matches a failed test's name and
    text says why it fails."""
    for name, (outcome, text) in outcomes.items():
        reason = text
        if outcome == "failed":
            outcome = "wrong"
            for entry in reasons:
                if re.search(entry.get("test", ""), name) and re.search(entry.get("text", ""), text):
                    outcome, reason = entry["class"], entry["reason"]
                    break
        yield name, outcome, reason


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("files", nargs="*")
    options.add_argument("--gpu", default="h100-80gb")
    options.add_argument("--list", action="store_true")
    options.add_argument("--lines", help=argparse.SUPPRESS)
    options.add_argument("--done", help=argparse.SUPPRESS)
    options = options.parse_args()
    if options.lines:
        with open(options.lines, "w") as out:
            _run(options.folder, options.files[0], options.gpu, set(json.load(open(options.done))), out)
        os._exit(0)  # what a test leaves behind is no part of it
    files = options.files or sorted(
        str(path.relative_to(options.folder)) for pattern in _FILES for path in options.folder.glob(pattern))
    if not files:
        sys.exit(f"{options.folder}: expected the folder `test` of PyTorch's sources, with {', '.join(_FILES)}")
    reasons = json.loads(_REASONS.read_text())
    table = {}
    for file in files:
        found = list(_classified(_outcomes(options.folder, file, options.gpu), reasons))
        table[file] = collections.Counter(outcome for _, outcome, _ in found)
        for name, outcome, reason in found:
            if options.list or outcome == "wrong":
                print(f"{outcome}: {name}: {reason}", flush=True)
        print(file, dict(table[file]), flush=True)
    return any(counts["wrong"] for counts in table.values())


if __name__ == "__main__":
    sys.exit(main())
