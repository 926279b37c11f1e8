# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded steps that are kept between starts of a program, and what a recording depends on. Imports no torch.

    python -m torch_headroom._plan.recordings GPU [options of the recorder] script.py [arguments]

prints the path of a program's step as JSON, which `torch-headroom fit` asks for.

A recording counts as long as the files and environment variables that the program has read are unchanged. The files are
the files that Python opens to read, and imported modules. A file of the program counts by content; an installed or
large file counts by size and time of change. Not seen: files that only compiled code or worker processes open, and
searches for missing files."""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile

from .._library import OWN_FOLDER, HeadroomError, library_path

# An option of the recordings for `fit`: the step is whole where the card has too little memory.
IN_SEARCH = ("--unlimited",)
_LARGEST = 16 << 20  # bytes of a file that counts by its content
_NO_FILES = tuple(folder + os.sep for folder in ("/proc", "/sys", "/dev"))
_INSTALLED = tuple({os.path.realpath(folder) + os.sep for folder in sysconfig.get_paths().values()})
_PACKAGES = tuple({sysconfig.get_path(kind) + os.sep for kind in ("purelib", "platlib")})
_OWN = os.path.realpath(OWN_FOLDER) + os.sep
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Dependencies:
    """Watches this process from construction on."""

    def __init__(self):
        self._read, self._written = {}, set()  # paths; the order is that of the reads
        self._variables = {}  # name -> value, None where the variable is not set
        self._own_variables = set()  # names that the program has set before reading
        sys.addaudithook(self._note_event)
        self._watch_environment()

    def write(self, path):
        """Writes what was read until now to a JSON file."""
        modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        files = dict.fromkeys(os.path.realpath(file) for file in (*modules, *self._read) if isinstance(file, str))
        states = {file: state_of(file) for file in files if self._counts(file)}
        pathlib.Path(path).write_text(json.dumps({"files": states, "variables": self._variables,
                                                  "modules": _installed_modules()}))

    def _counts(self, file):
        return not (file in self._written or file.startswith(_NO_FILES) or file.endswith(".pyc")) and os.path.isfile(
            file)

    def _note_event(self, event, arguments):
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
            if name not in self._own_variables and _is_read_by_program():
                value = environment._data.get(environment.encodekey(name)) if isinstance(name, str) else None
                self._variables.setdefault(name, None if value is None else environment.decodevalue(value))
            return read(environment, name)

        def noted_write(environment, name, value):
            if name not in self._variables:
                self._own_variables.add(name)
            write(environment, name, value)

        kind.__getitem__, kind.__setitem__ = noted_read, noted_write


def _installed_modules():
    """Returns the names of the installed modules that this process has imported, without those of Python and Headroom,
    in the order of the imports."""
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    return [name for name, file in files.items() if isinstance(file, str) and file.startswith(_PACKAGES)
            and not os.path.realpath(file).startswith(_OWN)]


def modules_of(folder):
    """Returns the installed modules that the program of a recording has imported, in the order of the imports."""
    return json.loads((pathlib.Path(folder) / "dependencies.json").read_text())["modules"]


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


def _is_read_by_program():
    """Returns whether the code that reads the environment is the program's own, not that of an installed library."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(("<frozen", os.__file__)):
        frame = frame.f_back
    return frame is not None and not os.path.realpath(frame.f_code.co_filename).startswith((*_INSTALLED, _OWN))


# Names the folder of fork servers (_record/fork_server.py), where recordings run if a server serves the card.
_FORK_SERVERS = "HEADROOM_FORK_SERVERS"
# Variables that decide what PyTorch and libraries around PyTorch run, whoever reads the variables.
_DECIDING = ("ACCELERATE_", "CUBLAS", "CUDA_", "CUDNN_", "DS_", "HEADROOM_", "HF_", "NCCL_", "NVIDIA_", "OMP_",
             "PYTHON", "PYTORCH_", "TORCH", "TRANSFORMERS_", "TRITON_")
_DECIDING_NOTHING = ("CUDA_MODULE_LOADING", "TORCHINDUCTOR_CACHE_DIR", "TORCHINDUCTOR_COMPILE_THREADS",
                     "TORCH_COMPILE_CACHE_KEY_TAG",  # torch or simulate() sets these
                     _FORK_SERVERS)
_LIMIT = 4 << 30  # bytes of all recordings, as FitRecorder::defaultLimit
_LAST_LINES = 40  # lines that a script printed before the script failed


