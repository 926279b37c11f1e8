# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan's promise, kept in training: models are recorded, planned at ten budgets each, and trained under the policies.

    applied_plan_test.py HEADROOM [--full] [MODEL...]

HEADROOM is the program of that name. Under each policy the peak is at most the budget and memory is as predicted after
every allocation, to the byte (`torch-headroom verify --executed`); on the CPU, where the values are real, gradients are equal
to those without the policy, with the same dropout. --full takes models of their true size and prints a table.
"""

import dataclasses
import gc
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402
from applied_models import CASES  # noqa: E402
from torch_headroom._apply.recompute import OwnOps, is_cached_cast  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

BUDGETS = 6


class Program:
    """The command line of Headroom."""

    path = None

    @classmethod
    def run(cls, *arguments):
        """Its JSON answer, whatever the exit code; raises where there is none."""
        finished = subprocess.run([cls.path, *map(str, arguments), "--json"], capture_output=True, text=True)
        if not finished.stdout:
            raise RuntimeError(finished.stderr.strip())
        return json.loads(finished.stdout)


def step(case, model, batch, loss_of, optimizer, device):
    for part in range(case.parts):
        share = [tensor[part :: case.parts] for tensor in batch]
        with case.context(device):
            loss = loss_of(model, share)
        loss.backward()
        del loss
    if case.clip:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def record(case, path, full, policy=None):
    """Trains a fresh model for two steps; the second is recorded. Returns what the recording says of it."""
    gc.collect()  # the model of the recording before, which lies in cycles
    with torch.device("cuda"):
        model, batch, loss_of = case.make(full)
    if policy:
        torch_headroom.apply(model, policy)
    optimizer = case.optimizer(model.parameters(), lr=1e-3)
    with torch.autograd.set_multithreading_enabled(case.engine_threads), torch_headroom.record(path) as recording:
        recording.inputs(*batch)
        for _ in range(2):
            step(case, model, batch, loss_of, optimizer, "cuda")
            recording.step()
    return recording.summary


def budgets(plain):
    """From the least that a plan can meet to just below what the step takes without one."""
    least = Program.run("plan", plain, "--budget", 1)["least_budget_bytes"]
    most = Program.run("info", plain)["peak_bytes"] - 1
    return [least + (most - least) * i // (BUDGETS - 1) for i in range(BUDGETS)]


def trainer_plan(plain, budget, policy):
    return subprocess.run([Program.path, "plan", plain, "--budget", str(budget), "--trainer", "huggingface", "-o", policy],
                          capture_output=True, text=True)


def as_trainer(case, arguments):
    """The model as transformers.Trainer makes it checkpoint itself."""
    model, batch, loss_of = case.make(False)
    if "gradient_checkpointing" in arguments:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=arguments["gradient_checkpointing_kwargs"])
    elif hasattr(model, "activation_checkpointing_enable"):
        options = dict(arguments["activation_checkpointing_kwargs"])
        model.activation_checkpointing_enable(every_n_layers=options.pop("every_n_layers"),
                                              activation_checkpointing_kwargs=options)
    else:
        raise unittest.SkipTest("these transformers have no every_n_layers")
    return model, batch, loss_of


class _Ops(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not is_cached_cast(func, args):
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def on_cpu(case, model, batch, loss_of, policy, path):
    """The policy for the CPU, which has other kernels: the same modules, of whose ops those are kept that are there too."""
    root = type(model).__name__
    document = json.loads(pathlib.Path(policy).read_text())
    for entry in document["modules"]:
        ran = []
        module = model.get_submodule(entry["fqn"].removeprefix(root).removeprefix("."))
        watch = _Watched(module, ran)
        with case.context("cpu"), OwnOps():
            loss_of(model, batch)
        watch.remove()
        kept = {(op["op"], op["index"]) for op in entry["ops"] if op["save"]}
        hosted = {(op["op"], op["index"]) for op in entry["ops"] if op.get("offload")}
        entry["ops"] = []
        for place, name in enumerate(ran):
            index = ran[:place].count(name)
            entry["ops"].append({"op": name, "index": index, "save": (name, index) in kept})
            if (name, index) in hosted:
                entry["ops"][-1]["offload"] = True
        if not any(op.get("offload") for op in entry["ops"]) and "arguments" not in entry.get("offload", {}):
            entry.pop("offload", None)
    path.write_text(json.dumps(document))
    return path


class _Watched:
    """The ops of a module's first call, as torch_headroom.apply sees them."""

    def __init__(self, module, ran):
        self.handles = [module.register_forward_pre_hook(self.begin), module.register_forward_hook(self.end)]
        self.ran = ran
        self.ops = None

    def begin(self, module, args):
        if self.ops is None and not self.ran:
            self.ops = _Ops().__enter__()

    def end(self, module, args, result):
        if self.ops is not None:
            self.ops.__exit__(None, None, None)
            self.ran += self.ops.names
            self.ops = None

    def remove(self):
        for handle in self.handles:
            handle.remove()


