# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fork server for recordings, as multiprocessing has one for functions: a process that simulates a card and has
imported torch, which takes seconds. Each recording runs in a fork of the process.

    python -m torch_headroom._record.fork_server FOLDER GPU [RECORDING [WORDS...]]

serves on the Unix socket FOLDER/GPU until the process is ended. With RECORDING, a folder of a kept recording, the
server waits until the folder exists, and the installed modules that the recorded program has imported are imported,
too. With WORDS, the recorder's for that program, nothing is answered unless a fork records the same step to the byte: a
program may set variables that torch or another library reads at import, or depend on the order of imports. Requests
run at the same time as this proof. FOLDER/GPU.proven exists once requests are answered. A request is refused if its
environment differs from the server's in a variable that a library may read at import."""

import contextlib
import importlib
import json
import os
import pathlib
import select
import signal
import socket
import struct
import sys
import threading
import time

from .._plan.recordings import IN_SEARCH, deciding_variables, modules_of, recorder_words
from .._simulate.simulate import simulate
from ..record import lasting_objects, main
from .process import fork, supervise

# What every recording imports; torch._dynamo: every optimizer of torch does.
_MODULES = ("torch", "torch._dynamo", "torch.distributed", "torch_headroom._remarks", "torch_headroom._record.hooks",
            "torch_headroom._record.loop", "torch_headroom._record.step", "torch_headroom._plan.training",
            "torch_headroom._distributed.ranks", "torch_headroom._simulate.placeholders")
_LENGTH = struct.Struct("=i")  # of a request in bytes; also the exit code
_POLL = 0.02  # seconds


def record_at(folder, gpu, words, output, errors, place=None):
    """Runs `python -m torch_headroom.record WORDS` in a fork of the server for a card that has its socket in a folder.
    Returns the exit code as subprocess.run() does; None: no such server serves, or the server refuses the environment.
    `output` and `errors` are files that receive stdout and stderr, `place` is the working folder (default: this
    process's). The recording ends with this process."""
    request = {"words": list(map(str, words)), "environment": dict(os.environ), "folder": str(place or os.getcwd())}
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(_address(folder, gpu))
            data = json.dumps(request).encode()
            socket.send_fds(connection, [_LENGTH.pack(len(data))], [output.fileno(), errors.fileno()])
            connection.sendall(data)
            answer = connection.recv(_LENGTH.size)
        except OSError:
            return None
    return _LENGTH.unpack(answer)[0] if answer else None


def _address(folder, gpu):
    return os.path.join(folder, gpu)


def _serve(folder, gpu, recording="", *words):
    before = dict(os.environ)
    with lasting_objects():
        simulate(gpu)
        _import(_MODULES)
        if recording:
            while not os.path.exists(recording):
                time.sleep(_POLL)
            _import(modules_of(recording))
    if threading.active_count() > 1:
        sys.exit("a module has started a thread, which a fork would not have")
    changed = {name: value for name, value in os.environ.items() if before.get(name) != value}
    address = _address(folder, gpu)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen(64)
    os.rename(f"{address}.new", address)  # the socket exists once the server serves
    verdict, given = os.pipe()
    if fork(signal.SIGTERM) == 0:
        if not words or _records_the_same(folder, gpu, recording, words, changed):
            pathlib.Path(_proven(address)).touch()
        else:
            os.unlink(address)
        os._exit(0)
    os.close(given)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    waits = [listener, verdict]
    while True:
        ready = select.select(waits, [], [])[0]
        if verdict in ready:
            waits.remove(verdict)
            if not os.path.exists(_proven(address)):
                with contextlib.suppress(OSError):
                    os.unlink(address)
                with contextlib.suppress(ChildProcessError):
                    os.wait()  # for all
                sys.exit("a fork does not record the step of a process of its own")
        if listener not in ready:
            continue
        connection, _ = listener.accept()
        if fork(signal.SIGTERM) == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(connection, address, before, changed)
            os._exit(0)
        connection.close()


def _proven(address):
    return f"{address}.proven"


def _import(modules):
    for module in modules:
        with contextlib.suppress(Exception):  # the program's own import says what is wrong
            importlib.import_module(module)


def _records_the_same(folder, gpu, recording, words, changed):
    """Returns whether the recorder's words, without those of the card and of `fit`, record in a fork what the recording
    holds."""
    own = pathlib.Path(folder, f"{gpu}.proof")
    own.mkdir()
    child = fork(signal.SIGTERM)
    if child == 0:
        files = [os.open(own / name, os.O_WRONLY | os.O_CREAT) for name in ("record.log", "record.err")]
        request = {"folder": os.getcwd(), "environment": dict(os.environ),
                   "words": recorder_words(own, gpu, [*IN_SEARCH, *words])}
        _record(request, files, changed)
    os.waitpid(child, 0)
    step = own / "step.hrs"
    return step.is_file() and step.read_bytes() == pathlib.Path(recording, "step.hrs").read_bytes()


def _answer(connection, address, before, changed):
    """Runs the recording of a request, and answers with the exit code once the server is proven; without an answer
    where the proof fails, or the environment differs from `before` in what torch reads. `changed` are the variables that
    simulate() has set."""
    request, files = _received(connection)
    if request is None or not _is_same(request["environment"], before):
        return
    child = fork(signal.SIGTERM)
    if child == 0:
        connection.close()
        _record(request, files, changed)
    for file in files:
        os.close(file)
    poller = select.poll()
    poller.register(connection, 0)  # only the end of the client
    code = None
    while os.path.exists(address) and not poller.poll(_POLL * 1000):
        if code is None:
            ended, status = os.waitpid(child, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if ended else None
        if code is not None and os.path.exists(_proven(address)):
            with contextlib.suppress(OSError):
                connection.send(_LENGTH.pack(code))
            return
    if code is None:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


def _is_same(environment, other):
    """Returns whether both environments have the same values of variables that libraries read. The sizes of `fit`,
    which are in HEADROOM_VARIED, may differ."""
    own, others = (deciding_variables(variables) | {"HEADROOM_VARIED": ""} for variables in (environment, other))
    return own == others


def _received(connection):
    """Returns a request, and the files for stdout and stderr; None: the client has ended."""
    try:
        begin, files, _, _ = socket.recv_fds(connection, _LENGTH.size, 2)
        (left,), data = _LENGTH.unpack(begin), b""
        while left > len(data):
            part = connection.recv(left - len(data))
            if not part:
                return None, files
            data += part
    except (OSError, struct.error):
        return None, ()
    return json.loads(data), files


def _record(request, files, changed):
    """Runs the recording of a request, and ends this process."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"] | changed)
        for number, file in enumerate(files, 1):
            os.dup2(file, number)
            os.close(file)
        sys.path[0] = os.getcwd()
        sys.argv = ["torch_headroom.record", *request["words"]]
        sys.orig_argv = [sys.executable, "-m", *sys.argv]
        code = supervise(main, "torch_headroom.record")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
