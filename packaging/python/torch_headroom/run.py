# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trains with an unmodified script on a card that would be too small without a plan.

    python -m torch_headroom.run [--gpu NAME] [--budget SIZE] train.py [its arguments]

records a training step of the script on the simulated card, plans the step for the card at hand, and runs the script
with the plan applied when the script's model first trains. The recording is kept until the script, or a file or
variable that the script reads, changes.
"""

import argparse
import json
import os
import pathlib
import signal
import sys

from ._apply.policy import PolicyError
from ._library import HeadroomError
from ._plan.planning import ALLOCATOR_VARIABLES, bytes_of, gpu_at_hand, plan_for_card, wishes_of
from ._plan.recordings import Program, recorded
from ._plan.training import FirstTraining
from ._record import process
from ._record.options import at_least_one

_NAME = "torch_headroom.run"
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise HeadroomError(f"{message} (see python -m {_NAME} --help)")


def parser():
    options = _Parser(
        prog=f"python -m {_NAME}",
        usage="%(prog)s [options] (script.py | -m module) [arguments of the script]",
        description="Makes a training script fit on the GPU: records a step on the simulated card, plans "
        "what to recompute, and applies the plan when the script's model first trains.",
        epilog="Exit codes: those of the script; 2 bad usage, no step could be recorded, or the plan does not fit the "
        "script's model; 3 no plan runs on the card; 4 there is no GPU and --gpu is missing. The recording is kept in "
        "$XDG_CACHE_HOME/torch-headroom/recordings, by default ~/.cache, and made again when the script, an "
        "argument, a module or file that the script reads, or an environment variable changes.",
        allow_abbrev=False,
    )
    add = options.add_argument
    add("--gpu", metavar="NAME", help="the card, in place of the machine's GPU; without a GPU the script trains on "
                                      "this "
        "card, simulated (python -m torch_headroom.record --gpu list)")
    add("--budget", metavar="SIZE", help="what the caching allocator may reserve of the card, such as 7.5GiB; "
        "by default all")
    add("--margin", metavar="SIZE", help="memory of the card, or of the budget, to leave free for what the recorded step "
        "does not show; by default none")
    add("--offload", action="store_true", help="saved tensors may also go to pinned host memory, and come back in "
                                               "time for backward")
    add("--host-memory", metavar="SIZE", help="with --offload: the most pinned host memory; by default any")
    add("--no-recompute", action="store_true", help="with --offload: recompute only modules with --pin FQN=recompute")
    add("--pin", metavar="FQN=WHAT", action="append", default=[], help="decides for a module: FQN=save, FQN=recompute "
        "or FQN=offload")
    add("--longest-batch", metavar="N", type=at_least_one, help="plan for the longest of the first N batches of each "
        "torch.utils.data.DataLoader; by default for the recorded step's batch")
    add("--no-evaluation", action="store_true", help="record no evaluation; by default the recording goes on to the "
        "evaluation that follows the step, by a Trainer of transformers or at the end of an epoch")
    add("--device", choices=("cuda", "sim", "cpu"), help="where the script trains: cuda, the GPU, the default on a "
                                                         "machine with a GPU; sim, the simulated card, the default "
                                                         "elsewhere; cpu, where memory has no limit")
    add("--dry-run", action="store_true", help="say what would be done, and do not train")
    add("--json", action="store_true", help="with --dry-run: print the plan as JSON, as torch-headroom plan does")
    add("-m", dest="module", action="store_true", help="the script is a module, as in `python -m`")
    add("script", nargs="?", help="the training script")
    add("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    return options


def main(arguments=None):
    """Runs the command line. Returns the exit code."""
    try:
        options = parser().parse_args(arguments)
        _check(options)
        gpu = _choose_gpu(options)
        budget = bytes_of(options.budget) if options.budget is not None else 0
        margin = bytes_of(options.margin, "margin", 0) if options.margin is not None else 0
        wishes = wishes_of(options.offload, options.host_memory, not options.no_recompute, options.pin)
        program = Program(options.script, options.arguments, options.module,
                          () if options.no_evaluation else ["--evaluation"], options.longest_batch)
        kept = recorded(program, gpu, _say)
        plan = plan_for_card(kept, gpu, budget, wishes, may_change_settings=True, margin=margin)
    except HeadroomError as error:
        _say(error)
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted before the training")
        return 130
    _say(plan)
    if options.dry_run:
        if options.json:
            print(json.dumps(plan.result, indent=2))
        return 0
    return _train(options, gpu, plan)


def _say(sentence):
    print(f"{_NAME}: {sentence}", file=sys.stderr, flush=True)


def _check(options):
    if options.script is None:
        raise HeadroomError(f"a script is missing: python -m {_NAME} train.py")
    if options.script in _LAUNCHERS or int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise HeadroomError("this command does not plan a job of several processes: record a process with "
                            "torch_headroom.record --nproc-per-node, plan that step with torch-headroom plan "
                            "--card, and call "
                            "torch_headroom.apply() in the script")
    if not options.module and not pathlib.Path(options.script).is_file():
        raise HeadroomError(f"{options.script}: there is no such script")
    if options.json and not options.dry_run:
        raise HeadroomError("--json prints a plan in place of the training: expected --dry-run as well")


def _choose_gpu(options):
    """Returns the name of the card to plan for, and sets the device on which the script trains."""
    present = None if options.gpu and options.device in ("sim", "cpu") else gpu_at_hand()
    if options.device == "cuda" and not present:
        raise HeadroomError("this machine has no GPU to train on: leave out --device cuda, and name a card with --gpu",
                            4)
    if not options.gpu and not present:
        raise HeadroomError("this machine has no GPU: name the card to train on, simulated, with --gpu "
                            "(python -m torch_headroom.record --gpu list)", 4)
    options.device = options.device or ("cuda" if present else "sim")
    return options.gpu or present


def _train(options, gpu, plan):
    """Runs the script under the plan. Returns the exit code."""
    if plan.settings:
        os.environ[next((name for name in ALLOCATOR_VARIABLES if name in os.environ), ALLOCATOR_VARIABLES[-1])] = (
            plan.settings)
    try:
        if options.device == "sim":
            _simulate(gpu)
        training = FirstTraining(plan.policy)
        training.install()
        process.run(options.script, options.arguments, options.module)
    except (PolicyError, HeadroomError) as error:
        _say(f"{options.script} does not train under the plan: {error}")
        return 2
    except SystemExit:
        raise
    except BaseException as error:
        code = _report(error)
        torch = sys.modules.get("torch")  # a script without torch may fail, too
        if torch and isinstance(error, torch.OutOfMemoryError):
            _say(f"{options.script}: {plan.out_of_memory()}")
        return code
    if training.unapplied():
        _say(f"{options.script}: {training.unapplied()}")
        return 2
    return 0


def _simulate(gpu):
    from ._simulate.simulate import simulate

    simulate(gpu)
    from ._distributed.ranks import enter
    from ._simulate.placeholders import set_seeds

    set_seeds()
    enter(None, ())


def _report(error):
    """Ends as Python does after an error that the script does not catch. Returns the exit code."""
    trace = process.without_runner(error.__traceback__)
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    if isinstance(error, KeyboardInterrupt):
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 1


if __name__ == "__main__":
    sys.exit(main())