def gradients(case, model, batch, loss_of):
    torch.manual_seed(20)
    model.zero_grad()
    with case.context("cpu"):
        loss_of(model, batch).backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


class AppliedPlans(unittest.TestCase):
    full = False

    def check(self, name, case):
        if importlib.util.find_spec(case.package) is None:
            self.skipTest(f"this Python has no {case.package}")
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            plain = folder / "plain.hrs"
            record(case, plain, self.full)
            policies = []
            for place, budget in enumerate(budgets(plain)):
                with self.subTest(budget=budget):
                    policies.append(folder / f"{place}.json")
                    self.check_budget(name, case, plain, budget, policies[-1])
            if case.cpu and not self.full:
                for policy in policies[0], policies[BUDGETS // 2], policies[-1]:
                    with self.subTest(gradients=policy.name):
                        self.check_gradients(case, policy)

    def test_hugging_faces_own_checkpointing(self):
        """What `plan --trainer huggingface` prints, done by transformers itself, takes what was predicted."""
        if importlib.util.find_spec("transformers") is None:
            self.skipTest("this Python has no transformers")
        case = CASES["gpt2"]
        with tempfile.TemporaryDirectory() as folder:
            plain, executed, policy = (pathlib.Path(folder) / name for name in ("plain.hrs", "run.hrs", "p.json"))
            recorded = record(case, plain, False)["peak_bytes"]
            least = trainer_plan(plain, 1, policy).stderr.split(" B) with the leanest")[0].split("(")[-1]
            least = int(least.replace(",", ""))
            for budget in least, (least + recorded) // 2:
                with self.subTest(budget=budget):
                    call = trainer_plan(plain, budget, policy).stdout.splitlines()[-1]
                    self.assertTrue(call.startswith("TrainingArguments("), call)
                    arguments = eval(call, {"TrainingArguments": dict})
                    record(dataclasses.replace(case, make=lambda full: as_trainer(case, arguments)), executed, False)
                    answer = Program.run("verify", plain, "--executed", executed, "--policy", policy)
                    self.assertEqual(answer["reason"], "")
                    self.assertLessEqual(answer["executed_peak_bytes"], budget)
                    self.assertGreater(answer["executed_recompute_ms"], 0)

    def check_budget(self, name, case, plain, budget, policy):
        executed = policy.with_suffix(".hrs")
        plan = Program.run("plan", plain, "--budget", budget, "-o", policy)
        self.assertIn(plan["status"], ("optimal", "feasible"))
        peak = record(case, executed, self.full, policy)["peak_bytes"]
        answer = Program.run("verify", plain, "--executed", executed, "--policy", policy)
        executed.unlink()
        if self.full:
            print(f"{name:<28}{budget:>15,}{peak:>15,}{plan['recompute_ms']:>10.2f} ms{answer['allocations']:>8}  "
                  + (answer["reason"] or "equal to the byte"), flush=True)
        self.assertEqual(answer["reason"], "")
        self.assertEqual(answer["executed_peak_bytes"], peak)
        self.assertEqual(plan["peak_bytes"], peak)
        self.assertLessEqual(peak, budget)
        self.assertLess(peak, answer["baseline_peak_bytes"])
        self.assertGreater(answer["allocations"], 100)
        self.assertAlmostEqual(answer["executed_recompute_ms"], answer["predicted_recompute_ms"], 9)

    def check_gradients(self, case, policy):
        torch.manual_seed(10)
        model, batch, loss_of = case.make(False)
        batch = [tensor[:2] for tensor in batch]
        expected = gradients(case, model, batch, loss_of)
        torch_headroom.apply(model, on_cpu(case, model, batch, loss_of, policy, policy.with_suffix(".cpu.json")))
        for _ in range(2):  # the first step checks the ops, the second is the steady one
            got = gradients(case, model, batch, loss_of)
            self.assertEqual(got.keys(), expected.keys())
            for name, gradient in expected.items():
                self.assertTrue(torch.equal(got[name], gradient), name)


def _test_of(name, case):
    return lambda self: self.check(name, case)


for _name, _case in CASES.items():
    setattr(AppliedPlans, f"test_{_name}", _test_of(_name, _case))


if __name__ == "__main__":
    arguments = sys.argv[1:]
    AppliedPlans.full = "--full" in arguments
    names = [argument for argument in arguments if argument != "--full"]
    Program.path = names.pop(0)
    torch.set_num_threads(1)  # small tensors: threads cost more than they give
    unittest.main(argv=[sys.argv[0], *(f"AppliedPlans.test_{name}" for name in names)], verbosity=2)
