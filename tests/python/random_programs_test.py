# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The promise, kept in programs that nobody wrote: random_program.py draws them, each is recorded, planned at a random
budget and run under the policy.

    random_programs_test.py PLAN_CHECKER [--count N] [--first SEED] [--offload]

Memory under the policy is as predicted after every allocation, and never above the budget, and torch_headroom.apply sees
no byte more than planned; or it refuses the policy by name before the first optimizer step. On the CPU, where the
values are real, gradients are equal to those without the policy, to the bit.
"""

import argparse
import collections
import gc
import json
import pathlib
import random
import sys
import tempfile
import unittest.mock
import warnings

import support

torch = support.simulated("a100-80gb")

import torch._dynamo  # noqa: E402, F401  # the first optimizer imports it, too late for gc.freeze()
import torch_headroom  # noqa: E402
from torch_headroom import _modules  # noqa: E402
from torch_headroom._apply import pinned  # noqa: E402
from torch_headroom._apply.apply import MemoryWatch  # noqa: E402
from random_program import Program  # noqa: E402
from late_copies import Compute, Late  # noqa: E402
from support import Checker, Wrong  # noqa: E402

STEPS = 2


def apply_to(program, policy):
    """To each model that the policy has modules of, by its name where the policy has one of that class."""
    objects = {entry["fqn"].split(".")[0] for entry in json.loads(policy.read_text())["modules"]}
    for model in program.models.values():
        names = [name for name in objects if name.partition("_")[0] == type(model).__name__]
        if names:
            torch_headroom.apply(model, policy, object=names[0] if len(names) == 1 else None)


def record(seed, path, policy=None):
    gc.collect()  # a model of another program would be one of this step's roots
    program = Program(seed).build("cuda")
    if policy:
        apply_to(program, policy)
    with torch_headroom.record(path) as recording:
        for _ in range(STEPS):
            program.step()
            recording.step()
    return program


def gradients(seed, policy=None):
    """On the CPU, of each step."""
    program = Program(seed).build("cpu")
    if policy:
        apply_to(program, policy)
    found = []
    for _ in range(STEPS):
        program.step()
        if not program.lbfgs:
            found += [None if g is None else g.clone() for g in program.gradients]
        else:
            found += [p.detach().clone() for p in program.net.parameters()]
    return found


def without_ops(policy, path):
    """For the CPU where it runs other ops: the same modules, of which nothing is kept."""
    document = json.loads(policy.read_text())
    for entry in document["modules"]:
        entry["ops"] = []
    path.write_text(json.dumps(document))
    return path


def same(a, b):
    return len(a) == len(b) and all((x is None) == (y is None) and (x is None or torch.equal(x, y)) for x, y in zip(a, b))


class Tally:
    def __init__(self):
        self.exact = self.exact_by_op = self.cpu = self.cpu_without_ops = self.refused_on_cpu = 0
        self.offloaded = self.hosted = self.arguments = 0
        self.without_plan = collections.Counter()  # by what is in the way; "": there is nothing to gain
        self.wrong = []


def check_offload(seed, folder, checker, tally):
    """The same with offload: host memory stays within its budget, too."""
    plain, run, policy = folder / "plain.hrs", folder / "run.hrs", folder / "policy.json"
    record(seed, plain)
    draw = random.Random(f"offload {seed}")
    share, host = draw.choice([0.0, 0.1, 0.3, 0.5, 0.7, 0.9]), draw.choice([0, 0, 1 << 20, 1 << 16, 1 << 12])
    budget, peak, _, modules, obstacle, moved, pinned, _ = checker.ask("offload", plain, policy, share, host)
    if int(peak) > int(budget):
        raise Wrong(f"the plan's peak {peak} is above its budget {budget}")
    if host and int(pinned) > host:
        raise Wrong(f"the plan pins {pinned} bytes of the host, {host} are allowed")
    if int(modules) == 0:
        tally.without_plan[obstacle] += 1
        return
    check_run(seed, plain, run, policy, int(budget), checker)
    tally.exact += 1
    tally.offloaded += int(moved) > 0
    peak, modules, moved, _, hosted, arguments = checker.ask("random", plain, policy, seed)
    if int(modules) + int(hosted) + int(arguments) > 0:
        check_run(seed, plain, run, policy, int(peak), checker)
        tally.offloaded += int(moved) > 0
        tally.hosted += int(hosted) > 0
        tally.arguments += int(arguments) > 0
        check_late_gradients(seed, policy, tally)


def check_late_gradients(seed, policy, tally):
    """Compares gradients on the CPU, with copies that are as late as the events allow. Where autograd saves other
    tensors on the CPU, the policy is refused."""
    expected = gradients(seed)
    Late.copied, Late.made, Late.compute = [], [], Compute()
    try:
        with unittest.mock.patch.object(pinned, "Cuda", Late):
            found = gradients(seed, policy)
    except torch_headroom.PolicyError:
        tally.refused_on_cpu += 1
        return
    tally.cpu += 1
    if not same(expected, found):
        raise Wrong("gradients on the CPU are other ones under the policy that offloads")


def check(seed, folder, checker, tally):
    plain, run, policy = folder / "plain.hrs", folder / "run.hrs", folder / "policy.json"
    record(seed, plain)
    share = random.Random(f"budget {seed}").choice([0.0, 0.1, 0.3, 0.5, 0.7, 0.9])
    budget, peak, _, modules, obstacle = (checker.ask("plan", plain, policy, share) + [""])[:5]
    if int(peak) > int(budget):
        raise Wrong(f"the plan's peak {peak} is above its budget {budget}")
    if int(modules) == 0:
        tally.without_plan[obstacle] += 1
    else:
        check_run(seed, plain, run, policy, int(budget), checker)
        tally.exact += 1
        check_gradients(seed, policy, folder, tally)
    peak, modules = checker.ask("ops", plain, policy, share)
    if int(modules) > 0:
        check_run(seed, plain, run, policy, int(peak), checker)
        tally.exact_by_op += 1


def check_run(seed, plain, run, policy, budget, checker):
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            record(seed, run, policy)
    except torch_headroom.PolicyError as error:
        raise Wrong(f"refused: {error}") from None
    for warning in caught:
        if "this step differs from the recorded step" in str(warning.message):
            raise Wrong(f"warned: {warning.message}")
    executed, difference = (checker.ask("verify", plain, run, policy) + [""])[:2]
    if int(executed) > budget:
        raise Wrong(f"took {executed}, its budget is {budget}: {difference}")
    if difference:
        raise Wrong(difference)


def check_gradients(seed, policy, folder, tally):
    expected = gradients(seed)
    try:
        found = gradients(seed, policy)
        tally.cpu += 1
    except torch_headroom.PolicyError:
        found = gradients(seed, without_ops(policy, folder / "cpu.json"))
        tally.cpu_without_ops += 1
    if not same(expected, found):
        raise Wrong("gradients on the CPU are other ones under the policy")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checker")
    parser.add_argument("--count", type=int, default=250)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--offload", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    _modules.watch()
    MemoryWatch.TOLERANCE, MemoryWatch.SHARE = 0, sys.maxsize
    gc.freeze()
    checker, tally = Checker(arguments.checker), Tally()
    with tempfile.TemporaryDirectory() as name:
        for seed in range(arguments.first, arguments.first + arguments.count):
            try:
                (check_offload if arguments.offload else check)(seed, pathlib.Path(name), checker, tally)
            except Exception as error:
                if not isinstance(error, Wrong) and arguments.verbose:
                    import traceback

                    traceback.print_exc()
                tally.wrong.append(seed)
                print(f"{Program(seed)}\n    {type(error).__name__}: {str(error)[:600]}", flush=True)
    checker.close()
    print(f"{tally.exact} exact, of which {tally.offloaded} offload, {tally.hosted} of these results of ops, "
          f"{tally.arguments} arguments, {tally.exact_by_op} by plans of ops; on the CPU {tally.cpu} equal to the bit, "
          f"{tally.cpu_without_ops} more without kept ops, {tally.refused_on_cpu} refused there; {len(tally.wrong)} wrong: {tally.wrong}")
    for obstacle, count in tally.without_plan.most_common():
        print(f"{count} without a plan: {obstacle or 'nothing is to be gained'}")
    # Programs that cannot be planned are a part of it, no more.
    enough = 2 * tally.exact >= arguments.count and (2 * tally.cpu >= tally.exact or arguments.offload)
    enough = enough and (not arguments.offload or (
        3 * tally.offloaded >= arguments.count and 8 * tally.hosted >= arguments.count
        and 8 * tally.arguments >= arguments.count and tally.cpu > 0))
    return 0 if enough and not tally.wrong else 1


if __name__ == "__main__":
    sys.exit(main())
