# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded steps that are kept between starts of a program, by what decides them. Imports no torch.

    CACHE/recordings/KEY.json          names the folder of the newest recording of a command line
    CACHE/recordings/KEY-RANDOM/       step.hrs, dependencies.json, what the script printed, and plans of the step

KEY stands for the command line, the folder, the interpreter, the GPU and the variables of PyTorch and CUDA. A recording
counts as long as what it has read is as it was (_dependencies.py). Folders stay for running programs, which read their
policy later, and are removed when they were not used for a month."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from ._dependencies import change_since, state_of
from ._library import HeadroomError, library_path

# Variables that decide what PyTorch and libraries around it run, whoever reads them.
_DECIDING = ("ACCELERATE_", "CUBLAS", "CUDA_", "CUDNN_", "DS_", "HEADROOM_", "HF_", "NCCL_", "NVIDIA_", "OMP_",
             "PYTHON", "PYTORCH_", "TORCH", "TRANSFORMERS_", "TRITON_")
_UNUSED = 30 * 24 * 3600.0  # seconds after which a recording is removed
_LAST_LINES = 40  # of what a script printed before it failed


def cache_folder():
    """Returns the folder of everything that Headroom keeps."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(home) / "torch-headroom"


class Program:
    """A program that trains: a script, or a module with `is_module`, and its arguments."""

    def __init__(self, script, arguments=(), is_module=False):
        self.script, self.arguments, self.is_module = script, list(arguments), is_module

    def words(self):
        """Returns its words on the command line of the recorder."""
        return (["-m"] if self.is_module else []) + [self.script, *self.arguments]


class Kept:
    """A recorded step in its folder."""

    def __init__(self, folder, why_new=""):
        self.folder = pathlib.Path(folder)
        self.step = self.folder / "step.hrs"
        self.why_new = why_new  # why it was recorded now; empty: it was kept


def recorded(program, gpu, tell):
    """Returns a Kept with the program's step on the simulated card `gpu`, which is recorded unless it is kept. `tell`
    is called with a sentence before a recording. Raises HeadroomError."""
    home = cache_folder() / "recordings"
    index = home / f"{_key(program, gpu)}.json"
    known, why = _find(index)
    if known:
        os.utime(known.folder)
        return known
    home.mkdir(parents=True, exist_ok=True)
    _remove_unused(home)
    tell(f"recording a step of {program.script} on the simulated {gpu}, as {why}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{index.stem}-", dir=home))
    try:
        _record(program, gpu, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _write(index, {"folder": folder.name})
    return Kept(folder, why)


def _key(program, gpu):
    deciding = {name: value for name, value in os.environ.items() if name.startswith(_DECIDING)}
    script = program.script if program.is_module else os.path.realpath(program.script)
    words = [program.is_module, script, program.arguments, os.getcwd(), sys.executable, sys.version, gpu, deciding,
             state_of(os.path.realpath(library_path()))]
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:24]


def _find(index):
    """Returns the recording that an index names, and why there is none."""
    try:
        kept = Kept(index.parent / json.loads(index.read_text())["folder"])
        change = change_since(kept.folder / "dependencies.json")
    except (OSError, ValueError, KeyError):
        return None, "none is kept of this command in this environment"
    return (None, change) if change or not kept.step.is_file() else (kept, "")


def _record(program, gpu, folder):
    """Records as on the card, or as on a larger one where the program does not handle that the card is full."""
    done, printed = _run_recorder(program, gpu, folder)
    if done:
        sentences, lines = _own_sentences(printed)
        print("\n".join(lines[-_LAST_LINES:]), file=sys.stderr)
        sentence = sentences[-1] if sentences else f"the recorder ended with exit code {done}"
        raise HeadroomError(f"no step could be recorded: {sentence.partition(f'; {folder}')[0]}", done)


def _run_recorder(program, gpu, folder):
    """Returns the exit code and what was printed on stderr."""
    command = [sys.executable, "-m", "torch_headroom.record", "-o", str(folder / "step.hrs"), "--dependencies",
               str(folder / "dependencies.json"), "--gpu", gpu, *program.words()]
    with open(folder / "record.log", "wb") as output, open(folder / "record.err", "w+b") as errors:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        errors.seek(0)
        printed = errors.read().decode(errors="replace")
    if done.returncode in (130, -2):
        raise KeyboardInterrupt
    return done.returncode, printed


def _own_sentences(printed):
    """Divides what a recording printed into the recorder's sentences and the other lines."""
    begin, lines = "torch_headroom.record: ", printed.splitlines()
    return ([line.removeprefix(begin) for line in lines if line.startswith(begin)],
            [line for line in lines if not line.startswith(begin)])


def _write(path, document):
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=path.stem, delete=False) as file:
        json.dump(document, file)
    os.replace(file.name, path)


def _remove_unused(home):
    for path in home.iterdir():
        if time.time() - path.stat().st_mtime > _UNUSED:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
