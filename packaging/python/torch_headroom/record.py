# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records a training step.

    python -m torch_headroom.record [--gpu NAME] [-o step.hrs] train.py [its arguments]

runs an unmodified script with `cuda` standing for a simulated GPU, until the step is recorded. With --device cuda the
script runs on the real GPU and is measured. In your own program, after torch_headroom.simulate() (or, on a real GPU,
without):

    with torch_headroom.record("step.hrs") as rec:
        for batch in batches:
            train(batch)
            rec.step()
"""

import contextlib
import ctypes
import gc
import json
import os
import pathlib
import re
import signal
import sys
import time
import traceback
import types

from ._apply.policy import PolicyError, read_policy
from ._distributed.job import ADVICE, NAMES, job_of, take_launcher
from ._library import HeadroomError, check, load
from ._plan.fitting import take_earlier_answers
from ._plan.recordings import Dependencies
from ._record.options import parser, record_each, same_recording
from ._record.process import own_traceback, request_rerun, result_is_complete, run, runs_it, supervise


class Recording:
    """Records the steps inside a `with` block. The last step ended by step() is written; without step(), the whole
    block."""

    def __init__(self, path, name=None):
        self._path = _checked_output(path)
        self._name = name or pathlib.Path(sys.argv[0] or "python").name
        self._steps = 0
        self._batch = ()
        self.summary = None  # set after the block: the peak, bytes by category and more, as with --json

    def inputs(self, *tensors):
        """Declares tensors that count as input from the next step on. Tensors created between two steps need no
        declaration."""
        self._batch = tensors

    def __enter__(self):
        from ._record.hooks import Hooks
        from ._record.loop import Loop
        from ._record.step import StepRecorder
        from ._simulate import simulated_card

        if Hooks.installed:
            raise HeadroomError("torch_headroom.record() begins while a step is being recorded already: expected a single "
                                "recording at a time, and this program without `python -m torch_headroom.record`")
        if simulated_card() is None:
            measure("cuda")
        self._recorder = StepRecorder(self._name, sys.argv)
        self._hooks = Hooks(self._recorder, Loop())
        self._recorder.begin()
        self._hooks.install()
        return self

    def step(self):
        """Ends one training step."""
        self._steps += 1
        self._recorder.finish(self._steps)
        self._recorder.begin(self._batch)

    def __exit__(self, kind, error, trace):
        self._hooks.remove()
        # After the last step() comes only the end of the loop; after an exception, the unfinished step is of interest.
        if self._steps == 0 or (error is not None and self._recorder.calls > 0):
            self._recorder.finish(self._steps + 1, _reason(error))
        else:
            self._recorder.discard()
        self._recorder.end_tracing()
        problem = self._recorder.cpu_problem()
        if problem and error is None:
            raise HeadroomError(problem)
        self._recorder.write(self._path)
        self.summary = self._recorder.summary()


def measure(device):
    """Records later steps on a real GPU."""
    _, _, number = device.partition(":")
    try:
        import torch  # torch's libraries must be loaded before ours looks for CUDA

        check(load().headroom_measure(ctypes.c_int(int(number or 0))))
    except HeadroomError as error:
        raise HeadroomError(f"{error}; torch_headroom.simulate(), before `import torch`, needs no GPU",
                            error.exit_code) from None


class _CallableModule(types.ModuleType):
    """The class of this module. The module can be called like a function, and run by `python -m
    torch_headroom.record`."""

    def __call__(self, path, name=None):
        return Recording(path, name)


sys.modules[__name__].__class__ = _CallableModule


def _checked_output(path):
    path = pathlib.Path(path)
    if path.is_dir():
        raise HeadroomError(f"{path} is a folder; name a step file in the folder, for example {path / 'step.hrs'}")
    if not path.parent.is_dir():
        raise HeadroomError(f"{path}: there is no folder {path.parent}; create the folder first")
    return path


def _print_gpus():
    cards = json.loads(load().headroom_devices())
    width = max(len(card["name"]) for card in cards) + 2
    for card in cards:
        print(f"{card['name']:<{width}}{card['title']}, {card['memory_bytes'] / 2**30:.0f} GiB")


_BY_HAND = (
    "there is no torch.optim optimizer, so the step was taken to end with the first call of a model after backward; "
    "where several backward passes make a single update, put the loop into `with "
    "torch_headroom.record(\"step.hrs\") as "
    "rec:` and call rec.step() after each update"
)


class _Outcome:
    """How a script ended: a sentence if there was a problem, the reason in the step file, and the exit code."""

    def __init__(self, problem="", exit_code=0, ended_early=False, card_was_full=""):
        self.problem = problem
        self.reason = ""  # _reason() of what the script raised
        self.card_was_full = card_was_full  # the request without room, if a larger card is to be tried
        self.policy_does_not_fit = False  # then no step is kept: the step is not that of the policy
        self.exit_code = exit_code
        self.ended_early = ended_early  # by the recorder


def _first_line(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _reason(error):
    """Returns why a step has no end; empty if nothing was raised, and for a full card, which is an event of the step."""
    import torch

    if error is None or isinstance(error, torch.OutOfMemoryError):
        return ""
    return _first_line(error).encode(errors="replace").decode()  # a message may hold a path that is not text


def _running_module(frames):
    """Returns the name of the innermost module whose code runs in any of the frames, from the outermost such module on,
    as `Net.layers.3`; empty: none."""
    import torch

    running = [module for module in (frame.f_locals.get("self") for frame in frames)
               if isinstance(module, torch.nn.Module)]
    if not running:
        return ""
    root = type(running[0]).__name__
    name = next((name for name, module in running[0].named_modules() if module is running[-1]), None)
    if name is None:
        return type(running[-1]).__name__
    return f"{root}.{name}" if name else root


def _place_of(error):
    """Returns where the program was at the error, as `line 7 of train.py, in forward (module Net.layers.3)`. Empty:
    nowhere."""
    import torch

    library = str(pathlib.Path(torch.__file__).parent)
    steps = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)
             if not runs_it(frame.f_code.co_filename)]
    own = [(frame.f_code, line) for frame, line in steps if not frame.f_code.co_filename.startswith(library)]
    if not own:
        return ""
    code, line = own[-1]
    module = _running_module([frame for frame, _ in steps])
    inside = f" (module {module})" if module else ""
    return f"line {line} of {code.co_filename}, in {code.co_name}{inside}"


def _request_of(error):
    """Returns what an OutOfMemoryError is about, as `the request for 1.00 GiB`."""
    request = re.search(r"Tried to allocate (.*?)\. ", f"{error} ")
    return f"the request for {request[1]}" if request else "a request for memory"


def _goes_on_larger_card(options):
    """Returns whether a script that the card has no room for is recorded again as on a larger card."""
    return options.device == "sim" and not options.unlimited and not options.limited


def _outcome_of(options, error):
    import torch

    from ._simulate.placeholders import EndlessLoop

    script = options.script

    if isinstance(error, HeadroomError):
        return _Outcome(str(error), error.exit_code)
    if isinstance(error, PolicyError) and options.policy:
        outcome = _Outcome(f"{script} does not train as recorded: {error}", 2)
        outcome.policy_does_not_fit = True
        return outcome
    if isinstance(error, torch.OutOfMemoryError):
        place = _place_of(error)
        origin = f" {place[0].upper()}{place[1:]}, made the request" if place else ""
        problem = f"{script}: {str(error).splitlines()[0]}{origin}"
        if _goes_on_larger_card(options):
            return _Outcome(problem, 2, card_was_full=f"{_request_of(error)}{place and ' in '}{place}")
        print("".join(own_traceback(error).format()), end="", file=sys.stderr)
        return _Outcome(problem, 2)
    if isinstance(error, EndlessLoop):
        return _Outcome(str(error), 2)
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return _Outcome()
        return _Outcome(f"{script} ended with exit code {error.code}", 2)
    print("".join(own_traceback(error).format()), end="", file=sys.stderr)
    problem = f"{script} raised {_first_line(error)}"
    if isinstance(error, torch.multiprocessing.ProcessRaisedException):  # ends with the last line of the other traceback
        problem = (f"{script}: a process that the script started raised {str(error).strip().splitlines()[-1]}; the "
                   "simulated GPU is there for the script's own process only: call the training function without "
                   f"torch.multiprocessing.spawn, or {ADVICE}")
    if isinstance(error, KeyError) and error.args and error.args[0] in NAMES:
        problem += f": torchrun sets this variable; {ADVICE}"
    if isinstance(error, torch.distributed.DistStoreError):
        problem += ": another rank would have written that into the store, but only this rank runs"
    placeholders = load().headroom_placeholder_values()
    if placeholders:
        problem += (f" (placeholder values that the program had read from the simulated GPU: {placeholders}; the "
                    "placeholders may be the cause)")
    return _Outcome(problem, 2)


class _Interrupts:
    """Notices Ctrl+C while the script runs, even if the script catches KeyboardInterrupt, as trainers do to save
    state."""

    def __enter__(self):
        self.seen = False
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def _interrupt(self, number, frame):
        self.seen = True
        signal.default_int_handler(number, frame)

    def __exit__(self, kind, error, trace):
        if signal.getsignal(signal.SIGINT) == self._interrupt:  # not if the script has set a handler
            signal.signal(signal.SIGINT, self._before)


def _record_script(options, progress, card_was_full):
    """Runs and records the script. `card_was_full`: the request that the card had no room for, if the script ran
    before. Returns the recorder, whether the recorder has a step, and how the script ended."""
    from . import _remarks as remarks
    from ._record.hooks import Hooks
    from ._record.loaders import Loaders
    from ._record.loop import Finished, ScriptLoop
    from ._record.process import end_children, end_data_workers
    from ._plan.training import FirstTraining
    from ._record.step import StepRecorder
    from ._torch import compiling

    program = (["-m"] if options.module else []) + [options.script, *options.arguments]
    command = [word for words in same_recording(options) for word in words]
    recorder = StepRecorder(pathlib.Path(options.script).name, program, command, job_of(options),
                            os.path.abspath(options.policy) if options.policy else "",
                            not options.no_source_lines)
    if options.without_checkpointing:
        recorder.note("checkpointing", "left out")
    if options.activation_memory_budget:
        recorder.note("activation_memory_budget", str(options.activation_memory_budget[0]))
    if card_was_full:
        recorder.note("card was full", card_was_full)
        remarks.add(f"the card has no room for {card_was_full}: the program runs out of memory there, and the step "
                    "was recorded as on a larger card")
    loop = ScriptLoop.of_process = ScriptLoop(recorder, options.steps, progress, options.fit_call)
    hooks = Hooks(recorder, loop)
    hooks.install()
    training = FirstTraining(options.policy)
    training.install()
    loaders = Loaders(recorder, loop, options.longest_batch, options.evaluation)
    loaders.install()
    outcome, finished = _Outcome(), False
    with _Interrupts() as interrupts:
        try:
            run(options.script, options.arguments, options.module)
        except Finished:
            finished = True
        except KeyboardInterrupt:
            interrupts.seen = True
        except (Exception, SystemExit) as error:
            if not loaders.take(error, _goes_on_larger_card(options)):
                outcome = _outcome_of(options, error)
                outcome.reason = _reason(error)
        finally:
            hooks.remove()
            loaders.remove()
            end_data_workers()
    if loop.has_finished:  # also if the script has caught the exception, or a thread has trained
        finished, interrupts.seen = True, False
    if options.activation_memory_budget and not compiling.count:
        recorder.notes.append("--activation-memory-budget decided nothing, as the script compiled nothing")
    if loaders.was_to_evaluate and not outcome.problem:
        finished = finished or loop.script_ended()
    if finished:
        end_children()
    if interrupts.seen:
        recorder.discard()
        raise KeyboardInterrupt
    if loop.by_hand:
        recorder.notes.append(_BY_HAND)
    if finished or not outcome.problem:
        problem = training.unapplied() or loaders.unused()
        if problem:
            recorder.discard()
            return recorder, False, _Outcome(f"{options.script}: {problem}", 2, finished)
    if finished:
        loaders.describe()
        return recorder, *_unless_on_cpu(options, recorder, _Outcome(ended_early=True))
    if outcome.exit_code == 1 or outcome.card_was_full or outcome.policy_does_not_fit:
        recorder.discard()
        return recorder, False, outcome
    has_step, outcome = _last_step(options, loop, outcome)
    if has_step:
        loaders.describe()
    if not has_step or outcome.exit_code:
        return recorder, has_step, outcome
    return recorder, *_unless_on_cpu(options, recorder, outcome)


def _unless_on_cpu(options, recorder, outcome):
    """Returns whether to write the step, and the outcome: a step that used no memory of the GPU is not written."""
    problem = recorder.cpu_problem()
    if not problem:
        return True, outcome
    return False, _Outcome(f"{options.script}: {problem}; nothing was written", 2, outcome.ended_early)


def _last_step(options, loop, outcome):
    """Handles a script that ended before the requested step. Returns whether a step can be written, and the outcome."""
    if outcome.problem:
        if loop.keep_interrupted(outcome.reason):
            outcome.problem += f"; {options.output} holds step {loop.steps + 1} up to there"
            return True, outcome
        if loop.steps:
            outcome.problem += f"; {options.output} holds step {loop.steps}, the last complete step"
            return True, outcome
        outcome.problem += ", before a training step began"
        return False, outcome
    if loop.script_ended():
        return True, _Outcome(f"note: {options.script} made {loop.steps} of {options.steps} steps; the last is "
                              "recorded")
    problem = f"{options.script} {loop.why_unfinished()}"
    if loop.keep_interrupted():
        return True, _Outcome(f"{problem}; {options.output} holds the step so far", 2)
    return False, _Outcome(problem, 2)


def _script_prints_on_stderr():
    """Redirects the prints of the script and of child processes to stderr, as stdout is for the JSON document. Returns
    the real stdout."""
    sys.stdout.flush()
    document = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return document


@contextlib.contextmanager
def lasting_objects():
    """Objects created inside, such as torch's, live as long as the process and are excluded from garbage collection,
    which takes a fifth of the time of a script that imports transformers."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
    gc.freeze()


