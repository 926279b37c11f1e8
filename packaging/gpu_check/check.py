# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares Headroom's predictions for a GPU with the GPU itself; packaging/gpu-check.sh runs it after the build.

    check.py [--output FILE.json] [--seconds N] [--models NAME,…] [--recorder torch-headroom-record]

Each model runs in processes of its own, on the GPU and on the simulated card, so that the failure of one is a line in
the document and does not end the check. Exit code: 0 all checks passed, 1 some failed (the document is written), 4 no
GPU can be used (nothing is written).
"""

import argparse
import concurrent.futures
import ctypes
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RUN = HERE / "run_model.py"
POLICIES = ROOT / "tests" / "data" / "gpu_check"

MODELS = ("seed000_transformer", "seed000_transformer_ac", "gpt2_small_lm_bs8_s1024", "resnet50_bs32",
          "llama_1b_bf16_bs1_s2048")
PROCESS_SECONDS = 150

# Steps for plans of single ops that are executed on the card, as arguments of torch-headroom-record: dropout, running
# statistics, a file of torch.export, autocast.
OPS_STEPS = {
    "transformer": ("demo:transformer", "--batch", "8", "--set", "n_layers=6", "--set", "dropout_p=0.1"),
    "resnet": ("demo:resnet", "--batch", "16"),
    "exported gpt2": (str(ROOT / "tests" / "data" / "exported" / "gpt2_tiny_nodrop.pt2"),),
    "transformer, autocast": ("demo:transformer", "--batch", "8", "--set", "n_layers=6", "--autocast"),
}
OPS_FRACTIONS = (0.25, 0.6)
OPS_SECONDS = 60


class Failed(Exception):
    """A process failed: the message is the last line that it printed, or its exit code."""


class Clock:
    def __init__(self, seconds):
        self._end = time.monotonic() + seconds

    def left(self):
        return self._end - time.monotonic()

    def limit(self, most):
        """Returns the seconds for a process that may take `most`."""
        if self.left() < 10:
            raise Failed("no time left")
        return min(most, self.left())


def reason_of(code, errors):
    """Returns an exit code with the last line on stderr."""
    lines = [line for line in errors.strip().splitlines() if line.strip()]
    return f"exit {code}: {lines[-1][:400]}" if lines else f"exit {code}"


def run(clock, folder, *arguments):
    """Runs run_model.py. Returns its last result, and the reason why it ended early; None: it did not."""
    seconds = clock.limit(PROCESS_SECONDS)
    environment = dict(os.environ, PYTHONUNBUFFERED="1")
    if arguments[0] == "simulate":
        environment["CUDA_VISIBLE_DEVICES"] = ""  # the real card stays out of it
    command = [sys.executable, str(RUN), *map(str, arguments)]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds)
        output, errors, code = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode(errors="replace")  # bytes, in spite of text=True
        errors, code = "", f"timeout after {seconds:.0f} s"
    results = [json.loads(line[7:]) for line in output.splitlines() if line.startswith("RESULT ")]
    problem = reason_of(code, errors) if code != 0 else None
    if not results:
        raise Failed(problem or "no result")
    return results[-1], problem


class Checks:
    """The results of the checks. Every check stands alone: one that cannot be made is an error with its reason."""

    def __init__(self):
        self.rows = []

    def add(self, name, model, compare):
        row = {"check": name, "model": model}
        try:
            row |= compare()
        except Exception as error:  # a document may differ from what this program expects in any way
            row |= {"status": "error", "reason": f"{type(error).__name__}: {error}"[:400]}
        self.rows.append(row)
        print(f"{row['status']:<7} {name}: {model}", *(f"{k} {v}" for k, v in row.items() if k in SHOWN), flush=True)

    def within(self, name, model, share, expected, found):
        """`expected` and `found` are functions, since what they look up may be missing."""

        def compare():
            wanted, got = expected(), found()
            off = abs(got - wanted) / wanted
            return {"status": "passed" if off <= share else "failed", "expected": wanted, "found": got,
                    "off_percent": round(off * 100, 3), "allowed_percent": share * 100}

        self.add(name, model, compare)

    def at_most(self, name, model, limit, found):
        def compare():
            most, got = limit(), found()
            return {"status": "passed" if got <= most else "failed", "limit": most, "found": got}

        self.add(name, model, compare)

    def report(self, name, model, value):
        self.add(name, model, lambda: {"status": "note", "value": value()})


SHOWN = ("off_percent", "found", "limit", "value", "reason")


def library():
    from torch_headroom._library import load

    return load()


def calibrate(step, calibration):
    if library().headroom_calibrate(os.fsencode(step), os.fsencode(calibration)):
        raise Failed(library().headroom_last_error().decode())


def step_times(step, calibration=""):
    times = library().headroom_step_times
    times.restype = ctypes.c_char_p
    text = times(os.fsencode(step), os.fsencode(calibration))
    if text is None:
        raise Failed(library().headroom_last_error().decode())
    return json.loads(text)


def attempt(clock, folder, *arguments):
    try:
        result, problem = run(clock, folder, *arguments)
        return result | ({"problem": problem} if problem else {})
    except Failed as failure:
        return {"problem": str(failure)}
    except Exception as error:  # the document says any other error, too
        return {"problem": f"{type(error).__name__}: {error}"[:400]}


def policy_of(model, gpu):
    file = POLICIES / gpu / f"{model}.json"
    return file if file.is_file() else None


def forward_backward(times):
    return times["phases"].get("forward", 0) + times["phases"].get("backward", 0)


def check_memory(checks, model, results):
    real, simulated = results["measured"], results["simulated"]
    summary = lambda: real["recorded"]["summary"]  # noqa: E731
    # cuBLAS's workspaces are blocks of the real allocator; the simulated card has none.
    for kind, share in (("active", 0.01), ("reserved", 0.02)):
        checks.within(f"simulated {kind} peak", model, share,
                      lambda: real["memory"][kind] - real["memory"]["workspaces"], lambda: simulated["memory"][kind])
    checks.report("workspaces of cuBLAS", model, lambda: real["memory"]["workspaces"])
    checks.within("recorded memory is the allocator's", model, 0.01,
                  lambda: summary()["measured"]["allocated_peak_bytes"],
                  lambda: summary()["peak_bytes"] - summary()["at_peak"].get("non_pytorch", 0))
    checks.report("memory that is not PyTorch's", model, lambda: summary()["measured"]["non_pytorch_bytes"])


def check_times(checks, model, results):
    real = results["measured"]
    measured = lambda: real["recorded"]["summary"]["measured"]  # noqa: E731
    checks.within(
        "kernel times and CUDA's events", model, 0.01, lambda: real["recorded_ahead"]["event_ms"],
        lambda: real["recorded_ahead"]["summary"]["measured"]["kernel_ms"] - real["recorded_ahead"]["ahead_ms"])
    # CUDA's events include the gaps between kernels.
    checks.report("kernel times, share of CUDA's events of a step that was not recorded", model,
                  lambda: measured()["kernel_ms"] / real["times"]["step_ms"])
    checks.report("of the recorded step the GPU was idle", model,
                  lambda: 1 - measured()["busy_ms"] / measured()["span_ms"])
    checks.report("records dropped", model, lambda: measured()["dropped_records"])
    checks.report("work that no op launched, ms", model, lambda: measured()["without_op_ms"])
    checks.report("overhead of recording", model, lambda: {
        "step_ms": real["launched"]["step_ms"],
        "recorded_step_ms": real["recorded"]["event_ms"],
        "factor": real["recorded"]["event_ms"] / real["launched"]["step_ms"],
        "cupti_ms": measured()["overhead_ms"],
    })


def check_roofline(checks, folder, models, results):
    """Checks the roofline calibrated by all measured steps, and, which is harder, by those of the other models."""
    measured = {m: folder / f"{m}.measured.hrs" for m in models if (folder / f"{m}.measured.hrs").is_file()}
    everything = folder / "calibration.json"
    for model, step in measured.items():
        checks.add("calibration learned", model, lambda: calibrate(step, everything) or {"status": "passed"})
    for model in models:
        simulated = folder / f"{model}.simulated.hrs"
        truth = lambda: results[model]["measured"]["times"]["forward_backward_ms"]  # noqa: E731
        checks.report("roofline before calibration, share of the measured time", model,
                      lambda: forward_backward(step_times(simulated)) / truth())
        checks.within("calibrated roofline", model, 0.15, truth,
                      lambda: forward_backward(step_times(simulated, everything)))

        def by_others():
            others = folder / f"{model}.others.json"
            for other, step in measured.items():
                if other != model:
                    calibrate(step, others)
            return forward_backward(step_times(simulated, others)) / truth()

        checks.report("roofline calibrated by the other models only, share of the measured time", model, by_others)


def check_policy(checks, folder, model, results, budget):
    """Checks an executed plan for a part of the peak (tests/data/gpu_check/README.md)."""
    plain, executed = results["measured"], results["executed"]
    planned_step = folder / f"{model}.planned.hrs"
    calibration = folder / "calibration.json"
    peak = lambda: executed["memory"]["active"] - executed["memory"]["workspaces"]  # noqa: E731
    checks.at_most("policy's peak under its budget", model, lambda: budget, peak)
    checks.within("policy's peak as simulated", model, 0.01, peak, lambda: results["planned"]["memory"]["active"])
    checks.within("time that the policy adds", model, 0.10,
                  lambda: step_times(planned_step, calibration)["recompute_ms"],
                  lambda: executed["times"]["forward_backward_ms"] - plain["times"]["forward_backward_ms"])


def execute_ops(clock, recorder, step, fraction):
    """Returns the document of `torch-headroom-record verify --device cuda`."""
    command = [recorder, "verify", *OPS_STEPS[step], "--device", "cuda", "--memory-budget", str(fraction), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=clock.limit(OPS_SECONDS))
    except subprocess.TimeoutExpired as expired:
        raise Failed(f"timeout after {expired.timeout:.0f} s") from None
    if not done.stdout.strip():
        raise Failed(reason_of(done.returncode, done.stderr))
    return json.loads(done.stdout)


def check_ops(checks, clock, recorder):
    """Checks plans of single ops, executed on the card by the same code as on the CPU: saved bytes, every allocation
    and flops are as planned; gradients and running statistics are those of the plain step to the bit."""
    if not recorder:
        reason = "torch-headroom-record was not built: GLPK, Boost's headers or CLI11 are missing"
        checks.add("ops planned and executed", "all", lambda: {"status": "skipped", "reason": reason})
        return
    for step in OPS_STEPS:
        for fraction in OPS_FRACTIONS:

            def compare():
                found = execute_ops(clock, recorder, step, fraction)
                values = {"found": found["executed_peak_bytes"], "document": found}
                if not found["agrees"]:
                    return values | {"status": "failed", "reason": found["reason"]}
                values["status"] = "passed"
                if found["gradients"].get("unrepeatable"):
                    values["reason"] = "the plain step is not repeatable: gradients say nothing"
                return values

            checks.add(f"ops planned for {fraction} and executed", step, compare)


def run_models(clock, folder, models, gpu, results, keep):
    """Runs the simulated steps in parallel, on the CPU, then the measured ones one after the other. `keep()` writes the
    results so far, as the machine may be taken away."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, (os.cpu_count() or 2) // 2)) as pool:
        pending = []

        def simulate(model, kind, *policy):
            arguments = "simulate", model, f"{model}.{kind}.hrs", gpu, *policy
            pending.append((model, kind, pool.submit(attempt, clock, folder, *arguments)))

        for model in models:
            simulate(model, "simulated")
            if policy := policy_of(model, gpu):
                simulate(model, "planned", policy)
        for model, kind, future in pending:
            results[model][kind] = future.result()
    for model in models:
        print(f"measuring {model}, {clock.left():.0f} s left", flush=True)
        results[model]["measured"] = attempt(clock, folder, "measure", model, f"{model}.measured.hrs")
        keep()
    for model in models:
        if policy := policy_of(model, gpu):
            results[model]["executed"] = attempt(clock, folder, "measure", model, f"{model}.executed.hrs", policy)
            keep()