def cache_folder():
    """Returns the folder of everything that Headroom keeps."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(home) / "torch-headroom"


class Program:
    """A program that trains: a script, or a module with `is_module`, and the arguments. `options` are the recorder's.
    With `longest_batch` the step is that of the longest of so many batches."""

    def __init__(self, script, arguments=(), is_module=False, options=(), longest_batch=None):
        self.script, self.arguments, self.is_module, self.options = script, list(arguments), is_module, list(options)
        if longest_batch:
            self.options += ["--longest-batch", str(longest_batch)]

    def words(self):
        """Returns the program's words on the command line of the recorder."""
        return [*self.options, *(["-m"] if self.is_module else []), self.script, *self.arguments]


class Kept:
    """A recorded step in a folder of its own."""

    def __init__(self, folder, why_new=""):
        self.folder = pathlib.Path(folder)
        self.step = self.folder / "step.hrs"
        self.why_new = why_new  # why the step was recorded now; empty: the step was kept


def recorded(program, gpu, tell, in_search=False):
    """Returns a Kept with the program's step on the simulated card `gpu`. The step is recorded unless a recording is
    kept. `tell` is called with a sentence before a recording. Raises HeadroomError, after the last lines of a program
    that failed were printed on stderr. With `in_search`, nothing is printed, and the caller limits the recordings."""
    home = cache_folder() / "recordings"
    index = home / f"{_key(program, gpu)}.json"
    known, why = _find(index)
    if known:
        os.utime(known.folder)
        return known
    tell(f"recording a step of {program.script} on the simulated {gpu}, as {why}")
    try:
        home.mkdir(parents=True, exist_ok=True)
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{index.stem}-", dir=home))
    except OSError as error:
        raise HeadroomError(f"nothing can be kept in {home} ({error.strerror}): set XDG_CACHE_HOME to a folder that can "
                            "be written to") from None
    try:
        _record(program, gpu, folder, in_search)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _write(index, {"folder": folder.name})
    if not in_search:
        enforce_limit([folder])
    return Kept(folder, why)


def enforce_limit(used=()):
    """Removes the recordings that were not used for the longest time while all have more than 4 GiB, as
    FitRecorder::finish() does. `used` are folders of recordings, which stay. Other processes may use and remove
    recordings at the same time."""
    groups = {}  # key of a recording -> [time of the last use, bytes, paths]
    stay = {_key_of(pathlib.Path(folder)) for folder in used}
    for path in _listed(cache_folder() / "recordings"):
        try:
            group = groups.setdefault(_key_of(path), [0, 0, []])
            group[0] = max(group[0], path.stat().st_mtime)
            group[1] += sum(file.stat().st_size for file in [path, *_listed(path)] if file.is_file())
            group[2].append(path)
        except FileNotFoundError:
            pass  # another process has removed the file
    size = sum(bytes_ for _, bytes_, _ in groups.values())
    for key, (_, bytes_, paths) in sorted(groups.items(), key=lambda item: item[1][0]):
        if size <= _LIMIT:
            return
        if key in stay:
            continue
        for path in paths:
            shutil.rmtree(path, ignore_errors=True)
            if path.is_file():
                path.unlink(missing_ok=True)
        size -= bytes_


def _key_of(path):
    """Returns the key of the recording that a file or folder of the cache belongs to."""
    return path.name.partition("-")[0].partition(".")[0]


def _listed(folder):
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def deciding_variables(environment):
    """Returns the part of an environment that decides what PyTorch and libraries around PyTorch run."""
    return {name: value for name, value in environment.items()
            if name.startswith(_DECIDING) and name not in _DECIDING_NOTHING}


def _key(program, gpu):
    script = program.script if program.is_module else os.path.realpath(program.script)
    words = [program.options, program.is_module, script, program.arguments, os.getcwd(), sys.executable, sys.version, gpu,
             deciding_variables(os.environ), state_of(os.path.realpath(library_path()))]
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:24]


def _find(index):
    """Returns the recording that an index names, and why there is none."""
    try:
        kept = Kept(index.parent / json.loads(index.read_text())["folder"])
        change = change_since(kept.folder / "dependencies.json")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # missing or damaged
        return None, "none is kept of this command in this environment"
    if not change and kept.step.is_file():
        return kept, ""
    return None, change or "the kept step is gone"


