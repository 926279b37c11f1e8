# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.fit(): the sizes of a program's training step that run on a card, and the fastest. Imports no torch.

    python -m torch_headroom._plan.fitting < request.json      prints an answer as JSON; {"error", "exit_code"} after a
                                                               failure

is the search, in a process of its own: the program loads no library, and Ctrl+C ends the search."""

import concurrent.futures
import ctypes
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from .._library import HeadroomError, check, load
from .planning import bytes_of, gpu_at_hand
from .recordings import IN_SEARCH, Program, enforce_limit, recorded, this_program
from .training import loop_of_recording, train_until_recorded

# In a recording process, the variable names a file with the answers of the program's earlier calls, as JSON.
_EARLIER_ANSWERS = "_HEADROOM_FIT_ANSWERS"
_NEW_OPTIMIZER = ("train_step makes a new optimizer in each call, so that optimizer state never exists during "
                  "backward: make model and optimizer before fit() to see a step of a longer training")
_MEMORY_OF_RECORDING = 4 << 30  # bytes
_answers = []  # of the calls of fit() in this process
_earlier = []  # in a recording process: the answers of the calls before the recorded call


class FitRow:
    """A size of the step on a card. Figures are those of training: with the plan where the size needs a plan, else
    without. A figure is None where the row has none."""

    def __init__(self, row, gpu):
        run = (row.get("planned") if not _runs(row.get("plain")) else None) or row.get("plain") or {}
        self.gpu = gpu  # name of the card
        self.batch = row["batch"]  # samples of a micro-batch: of one forward and backward
        self.seq = row["sequence"]  # tokens of a sample; None: the program's own
        self.accumulation = row["accumulation"]  # micro-batches of an optimizer step
        self.recorded = row["source"] == "recorded"  # False: calculated from recordings of other sizes, or failed
        self.failure = row.get("failure")  # why there is no step of this size; None: there is a step
        self.runs = _runs(run)
        self.with_plan = self.runs and not _runs(row.get("plain"))  # the size runs only with the plan
        self.peak_bytes = run.get("peak_bytes")  # allocated; where nothing runs, the least of any plan
        self.reserved_peak_bytes = run.get("reserved_peak_bytes") if self.runs else None
        self.left_bytes = run.get("left_bytes")  # of the card
        self.step_ms = run.get("step_ms") if self.runs else None  # of an optimizer step
        self.recompute_ms = run.get("recompute_ms") if self.runs else None  # of an optimizer step
        self.samples_per_second = run.get("samples_per_second") if self.runs else None
        self.tokens_per_second = run.get("tokens_per_second") if self.runs else None
        self.modules = list(run.get("decisions", ()))  # names of the modules that the plan checkpoints
        self.reason = run.get("reason")  # why the size does not run
        self.remarks = row.get("remarks", [])  # sentences: how the recorded step differs from the card
        self.step = row.get("step") if self.recorded else None  # path of the recorded step
        # Path of the plan's policy, for torch_headroom.apply(); None: no plan is needed, or the row is calculated.
        self.policy = row.get("policy")

    def __repr__(self):
        runs = "failed" if self.failure else "with a plan" if self.with_plan else "runs" if self.runs else "does not run"
        sequence = f", seq {self.seq}" if self.seq else ""
        return f"<batch {self.batch}{sequence} on {self.gpu}: {runs}>"


class FitSeries:
    """The sizes on one card for one value of the other size, ascending."""

    def __init__(self, series):
        self.gpu = series["gpu"]
        self.rows = [FitRow(row, self.gpu) for row in series["rows"]]
        self.largest, self.largest_without_plan, self.fastest = (
            None if series[name] is None else self.rows[series[name]]
            for name in ("largest", "largest_without_plan", "fastest"))
        self.bounded = series["bounded"]  # the size after the largest was tried and does not run
        self.findings = series["findings"]  # sentences
        self.remarks = series["remarks"]  # sentences: what the search met


class FitResult:
    """What fit() found. `series` has a FitSeries for each card and each value of the other size. The attributes `rows`,
    `largest`, `largest_without_plan` and `fastest` are FitRows over all series; None: no size runs. str() is a table."""

    def __init__(self, answer):
        self.series = [FitSeries(series) for series in answer["series"]]
        self.recorded = answer["recorded"]  # steps that were recorded now
        self.kept = answer["kept"]  # steps that were recorded before

    @property
    def rows(self):
        return [row for series in self.series for row in series.rows]

    @property
    def largest(self):
        """The largest size that runs. Of several cards, the fastest card at that size."""
        return max((row for row in self.rows if row.runs), key=_size_and_rate, default=None)

    @property
    def largest_without_plan(self):
        return max((row for row in self.rows if row.runs and not row.with_plan), key=_size_and_rate, default=None)

    @property
    def fastest(self):
        """The most samples per second."""
        return max((row for row in self.rows if row.samples_per_second), key=lambda row: row.samples_per_second,
                   default=None)

    def __str__(self):
        return "\n\n".join(_table(series) for series in self.series)


def fit(train_step, batch_sizes, gpu=None, *, seq=None, global_batch=None, share=1.0, beside=0, settings=None):
    """Finds the batch sizes at which the program's training step runs on a card, without a plan and with the plan of
    least recompute time, and the fastest batch size. Returns a FitResult, the same that `torch-headroom fit` prints.

    `train_step(batch_size)` runs one training step on `cuda` with a batch of `batch_size` samples: forward, backward and
    the optimizer's step. With `seq`, the call is train_step(batch_size, seq); with `global_batch`, the number of
    micro-batches of the step is the last argument. Make the model and the optimizer outside, before fit(): their memory
    counts as the program has it. A train_step that makes a new optimizer in each call is a program that never has the
    optimizer's state in its backward, and the recorded step has a remark.

    Each size is recorded in a process of its own, which runs the program from its beginning on the simulated card until
    it comes to this call, and there trains at this size only: train_step is called until the second step has ended, and
    that step is recorded. So the figures of a size are those of a program that trains at this size alone, to the byte.
    In the calling process train_step is never called, and no memory of the GPU is taken. A size at which train_step
    raises is a row with a `failure`; the other sizes stay. Recordings are kept until the program, or a file or variable
    that it reads, changes.

    `batch_sizes` are numbers, as [8, 16, 32], or sizes as text: "1,2,4", "1..64", "8..512:8", "1.." without an end. A
    range is searched: few sizes are recorded, the others calculated. `gpu` is the name of a card or a list of names; by
    default the card at hand, or the card that this process simulates. `seq` are sequence lengths, likewise; one of
    `batch_sizes` and `seq` may be a range. `global_batch` are the samples of an optimizer step: each batch size is a
    divisor, and gradients accumulate. `share` is the share of the card's memory that training may take, above 0 to 1;
    `beside` is what another program takes of the card, in bytes or as "12GiB". `settings` is a value of
    PYTORCH_CUDA_ALLOC_CONF; by default the program's own.

    Call fit() in a program that is a script or module: a notebook cannot run again. Raises HeadroomError with one
    sentence for sizes that cannot be read, an unknown card, and a program that cannot run again.
    """
    recorded_call = fit_call()
    if recorded_call:
        number, sizes = recorded_call
        if number == len(_answers) + 1:
            _train(train_step, sizes, loop_of_recording())
        if len(_answers) == len(_earlier):
            raise HeadroomError(f"call {len(_answers) + 1} of fit() is not the call {number} to record, and the "
                                "answer is not known here: start the program itself")
        _answers.append(_earlier[len(_answers)])
        return _result_of(_answers[-1])
    if not callable(train_step):
        raise HeadroomError("train_step: expected a function that runs a training step, as in "
                            "fit(train_step, \"1..64\", gpu=\"a100-80gb\")")
    program = this_program("fit()")
    sizes = ["batch"] + ["seq"] * (seq is not None) + ["accumulation"] * bool(global_batch)
    batch, lengths = _sizes_text("batch_sizes", batch_sizes), "" if seq is None else _sizes_text("seq", seq)
    request = {"gpus": _gpus(gpu), "batch": batch, "seq": lengths, "global_batch": int(global_batch or 0),
               "share": _share(share), "beside": _beside(beside), "settings": settings,
               "size_name": "seq" if ".." in lengths else "batch"}
    _answers.append(_searched({"request": request, "sizes": sizes, "earlier": _answers, "program": {
        "script": program.script, "arguments": program.arguments, "is_module": program.is_module}}))
    return _result_of(_answers[-1])


def fit_call():
    """Returns the number of the call of fit() that this process records, and the sizes; None: this process records no
    call of fit()."""
    loop = loop_of_recording()
    return loop and loop.fit_call


def take_earlier_answers():
    """Reads the answers of the calls before the recorded call. Called in a recording process before the program runs,
    which does not see the variable."""
    file = os.environ.pop(_EARLIER_ANSWERS, None)
    _earlier[:] = json.loads(pathlib.Path(file).read_text()) if file else []


def _train(train_step, sizes, loop):
    """Trains at `sizes` until the recorder, which listens through `loop`, ends the program."""
    import weakref

    from .. import _remarks
    from .._torch import before_steps

    known = weakref.WeakSet()  # the optimizers before this call of train_step
    makes_optimizer = False  # the last call

    def step():
        known.update(loop.optimizers())
        train_step(*sizes)

    def note(optimizer, *_):
        nonlocal makes_optimizer
        makes_optimizer = optimizer not in known

    before_steps(note)
    _remarks.add_source(_remarks.FIT, lambda: [_NEW_OPTIMIZER] if makes_optimizer else [])
    train_until_recorded(step, loop, "train_step")


def _sizes_text(name, sizes):
    """Returns sizes as text of `torch-headroom fit`. Raises HeadroomError."""
    if isinstance(sizes, str):
        return sizes
    if isinstance(sizes, int) and not isinstance(sizes, bool):
        sizes = [sizes]
    try:
        sizes = list(sizes)
        numbers = [int(size) for size in sizes]
        if numbers and numbers == sizes and min(numbers) > 0:
            return ",".join(map(str, numbers))
    except (TypeError, ValueError):
        pass
    raise HeadroomError(f"{name} {sizes!r}: expected whole numbers from 1 on, as [8, 16, 32], or a range such as "
                        "\"1..64\"")


def _gpus(gpu):
    if gpu is None:
        from .._simulate import simulated_card

        gpu = simulated_card()["name"] if simulated_card() else gpu_at_hand()
        if gpu is None:
            raise HeadroomError("this machine has no GPU: name the card, as in fit(train_step, \"1..64\", "
                                "gpu=\"a100-80gb\") (python -m torch_headroom.record --gpu list)", 4)
    names = gpu.split(",") if isinstance(gpu, str) else list(gpu)
    return list(dict.fromkeys(names))


def _share(share):
    if not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise HeadroomError(f"share {share!r}: expected a number above 0, up to 1")
    return float(share)


def _beside(beside):
    if isinstance(beside, str):
        return bytes_of(beside, "beside", 0)
    if not isinstance(beside, int) or beside < 0:
        raise HeadroomError(f"beside {beside!r}: expected bytes, or a size such as \"12GiB\"")
    return beside


def _searched(request):
    """Returns the answer of a search in a process of its own; {"error", "exit_code"} after a failure."""
    search = subprocess.Popen([sys.executable, "-m", "torch_headroom._plan.fitting"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        answer, _ = search.communicate(json.dumps(request))
    except KeyboardInterrupt:
        search.wait()  # Ctrl+C has reached the search and the recordings, too; both clean up
        raise
    if search.returncode in (130, -2):
        raise KeyboardInterrupt
    return json.loads(answer) if answer else {
        "error": f"the search ended with exit code {search.returncode}", "exit_code": 1}


def _result_of(answer):
    if "error" in answer:
        raise HeadroomError(answer["error"], answer["exit_code"])
    return FitResult(answer)


def _runs(run):
    return bool(run and run["runs"])


def _size_and_rate(row):
    return row.batch * (row.seq or 1), row.samples_per_second or 0


def _table(series):
    """Returns the rows as aligned text, and what was found."""
    has = {name: any(getattr(row, name) not in (None, 1) for row in series.rows) for name in ("accumulation", "seq")}
    lines = [["batch", *(name for name in has if has[name]), "peak", "reserved", "runs", "recompute ms", "step ms",
              "samples/s", "source"]]
    for row in series.rows:
        sizes = [str(row.batch), *(str(getattr(row, name)) for name in has if has[name])]
        runs = "failed" if row.failure else "with a plan" if row.with_plan else "yes" if row.runs else "no"
        source = "failed" if row.failure else "recorded" if row.recorded else "calculated"
        lines.append([*sizes, _bytes_text(row.peak_bytes), _bytes_text(row.reserved_peak_bytes), runs, _number(row.recompute_ms),
                      _number(row.step_ms), _number(row.samples_per_second), source])
    widths = [max(map(len, column)) for column in zip(*lines)]
    table = [series.gpu] + ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines]
    failed = [f"batch {row.batch} failed: {row.failure}" for row in series.rows if row.failure]
    remarks = [*series.remarks, *dict.fromkeys(remark for row in series.rows for remark in row.remarks)]
    return "\n".join([*table, *series.findings, *(f"remark: {remark}" for remark in remarks), *failed])


def _bytes_text(size):
    if size is None:
        return "-"
    return f"{size / 2**30:,.2f} GiB" if size >= 2**30 else f"{size / 2**20:,.2f} MiB"


def _number(value):
    return "-" if value is None else f"{value:,.2f}"


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
                          [*IN_SEARCH, "--fit-call", f"{self._number}:{sizes}"])
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
        os.environ[_EARLIER_ANSWERS] = earlier.name
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
