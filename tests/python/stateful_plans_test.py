# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of models whose layers keep states or iterate (stateful_models.py), applied and trained on the CPU, where values
are real: gradients are equal to the bit, or the plan or apply() refuses the module by its name.

    stateful_plans_test.py HEADROOM [--all] [LAYER...]

HEADROOM is the program of that name. Without --all, a part of the layers runs; with it, each in a process of its own.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import support

torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402
from applied_models import Case  # noqa: E402
from applied_plan_test import Program, on_cpu, record  # noqa: E402
from stateful_models import LAYERS, Net, W  # noqa: E402

PART = ("fakequantized", "rangeassigned", "torch_ao", "lstm", "weightdrop", "graphinplace", "tensorproduct", "scripted",
        "selectivescan", "carriedstate", "spectral_norm", "spectral_parametrization", "hookedimplicit", "codebook", "forces",
        "countinanobject", "countoftheclass", "countofthefile", "countsinfunctions",
        "drawsfromiterators")
STEPS = 3


def case_of(make):
    def made(full):
        return Net(make), (torch.randn(8, 16, W), torch.randint(0, 10, (8,))), loss_of

    return Case("torch", made)


def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])


def trained(model, batches):
    """The gradients of each step of a training."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(5)
    random.seed(5)
    gradients = []
    for batch in batches:
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        gradients.append([None if p.grad is None else p.grad.clone() for p in model.parameters()])
        optimizer.step()
    return gradients


def made_model(case):
    torch.manual_seed(4)
    random.seed(4)
    return case.make(False)[0]


class StatefulPlans(unittest.TestCase):
    outcomes = {}

    def check(self, name):
        case = case_of(LAYERS[name])
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            plain = folder / "plain.hrs"
            most = record(case, plain, False)["peak_bytes"]
            least = Program.run("plan", plain, "--budget", 1)["least_budget_bytes"]
            if least >= most:
                self.refused(name, plain)
                return
            for place, budget in enumerate((least, (least + most) // 2)):
                with self.subTest(budget=budget):
                    self.check_budget(name, case, plain, budget, folder / f"{place}.json")

    def refused(self, name, plain):
        """Nothing can be planned: the reason is said of each layer."""
        said = subprocess.run([Program.path, "plan", str(plain), "--budget", "1"], capture_output=True, text=True).stderr
        self.assertIn("cannot be checkpointed", said)
        StatefulPlans.outcomes[name] = "refused by plan"

    def check_budget(self, name, case, plain, budget, policy):
        answer = Program.run("plan", plain, "--budget", budget, "-o", policy)
        self.assertIn(answer["status"], ("optimal", "feasible"))
        modules = [entry["fqn"] for entry in json.loads(policy.read_text())["modules"]]
        self.assertTrue(modules)
        torch.manual_seed(6)
        batches = [case.make(False)[1] for _ in range(STEPS)]
        expected = trained(made_model(case), batches)
        model = made_model(case)
        torch_headroom.apply(model, on_cpu(case, made_model(case), batches[0], loss_of, policy,
                                           policy.with_suffix(".cpu.json")))
        try:
            got = trained(model, batches)
        except torch_headroom.PolicyError as error:
            self.assertRegex(str(error), r"module Net\.")
            StatefulPlans.outcomes[name] = f"refused by apply: {error}"
            return
        for step, (ours, theirs) in enumerate(zip(got, expected)):
            for (parameter, _), one, other in zip(model.named_parameters(), ours, theirs):
                self.assertEqual(one is None, other is None, parameter)
                self.assertTrue(one is None or torch.equal(one, other), f"{parameter} in step {step} of {modules}")
        StatefulPlans.outcomes.setdefault(name, "equal")


def _test_of(name):
    return lambda self: self.check(name)


for _name in LAYERS:
    setattr(StatefulPlans, f"test_{_name}", _test_of(_name))


def all_layers(program):
    """Tests each layer in a process of its own. Returns how many are wrong."""
    wrong = 0
    for name in LAYERS:
        result = subprocess.run([sys.executable, __file__, program, name], capture_output=True, text=True)
        wrong += result.returncode != 0
        print(result.stdout.strip() if result.returncode == 0 else f"{name}: {result.stderr}", flush=True)
    return wrong


if __name__ == "__main__":
    arguments = sys.argv[1:]
    names = [argument for argument in arguments if argument != "--all"]
    Program.path = names.pop(0)
    if "--all" in arguments:
        sys.exit(all_layers(Program.path))
    torch.set_num_threads(1)
    argv = [sys.argv[0], *(f"StatefulPlans.test_{name}" for name in names or PART)]
    result = unittest.main(argv=argv, exit=False).result
    for name, outcome in StatefulPlans.outcomes.items():
        print(f"{name}: {outcome}")
    sys.exit(not result.wasSuccessful())