def _record(program, gpu, folder, in_search):
    """Records as on the card, or as on a larger card where the program does not handle a full card."""
    done, printed = _run_recorder(program, gpu, folder)
    if done:
        sentences, lines = _own_sentences(printed)
        if not in_search:
            print("\n".join(lines[-_LAST_LINES:]), file=sys.stderr)
        sentence = sentences[-1].partition(f"; {folder}")[0] if sentences else f"{program.script} {_end_of(done)}"
        last = next((line for line in reversed(lines) if line.strip()), "")
        if in_search and "exit code" in sentence and last and last not in sentence:
            sentence += f"; the last line on stderr: {last}"
        raise HeadroomError(f"no step could be recorded: {sentence}", done)
    for file in ("record.log", "record.err"):
        (folder / file).unlink()


def _end_of(code):
    """Returns what is known of the end of a recorder that said nothing."""
    if code >= 0:
        return f"ended the recorder with exit code {code}"
    cause = ", as where the machine has no memory left" if -code == signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-code).name}{cause}"


def recorder_words(folder, gpu, program):
    """Returns the recorder's arguments for a recording in a folder; `program` are Program.words()."""
    return ["-o", os.path.join(folder, "step.hrs"), "--dependencies", os.path.join(folder, "dependencies.json"), "--gpu",
            gpu, *program]


def _run_recorder(program, gpu, folder):
    """Returns the exit code and what was printed on stderr."""
    from .._record.fork_server import record_at

    words = recorder_words(folder, gpu, program.words())
    with open(folder / "record.log", "wb") as output, open(folder / "record.err", "w+b") as errors:
        servers = os.environ.get(_FORK_SERVERS)
        code = record_at(servers, gpu, words, output, errors) if servers else None
        if code is None:
            command = [sys.executable, "-m", "torch_headroom.record", *words]
            code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors).returncode
        errors.seek(0)
        printed = errors.read().decode(errors="replace")
    if code in (130, -2):
        raise KeyboardInterrupt
    return code, printed


def _own_sentences(printed):
    """Divides what a recording printed into the recorder's sentences and the other lines."""
    begin, lines = "torch_headroom.record: ", printed.splitlines()
    return ([line.removeprefix(begin) for line in lines if line.startswith(begin)],
            [line for line in lines if not line.startswith(begin)])


def _write(path, document):
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=path.stem, delete=False) as file:
        json.dump(document, file)
    os.replace(file.name, path)


def program_of(words):
    """Returns the Program of the recorder's words: options, a script (`x.py`, or `-m module`), its arguments."""
    for at, word in enumerate(words):
        if word == "-m" and at + 1 < len(words):
            return Program(words[at + 1], words[at + 2:], True, words[:at])
        if word.endswith(".py"):
            return Program(word, words[at + 1:], False, words[:at])
    raise HeadroomError("a script is missing: expected a file that ends in .py, or -m module")


def this_program(caller, longest_batch=None):
    """Returns the Program of this process, for another run. `caller` names the function for sentences. Raises
    HeadroomError where the program cannot run again."""
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise HeadroomError(f"{caller} does not plan a job of several processes: record a process with "
                            "torch_headroom.record --nproc-per-node, plan that step with torch-headroom plan "
                            "--card, and call "
                            "torch_headroom.apply()")
    main, words = sys.modules["__main__"], sys.orig_argv[1:]
    spec = getattr(main, "__spec__", None)
    if spec is not None and "-m" in words:
        place = words.index("-m") + 1
        return Program(words[place], words[place + 1:], is_module=True, longest_batch=longest_batch)
    script = getattr(main, "__file__", None)
    place = next((i for i, word in enumerate(words) if script and os.path.realpath(word) == os.path.realpath(script)),
                 None)
    if place is None:
        raise HeadroomError(f"{caller} runs the program again to record a step, and this program has no script (a "
                            "notebook, python -c, or torch_headroom.run, where the program is planned already): "
                            f"call {caller} in a script that is started by python")
    return Program(script, words[place + 1:], longest_batch=longest_batch)


def _main(gpu, *words):
    servers = os.environ.get(_FORK_SERVERS)

    def begin(_):  # `fit` starts a fork server then
        if servers and os.path.isdir(servers):
            pathlib.Path(servers, f"{gpu}.begun").touch()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # removes the folder of a part
    try:
        kept = recorded(program_of([*IN_SEARCH, *words]), gpu, begin, in_search=True)
    except HeadroomError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    print(json.dumps({"step": str(kept.step), "recorded": bool(kept.why_new)}))
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
