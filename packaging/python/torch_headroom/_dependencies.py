# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recording depends on: the files and environment variables that the program has read. Imports no torch.

Files are those that Python opens to read, and the modules that it imports. A file of the program's own counts by its
content; one that is installed, or large, by its size and time of change. Not seen are files that only compiled code
opens, or that worker processes read, and whether a file was looked for that is not there."""

import hashlib
import json
import os
import pathlib
import sys
import sysconfig

_LARGEST = 16 << 20  # bytes of a file that counts by its content
_NO_FILES = tuple(folder + os.sep for folder in ("/proc", "/sys", "/dev"))
_INSTALLED = tuple({os.path.realpath(folder) + os.sep for folder in sysconfig.get_paths().values()})
_OWN = os.path.dirname(os.path.realpath(__file__)) + os.sep
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Dependencies:
    """Watches this process from its construction on."""

    def __init__(self):
        self._read, self._written = {}, set()  # paths; the order is that of the reads
        self._variables = {}  # name -> value, None where it is not set
        self._own_variables = set()  # names that the program has set before it read them
        sys.addaudithook(self._hear)
        self._watch_environment()

    def write(self, path):
        """Writes what was read until now to a JSON file."""
        modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        files = dict.fromkeys(os.path.realpath(file) for file in (*modules, *self._read) if isinstance(file, str))
        states = {file: state_of(file) for file in files if self._counts(file)}
        pathlib.Path(path).write_text(json.dumps({"files": states, "variables": self._variables}))

    def _counts(self, file):
        return not (file in self._written or file.startswith(_NO_FILES) or file.endswith(".pyc")) and os.path.isfile(
            file)

    def _hear(self, event, arguments):
        if event != "open" or not isinstance(arguments[0], (str, bytes, os.PathLike)):
            return
        path, mode, flags = arguments
        path = os.path.realpath(os.fsdecode(path))
        if set(mode or "") & set("wax+") or (flags or 0) & _WRITING:
            self._written.add(path)
        else:
            self._read[path] = True

    def _watch_environment(self):
        kind = type(os.environ)
        read, write = kind.__getitem__, kind.__setitem__

        def noted_read(environment, name):
            if name not in self._own_variables and _is_asked_by_program():
                value = environment._data.get(environment.encodekey(name)) if isinstance(name, str) else None
                self._variables.setdefault(name, None if value is None else environment.decodevalue(value))
            return read(environment, name)

        def noted_write(environment, name, value):
            if name not in self._variables:
                self._own_variables.add(name)
            write(environment, name, value)

        kind.__getitem__, kind.__setitem__ = noted_read, noted_write


def change_since(path):
    """Returns what has changed since a file of Dependencies was written, in words; empty: nothing."""
    known = json.loads(pathlib.Path(path).read_text())
    for file, state in known["files"].items():
        if not os.path.isfile(file):
            return f"{file} is gone"
        if state_of(file) != state:
            return f"{file} has changed"
    for name, value in known["variables"].items():
        if os.environ.get(name) != value:
            return f"the environment variable {name} has changed"
    return ""


def state_of(file):
    """Returns what tells whether a file has changed."""
    found = os.stat(file)
    if file.startswith(_INSTALLED) or found.st_size > _LARGEST:
        return [found.st_size, found.st_mtime_ns]
    return hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()


def _is_asked_by_program():
    """Returns whether the code that reads the environment is the program's own, not that of an installed library."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(("<frozen", os.__file__)):
        frame = frame.f_back
    return frame is not None and not os.path.realpath(frame.f_code.co_filename).startswith((*_INSTALLED, _OWN))