def file_name(gpu):
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-") + ".json"


def check(options, clock, folder):
    try:
        card, problem = run(clock, folder, "probe")
    except Failed as failure:
        print(f"gpu-check: {str(failure).removeprefix('exit 4: ')}", file=sys.stderr)
        return 4
    print(f"{card['name']} stands in Headroom's list as {card['gpu']}; torch {card['torch']}", flush=True)
    output = options.output or ROOT / "tests" / "reference" / "gpu" / file_name(card["gpu"])
    models = options.models.split(",") if options.models else MODELS
    card |= {"problem": problem} if problem else {}
    results = {model: {} for model in models}
    checks = Checks()
    run_models(clock, folder, models, card["gpu"], results, lambda: write(output, card, results, checks, folder))
    for model in models:
        check_memory(checks, model, results[model])
        check_times(checks, model, results[model])
    check_roofline(checks, folder, models, results)
    for model in models:
        if policy := policy_of(model, card["gpu"]):
            budget = json.loads(policy.read_text())["budget_bytes"]
            check_policy(checks, folder, model, results[model], budget)
        else:
            checks.add("policy executed", model,
                       lambda: {"status": "skipped", "reason": f"no policy for {card['gpu']} in {POLICIES.name}"})
    write(output, card, results, checks, folder)
    check_ops(checks, clock, options.recorder)
    write(output, card, results, checks, folder)
    counts = {status: sum(row["status"] == status for row in checks.rows)
              for status in ("passed", "failed", "error", "skipped")}
    print(f"{output}: " + ", ".join(f"{count} {status}" for status, count in counts.items()))
    return 1 if counts["failed"] or counts["error"] else 0


def write(output, card, results, checks, folder):
    calibration = folder / "calibration.json"
    document = {
        "gpu_check": 1,
        "when": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "card": card,
        "checks": checks.rows,
        "models": results,
        "calibration": json.loads(calibration.read_text()) if calibration.is_file() else None,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    beside = output.with_suffix(".part")
    beside.write_text(json.dumps(document, indent=1) + "\n")
    beside.replace(output)


def parse(arguments):
    parser = argparse.ArgumentParser(description="Headroom's predictions against this machine's GPU.")
    parser.add_argument("--output", type=pathlib.Path, help="default: tests/reference/gpu/CARD.json")
    parser.add_argument("--seconds", type=float, default=420, help="for all of it (default: %(default)s)")
    parser.add_argument("--models", help=f"some of {', '.join(MODELS)}")
    parser.add_argument("--recorder", help="torch-headroom-record with the planner; without it no ops are planned")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="headroom-gpu-check-") as folder:
        return check(options, Clock(options.seconds), pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(main())
