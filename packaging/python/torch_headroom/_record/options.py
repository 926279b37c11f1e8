# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of `python -m torch_headroom.record`, and the recordings of one step with several memory budgets, each in
a process of its own."""

import argparse
import functools
import json
import os
import pathlib
import subprocess
import sys

from .._distributed.job import job_of
from .._library import HeadroomError


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise HeadroomError(f"{message} (see python -m torch_headroom.record --help)")


def at_least_one(text):
    """The type of an argument that is a positive number."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, not {text}")
    return int(text)


def _device(text):
    kind, colon, number = text.partition(":")
    if text == "sim" or (kind == "cuda" and (not colon or (number.isdigit() and len(number) < 4))):
        return text
    raise argparse.ArgumentTypeError(f"unknown device '{text}'; known are sim, the simulated GPU, and cuda or cuda:N")


def _fractions(text):
    try:
        found = [float(word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 <= fraction <= 1 for fraction in found):
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, or several with commas, not {text}")
    return found


def _fit_call(text):
    number, colon, sizes = text.partition(":")
    words = sizes.split(",")
    if not (number.isdigit() and all(word.isdigit() for word in words)):
        raise argparse.ArgumentTypeError(f"expected a call and sizes, such as 1:32 or 1:32,1024, not {text}")
    return int(number), tuple(map(int, words))


def parser():
    options = _Parser(
        prog="python -m torch_headroom.record",
        usage="%(prog)s [options] [torchrun | accelerate launch | deepspeed [launcher options]] (script.py | -m "
              "module) "
        "[arguments of the script]",
        description="Runs a training script with `cuda` standing for a simulated GPU, until one step is recorded.",
        epilog="Exit codes: 0 the step was recorded; 1 internal error; 2 bad usage, or the script failed before, or, "
        "with --limited, ran out of the card's memory: the step so far is written if a step began; or --strict and "
        "a remark; 130 interrupted, nothing is written.",
        allow_abbrev=False,
    )
    add = options.add_argument
    flag = functools.partial(add, action="store_true")
    add("--gpu", default="h100-80gb", help="the GPU that the simulation stands for; list: print all")
    add("--device", type=_device, default="sim", help="sim: the simulated GPU; cuda, cuda:N: a real GPU, measured")
    add("-o", "--output", default="step.hrs", help="the step file to write (default: %(default)s)")
    add("--steps", type=at_least_one, default=2, help="the step to record: 2, the default, has optimizer state")
    memory = options.add_mutually_exclusive_group()
    memory.add_argument("--unlimited", action="store_true",
                        help="let the step take more memory than the card has, to see the whole step")
    memory.add_argument("--limited", action="store_true",
                        help="end where the card's memory is full, with the step so far; by default such a script is "
                        "recorded again as on a larger card")
    add("--policy", metavar="FILE",
        help="apply a policy when the script's model first trains, as torch_headroom.apply() in the script would")
    flag("--without-checkpointing", help="let what the script checkpoints itself save everything")
    add("--activation-memory-budget", type=_fractions, metavar="FRACTION[,…]",
        help="the share that torch.compile's partitioner may save "
             "(torch._functorch.config.activation_memory_budget); several: a step file for each, a step file "
             "without torch.compile, and a table")
    add("--nproc-per-node", type=at_least_one, metavar="N",
        help="record a process of a distributed job with N processes, as for torchrun")
    add("--nnodes", type=at_least_one, default=1, metavar="N", help="machines of that job (default: 1)")
    add("--rank", type=int, default=0, help="rank of the recorded process (default: %(default)s)")
    add("--longest-batch", type=at_least_one, metavar="N",
        help="read up to N batches of each torch.utils.data.DataLoader before the training, and record a step with the "
        "longest batch")
    flag("--evaluation", help="after the recorded step let the epoch end, so that the program evaluates, and record the "
        "evaluation's memory for the verdict on a card")
    add("--fit-call", type=_fit_call, metavar="N:SIZE[,…]",
        help="record the train_step of the script's N-th call of torch_headroom.fit() at the given sizes")
    flag("--no-source-lines", help="leave the lines of the program that take the memory out of the step file")
    flag("--strict", help="exit code 2 where the step is in any way not what the card would do")
    add("--dependencies", metavar="FILE",
        help="write the files and environment variables that the script has read, with states, as JSON")
    flag("--json", help="print a JSON document on stdout; the script prints on stderr")
    flag("--progress", help="progress as JSON lines on stderr")
    flag("--version", help="print the version and exit")
    options.set_defaults(launched=None)  # the command line of a launcher other than torchrun
    flag("-m", dest="module", help="the script is a module, as in `python -m`")
    add("script", nargs="?", help="the training script")
    add("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    return options


def same_recording(options):
    """Returns arguments of `torch-headroom record` for the same recording: the options, and the script with the
    script's arguments."""
    device = ["--gpu", options.gpu] if options.device == "sim" else ["--device", options.device]
    arguments = [*device, "--steps", str(options.steps)]
    arguments += [f"--{memory}" for memory in ("unlimited", "limited") if getattr(options, memory)]
    if options.policy:
        arguments += ["--policy", str(pathlib.Path(options.policy).resolve())]
    if options.without_checkpointing:
        arguments.append("--without-checkpointing")
    if options.no_source_lines:
        arguments.append("--no-source-lines")
    if options.activation_memory_budget:
        arguments += ["--activation-memory-budget", str(options.activation_memory_budget[0])]
    if options.longest_batch:
        arguments += ["--longest-batch", str(options.longest_batch)]
    if options.evaluation:
        arguments.append("--evaluation")
    if options.fit_call:
        number, sizes = options.fit_call
        arguments += ["--fit-call", f"{number}:{','.join(map(str, sizes))}"]
    if options.nproc_per_node is not None:
        arguments += job_of(options).options()
    if options.launched:
        return arguments, options.launched
    script = ["-m", options.script] if options.module else [str(pathlib.Path(options.script).resolve())]
    return arguments, script + options.arguments


_EAGER = "eager"


def record_each(options):
    """Runs `python -m torch_headroom.record --activation-memory-budget 0,0.5,1`. Returns the exit code."""
    points = [_record(options, budget) for budget in (*sorted(options.activation_memory_budget), None)]
    if options.json:
        print(json.dumps({"points": points}, indent=2))
    else:
        print("".join(_lines(points)), end="")
    return 0


def _name(budget):
    return _EAGER if budget is None else f"{budget:g}"


def _record(options, budget):
    name = _name(budget)
    output = pathlib.Path(options.output)
    step = output.with_name(f"{output.stem}-{name}{output.suffix}")
    command = [sys.executable, "-m", "torch_headroom.record", "--json", *_words(options, budget, step)]
    environment = os.environ | ({"TORCHDYNAMO_DISABLE": "1"} if budget is None else {})
    print(f"torch_headroom.record: {name}", file=sys.stderr)
    finished = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if finished.returncode:
        raise HeadroomError(f"the step could not be recorded with {name} (above is why)", finished.returncode)
    summary = json.loads(finished.stdout)
    # Of the time model `kernel`, as info and plan tell of the same file.
    return {"memory_budget": budget, "peak_bytes": summary["peak_bytes"], "step_ms": summary["kernel_compute_ms"],
            "time_model": "kernel", "step": str(step), "notes": summary["notes"]}


def _words(options, budget, step):

    chosen = type(options)(**vars(options) | {"activation_memory_budget": None if budget is None else [budget]})
    arguments, script = same_recording(chosen)
    return ["-o", str(step), *(["--progress"] if options.progress else []), *arguments, *script]


def _lines(points):
    yield f"{'Memory budget':<15}{'Peak':>16}{'Forward and backward ms':>26}  Step file\n"
    for point in points:
        budget = _name(point["memory_budget"])
        yield f"{budget:<15}{point['peak_bytes']:>16,}{point['step_ms']:>26.2f}  {point['step']}\n"
    yield "Times are of the time model `kernel`.\n"
    files = " ".join(point["step"] for point in points[:-1])
    yield f"\nBeside Headroom's own: torch-headroom ops-frontier {points[-1]['step']} --compiled {files}\n"
    yield "To train with a point: torch._functorch.config.activation_memory_budget = memory budget of the point\n"