def _search_garbage_seldom():
    """Makes garbage collection rare until the program first uses the GPU: before that, no garbage can hold memory of
    the GPU. Imports create many lasting objects, and repeated visits of such objects take a tenth of the imports'
    time."""
    from ._simulate.cuda import at_first_use

    usual = gc.get_threshold()
    seldom = (1_000_000, *usual[1:])

    def search_as_usual():
        if gc.get_threshold() == seldom:  # not if the program has set a threshold
            gc.set_threshold(*usual)

    gc.set_threshold(*seldom)
    at_first_use(search_as_usual)


def _prepare(options):
    if options.device == "sim":
        from ._simulate.simulate import simulate

        simulate(options.gpu)
        _search_garbage_seldom()
        from ._simulate.placeholders import set_seeds

        set_seeds()
        from ._distributed.ranks import enter

        enter(job_of(options), same_recording(options))
    else:
        measure(options.device)
        from ._modules import watch

        watch()
    if options.activation_memory_budget:
        import torch._functorch.config

        (torch._functorch.config.activation_memory_budget,) = options.activation_memory_budget
    if options.without_checkpointing:
        from ._apply.apply import leave_out

        leave_out()


def _check_policy(options):
    try:
        read_policy(options.policy)
    except (PolicyError, OSError) as error:
        raise HeadroomError(str(error)) from None
    if options.activation_memory_budget and len(options.activation_memory_budget) > 1:
        raise HeadroomError("--policy is the plan of a single step: expected a single fraction of "
                            "--activation-memory-budget")


