# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What source lines add to a recording: two steps with lines and without, the step file included, in turn in two
processes. Prints the ratio of the processor's time, which other programs disturb less than the clock, and of the file's
size. Each time is the least of at least seven runs, and of as many as six seconds hold. Names of models as arguments;
without, all whose packages are there. At most 10 % more time and 15 % more bytes are meant; exit code 1 beyond.

    HEADROOM_LIBRARY=build/lib/libheadroom_python.so PYTHONPATH=packaging/python python tests/bench/source_lines_ratio.py
"""

import contextlib
import functools
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
import support  # noqa: E402

MOST_TIME, MOST_BYTES = 1.10, 1.15


def work(with_lines, name):
    """Records once for each line of the standard input, and answers with the time in seconds and the bytes."""
    torch = support.simulated("a100-80gb")
    import recorded_models
    import torch_headroom
    from torch_headroom._record import step as recording_step

    recording_step.StepRecorder = functools.partial(recording_step.StepRecorder, source_lines=with_lines)
    for _ in sys.stdin:
        with torch.device("cuda"):
            model, batch, loss_of = recorded_models.MODELS[name][1]()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            path = pathlib.Path(folder) / "step.hrs"
            begin = time.process_time()
            recording = stack.enter_context(torch_headroom.record(path))
            for _ in range(2):
                loss_of(model, batch).backward()
                optimizer.step()
                optimizer.zero_grad()
                recording.step()
            stack.close()
            print(json.dumps((time.process_time() - begin, path.stat().st_size)), flush=True)


def compared(name):
    """The least time and the bytes with lines, and without."""
    workers = [subprocess.Popen([sys.executable, __file__, "--work", kind, name], text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE) for kind in ("lines", "plain")]

    def run():
        answers = []
        for worker in workers:
            worker.stdin.write("run\n")
            worker.stdin.flush()
            answers.append(json.loads(worker.stdout.readline()))
        return answers

    run()  # imports and compiles
    runs, begin = [], time.perf_counter()
    while len(runs) < 7 or time.perf_counter() < begin + 6:
        runs.append(run())
    for worker in workers:
        worker.communicate()
    return [(min(answers[kind][0] for answers in runs), runs[-1][kind][1]) for kind in (0, 1)]


def main():
    import recorded_models

    def is_there(name):
        package = recorded_models.MODELS[name][0]
        return package is None or importlib.util.find_spec(package) is not None

    exceeded = False
    print(f"{'two steps':<26}{'CPU s':>9}{'with lines':>12}{'ratio':>8}{'bytes':>12}{'with lines':>12}{'ratio':>8}")
    for name in sys.argv[1:] or [name for name in recorded_models.MODELS if is_there(name)]:
        (seconds, size), (plain_seconds, plain_size) = compared(name)
        print(f"{name:<26}{plain_seconds:>9.3f}{seconds:>12.3f}{seconds / plain_seconds:>8.3f}"
              f"{plain_size:>12,}{size:>12,}{size / plain_size:>8.3f}", flush=True)
        exceeded = exceeded or seconds > MOST_TIME * plain_seconds or size > MOST_BYTES * plain_size
    return 1 if exceeded else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2] == "lines", sys.argv[3])
    else:
        sys.exit(main())
