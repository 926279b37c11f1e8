# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search of torch_headroom.fit(), in a process of its own: the program loads no library, and Ctrl+C ends the search.
Imports no torch.

    python -m torch_headroom._plan.fit_search < request.json      prints the answer as JSON; {"error", "exit_code"} after a failure
"""

import concurrent.futures
import ctypes
import hashlib
import json
import os
import sys
import tempfile

from .._library import HeadroomError, check, load
from .fitting import EARLIER_ANSWERS
from .recordings import Program, enforce_limit, recorded

_MEMORY_OF_RECORDING = 4 << 30  # bytes


class _Search:
    """What the library calls back. An exception in a callback stops the search, and answer() raises it."""

    def __init__(self, program, number, sizes):
        """`number` is that of the program's call of fit(); `sizes` are the names of train_step's arguments."""
        self._program, self._number, self._sizes = program, number, sizes
        self._error = None
        self.kept = []

    def answer(self, request):
        """Returns the library's answer."""
        library = load()
        library.headroom_fit.restype = ctypes.c_char_p
        record = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(self._stopped_by_error(self._record))
        tell = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(self._stopped_by_error(_say))
        text = library.headroom_fit(json.dumps(request).encode(), record, tell)
        if self._error is not None:
            raise self._error
        if text is None:
            check(2)
        return json.loads(text)

    def _stopped_by_error(self, function):
        def call(*arguments):
            try:
                function(*arguments)
                return int(self._error is not None)
            except BaseException as error:
                self._error = self._error or error
                return 1

        return call

    def _record(self, asked, reply):
        asked = json.loads(asked)
        with concurrent.futures.ThreadPoolExecutor(_recordings_at_once()) as pool:
            answers = list(pool.map(lambda size: self._recorded(size, asked["gpu"]), asked["sizes"]))
        load().headroom_fit_recorded(ctypes.c_void_p(reply), json.dumps(answers).encode())

    def _recorded(self, size, gpu):
        sizes = ",".join(str(size[name]) for name in self._sizes)
        program = Program(self._program["script"], self._program["arguments"], self._program["is_module"],
                          ["--unlimited", "--fit-call", f"{self._number}:{sizes}"])
        try:
            kept = recorded(program, gpu, lambda sentence: None, in_search=True)
        except HeadroomError as error:
            return {"failure": str(error)}
        self.kept.append(kept)
        return {"step": str(kept.step)}


def _recordings_at_once():
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(len(os.sched_getaffinity(0)), free // _MEMORY_OF_RECORDING))


def _say(next_):
    if next_:
        print(f"torch_headroom: {next_.decode()}", file=sys.stderr, flush=True)


def _answer(given):
    request = given["request"]
    request["policies"] = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:16]
    search = _Search(given["program"], len(given["earlier"]) + 1, given["sizes"])
    with tempfile.NamedTemporaryFile("w", suffix=".json") as earlier:
        json.dump(given["earlier"], earlier)
        earlier.flush()
        os.environ[EARLIER_ANSWERS] = earlier.name
        answer = search.answer(request)
    enforce_limit([kept.folder for kept in search.kept])
    new = sum(bool(kept.why_new) for kept in search.kept)
    return answer | {"recorded": new, "kept": len(search.kept) - new}


def _main():
    try:
        print(json.dumps(_answer(json.load(sys.stdin))))
    except HeadroomError as error:
        print(json.dumps({"error": str(error), "exit_code": error.exit_code}))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(_main())