def _record(options, card_was_full):
    take_launcher(options)
    if job_of(options) and options.device != "sim":
        raise HeadroomError("--nproc-per-node records a process without the others, and a real GPU would wait for "
                            "the others: leave out --device")
    if options.evaluation and options.device != "sim":
        raise HeadroomError("--evaluation records memory of the simulated GPU alone: leave out --device")
    if options.script is None:
        raise HeadroomError("a script is missing: python -m torch_headroom.record train.py")
    if not options.module and not pathlib.Path(options.script).is_file():
        raise HeadroomError(f"{options.script}: there is no such script")
    output = _checked_output(options.output)
    for name in (options.script, options.policy):
        if name and output.exists() and pathlib.Path(name).exists() and output.samefile(name):
            raise HeadroomError(f"-o {output} would replace {name}, which the command reads: expected another name")
    if options.policy:
        _check_policy(options)
    if options.activation_memory_budget and len(options.activation_memory_budget) > 1:
        return record_each(options)
    begin = time.perf_counter()
    take_earlier_answers()
    dependencies = Dependencies() if options.dependencies else None
    document = _script_prints_on_stderr() if options.json else sys.stdout

    def progress(stage, done):
        if options.progress:
            print(json.dumps({"done": round(done, 4), "stage": stage}), file=sys.stderr, flush=True)

    progress("load", 0)
    with lasting_objects():
        _prepare(options)
    if (options.unlimited or card_was_full) and options.device == "sim":
        limit = load().headroom_enlarge_card
        limit.argtypes, limit.restype = [ctypes.c_double], None
        limit(1e6)
    recorder, has_step, outcome = _record_script(options, progress, card_was_full)
    if outcome.card_was_full:
        print(f"torch_headroom.record: {outcome.problem}; the script is recorded again as on a larger card "
              "(--limited ends here)", file=sys.stderr)
        request_rerun(outcome.card_was_full)
        return outcome.exit_code
    if has_step:
        progress("write", 0.95)
        summary = recorder.summary()
        recorder.write(options.output)
        if dependencies:
            dependencies.write(options.dependencies)
        result_is_complete()
        summary |= {"notes": recorder.notes, "card_was_full": card_was_full, "step": options.output,
                    "record_ms": (time.perf_counter() - begin) * 1e3}
        progress("done", 1)
        if options.json:
            print(json.dumps(summary, indent=2), file=document)
        else:
            print(recorder.text(summary), end="")
        document.flush()
        if options.strict and summary["remarks"] and not outcome.exit_code:
            remarks = f"{len(summary['remarks'])} remark{'s' if len(summary['remarks']) > 1 else ''}"
            outcome.problem, outcome.exit_code = (
                f"--strict: {remarks} on {options.output}, as printed beside the peak", 2)
    if outcome.problem:
        print(f"torch_headroom.record: {outcome.problem}", file=sys.stderr)
    if outcome.ended_early:
        from ._record.process import end_process

        end_process(outcome.exit_code)
    return outcome.exit_code


def main(card_was_full=""):
    """Runs the command line. `card_was_full`: the request that the card had no room for, if the script runs again as on
    a larger card. Returns the exit code."""
    try:
        options = parser().parse_args()
        if options.version:
            print("torch_headroom.record", load().headroom_version().decode())
            return 0
        if options.gpu == "list":
            _print_gpus()
            return 0
        return _record(options, card_was_full)
    except HeadroomError as error:
        print(f"torch_headroom.record: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("torch_headroom.record: interrupted; nothing was written", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(supervise(main, "torch_headroom.record"))
