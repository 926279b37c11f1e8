# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of ops that go to the host: models are recorded, planned by `ops-plan --offload` and at random, and trained
under the policies.

    hosted_results_test.py HEADROOM PLAN_CHECKER [MODEL...]

HEADROOM and PLAN_CHECKER are the programs of these names. Memory is as predicted after every allocation, to the byte; on
the CPU, where the values are real and copies are as late as the events allow, gradients are equal to the bit.
"""

import contextlib
import importlib.util
import json
import operator
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import weakref

import support

torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402
from applied_models import CASES  # noqa: E402
from applied_plan_test import Program, gradients, on_cpu, record  # noqa: E402
from torch import nn  # noqa: E402
from torch_headroom import PolicyError, apply, remove  # noqa: E402
from torch_headroom._apply import pinned  # noqa: E402
from late_copies import Compute, Late  # noqa: E402

SEEDS = 4
FRACTIONS = 0, 0.4


class OnTheCpu(unittest.TestCase):
    def setUp(self):
        Late.copied, Late.made, Late.compute = [], [], Compute()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        # New memory is NaN, so that a copy that comes too late changes the gradients.
        torch.use_deterministic_algorithms(True, warn_only=True)
        self.addCleanup(torch.use_deterministic_algorithms, False)

    def late(self):
        return unittest.mock.patch.object(pinned, "Cuda", Late)


class Plans(OnTheCpu):
    checker = None
    all = True  # models
    random_hosted = planned_hosted = trained = 0  # policies with results that go to the host
    random_arguments = planned_arguments = 0  # the same with arguments

    @classmethod
    def tearDownClass(cls):
        if cls.all:
            found = cls.random_hosted, cls.random_arguments, cls.planned_hosted, cls.planned_arguments, cls.trained
            assert all(map(operator.ge, found, (20, 5, 5, 5, 15))), found

    def check(self, name, case):
        if importlib.util.find_spec(case.package) is None:
            self.skipTest(f"this Python has no {case.package}")
        folder = pathlib.Path(self.folder.name)
        plain = folder / "plain.hrs"
        record(case, plain, False)
        for seed in range(SEEDS):
            with self.subTest(seed=seed), self.may_be_refused():
                policy = folder / f"random_{seed}.json"
                peak, _, moved, host, hosted, arguments = map(int, self.checker.ask("random", plain, policy, seed))
                Plans.random_hosted += hosted > 0
                Plans.random_arguments += arguments > 0
                self.check_bytes(case, plain, policy, peak)
                if case.cpu and hosted + arguments:
                    self.check_gradients(case, policy)
        for fraction in FRACTIONS:
            with self.subTest(fraction=fraction), self.may_be_refused():
                self.check_plan(case, plain, fraction, folder / f"planned_{fraction}.json")

    @contextlib.contextmanager
    def may_be_refused(self):
        """For flex_attention() without torch.compile."""
        try:
            yield
        except PolicyError as error:
            self.assertIn("run inside of tensors of class FakeTensor, where single results cannot be kept", str(error))

    def check_plan(self, case, plain, fraction, policy):
        done = subprocess.run([Program.path, "ops-plan", plain, "--memory-budget", str(fraction), "--offload", "--json",
                               "-o", policy], capture_output=True, text=True)
        if done.returncode == 3 or "cannot be offloaded" in done.stderr or "can be offloaded" in done.stderr:
            return  # ops that cannot run again keep more than that; nothing can move
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)["policy"]
        moved = answer.get("offload", {"exposed_ms": 0, "moved_bytes": 0})
        self.assertLessEqual(answer["peak_bytes"], answer["without_offload"]["peak_bytes"])
        self.assertLessEqual(answer["recompute_ms"] + moved["exposed_ms"],
                             answer["without_offload"]["recompute_ms"] * (1 + 1e-9))
        results = sum(op["bytes"] for op in answer["offloaded"])
        arguments = any("arguments" in module["moves"] for module in moved.get("modules", {}).values())
        self.assertEqual(moved["moved_bytes"] > 0, results > 0 or arguments)
        self.assertGreaterEqual(moved["moved_bytes"], results)  # more with arguments, or where a module runs again
        self.check_bytes(case, plain, policy, answer["peak_bytes"])
        if moved["moved_bytes"] > 0:
            Plans.planned_hosted += results > 0
            Plans.planned_arguments += arguments
            if case.cpu:
                self.check_gradients(case, policy)

    def check_bytes(self, case, plain, policy, peak):
        executed = policy.with_suffix(".hrs")
        self.assertEqual(record(case, executed, False, policy)["peak_bytes"], peak)
        answer = Program.run("verify", plain, "--executed", executed, "--policy", policy)
        self.assertEqual(answer["reason"], "")
        self.assertEqual(answer["executed_peak_bytes"], peak)
        self.assertAlmostEqual(answer["executed_recompute_ms"], answer["predicted_recompute_ms"], 9)

    def check_gradients(self, case, policy):
        torch.manual_seed(10)
        model, batch, loss_of = case.make(False)
        batch = [tensor[:2] for tensor in batch]
        expected = gradients(case, model, batch, loss_of)
        document = json.loads(policy.read_text())
        # Offloaded modules save other tensors on the CPU.
        document["modules"] = [entry for entry in document["modules"] if "saved" not in entry.get("offload", {})]
        policy.write_text(json.dumps(document))
        with self.late():
            apply(model, on_cpu(case, model, batch, loss_of, policy, policy.with_suffix(".cpu.json")))
            del Late.copied[:]
            for _ in range(2):  # the first step checks the ops, the second is the steady one
                try:
                    got = gradients(case, model, batch, loss_of)
                except PolicyError as error:  # an op of the CPU writes into what an op of the GPU leaves alone
                    self.assertIn("changes that result in place", str(error))
                    return
                self.assertEqual(got.keys(), expected.keys())
                for name, gradient in expected.items():
                    self.assertTrue(torch.equal(got[name], gradient), name)
            Plans.trained += bool(Late.copied)
            remove(model)


class Twice(nn.Module):
    """Two results of exp() and one of sin(), each of 4 KiB, and a mask of 1 KiB."""

    def forward(self, x):
        self.first = x.exp()
        second = self.first.exp()
        return torch.where(second > 1, second.sin(), second.cos())


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(32, 32), Twice(), Twice(), nn.Linear(32, 32))


def batch():
    return torch.randn(32, 32, generator=torch.Generator().manual_seed(3))


OPS = ["aten.exp.default", "aten.exp.default", "aten.gt.Scalar", "aten.sin.default", "aten.cos.default",
       "aten.where.self"]


def entry(name, hosted, saved=(), wait=0, ahead=0, **more):
    """The policy of a Twice; `hosted` and `saved` are (op, index). `more`: prefetch, after_unpacks, arguments."""
    ops = [{"op": op, "index": OPS[:place].count(op)} for place, op in enumerate(OPS)]
    for op in ops:
        key = op["op"].split(".")[1], op["index"]
        op["save"] = key in hosted or key in saved
        if key in hosted:
            op["offload"] = True
    when = {"offload": {"wait": wait, "ahead": ahead, **more}} if hosted or more else {}
    return {"fqn": f"Sequential.{name}", "ops": ops, **when}


class Values(OnTheCpu):
    def written(self, *entries):
        path = pathlib.Path(self.folder.name) / "policy.json"
        path.write_text(json.dumps({"headroom_policy": 1, "model": "net.py", "modules": entries}))
        return path

    def step(self, model):
        model.zero_grad()
        model(batch()).square().sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    def assertEqualToTheBit(self, expected, got):
        self.assertEqual(len(expected), len(got))
        for one, other in zip(expected, got):
            self.assertTrue(torch.equal(one, other))

    def test_gradients(self):
        plain = self.step(net())
        first, second, sin = ("exp", 0), ("exp", 1), ("sin", 0)
        for hosted, saved in (([first], []), ([second], [first]), ([first, second, sin], []), ([sin], [second])):
            for wait in (0, 1, 3):
                for ahead in (0, 1, 3):
                    with self.subTest(hosted=hosted, saved=saved, wait=wait, ahead=ahead), self.late():
                        model = apply(net(), self.written(*(entry(name, hosted, saved, wait, ahead) for name in "12")))
                        for _ in range(3):
                            del Late.copied[:]
                            self.assertEqualToTheBit(plain, self.step(model))
                            away = sum(call + wait <= 1 for call in range(2))
                            self.assertEqual(sum(Late.copied), len(hosted) * (2 + away) * batch().nbytes)
                        torch.optim.SGD(model.parameters(), lr=0.0).step()
                        self.assertIn("forward", model[1].__dict__)

    def test_the_first_results_come_early_and_the_others_late(self):
        plain = self.step(net())
        hosted = [("exp", 0), ("exp", 1), ("sin", 0)]
        for prefetch in range(4):
            with self.subTest(prefetch=prefetch), self.late():
                model = apply(net(), self.written(*(entry(name, hosted, ahead=1, prefetch=prefetch) for name in "12")))
                for _ in range(3):
                    self.assertEqualToTheBit(plain, self.step(model))

    def test_results_come_in_the_middle_of_a_later_recomputation(self):
        plain = self.step(net())
        for hosted in ([("exp", 0)], []):
            for after in range(5):
                with self.subTest(hosted=hosted, after=after), self.late():
                    entries = [entry(name, hosted, (), 0, 1, arguments=[0], after_unpacks=after) for name in "12"]
                    model = apply(net(), self.written(*entries))
                    for _ in range(3):
                        self.assertEqualToTheBit(plain, self.step(model))

    def test_arguments(self):
        """The argument of each module is the result of the module before, and no other argument exists."""
        plain = self.step(net())
        for hosted in ([], [("exp", 0), ("sin", 0)]):
            for wait in (0, 1, 3):
                for ahead in (0, 1, 3):
                    with self.subTest(hosted=hosted, wait=wait, ahead=ahead), self.late():
                        model = apply(net(), self.written(*(
                            entry(name, hosted, (), wait, ahead, arguments=[0], prefetch=1) for name in "12")))
                        for _ in range(3):
                            del Late.copied[:]
                            self.assertEqualToTheBit(plain, self.step(model))
                            away = sum(call + wait <= 1 for call in range(2))
                            self.assertEqual(sum(Late.copied), (1 + len(hosted)) * (2 + away) * batch().nbytes)
                        offloads = model[1].forward.region.applied.offloads
                        self.assertEqual((offloads.on_device, offloads._calls), ({}, {}))
                        torch.optim.SGD(model.parameters(), lr=0.0).step()
                        self.assertIn("forward", model[1].__dict__)

    def test_arguments_leave_the_device(self):
        with self.late():
            model = apply(net(), self.written(entry("1", [], arguments=[0]), entry("2", [])))
            first = []
            model[0].register_forward_hook(lambda *values: first.append(weakref.ref(values[2].untyped_storage())))
            result = model(batch())
            self.assertIsNone(first[0]())
            result.square().sum().backward()

    def test_arguments_by_name_and_inside_of_tuples(self):
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(32, 32)

            def forward(self, x, pair, *, scale):
                return self.linear(x) * scale + pair[0].sin() + pair[1]

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(1)
                self.linear, self.layer = nn.Linear(32, 32), Layer()

            def forward(self, x):
                x = self.linear(x)
                return self.layer(x.cos(), (x.sin(), x[:1]), scale=x.exp())

        plain = self.step(Net())
        for arguments in ([0], [1], [3], [0, 1, 2, 3]):
            with self.subTest(arguments=arguments), self.late():
                model = apply(Net(), self.written({"fqn": "Net.layer", "ops": [
                    {"op": f"aten.{op}", "index": index, "save": False}
                    for op, index in (("addmm.default", 0), ("mul.Tensor", 0), ("sin.default", 0), ("add.Tensor", 0),
                                      ("add.Tensor", 1))],
                    "offload": {"wait": 0, "ahead": 0, "arguments": arguments}}))
                for _ in range(2):
                    del Late.copied[:]
                    self.assertEqualToTheBit(plain, self.step(model))
                    self.assertEqual(sum(Late.copied), 2 * len(arguments) * batch().nbytes)

    def test_arguments_that_are_missing_or_changed_are_refused(self):
        with self.late():
            model = apply(net(), self.written(entry("1", [], arguments=[1])))
            self.assertEqualToTheBit(self.step(net()), self.step(model))
            with self.assertRaisesRegex(PolicyError, "module Sequential.1: the forward has 1 argument tensors on the GPU, "
                                                     "and number 1 should go to the host"):
                torch.optim.SGD(model.parameters(), lr=0.0).step()

        class Changes(Twice):
            def forward(self, x):
                result = super().forward(x)
                x.detach().add_(1)
                return result

        torch.manual_seed(1)
        with self.late():
            model = apply(nn.Sequential(nn.Linear(32, 32), Changes()), self.written(entry("1", [], arguments=[0])))
            with self.assertRaisesRegex(PolicyError, "the argument `x` is changed in place by the forward"):
                self.step(model)

    def test_small_results_of_an_op_stay(self):
        class Several(nn.Module):
            def forward(self, x):
                values, indices = x.max(1)  # of 128 and 256 bytes
                normed, mean, scale = torch.native_layer_norm(x, (32,), None, None, 1e-5)
                return (normed * values.sin()[:, None]).sin()

        torch.manual_seed(1)
        make = lambda: nn.Sequential(nn.Linear(32, 32), Several())  # noqa: E731
        torch.manual_seed(1)
        plain = self.step(make())
        names = ["aten.max.dim", "aten.native_layer_norm.default", "aten.sin.default", "aten.mul.Tensor",
                 "aten.sin.default"]
        ops = [{"op": op, "index": names[:place].count(op), "save": place < 2, "offload": place < 2}
               for place, op in enumerate(names)]
        policy = self.written({"fqn": "Sequential.1", "ops": ops, "offload": {"wait": 0, "ahead": 0}})
        with self.late():
            torch.manual_seed(1)
            model = apply(make(), policy)
            self.assertEqualToTheBit(plain, self.step(model))
        self.assertEqual(Late.copied, [batch().nbytes] * 2)

    def test_a_graph_without_a_backward_gives_the_buffers_back(self):
        with self.late():
            model = apply(net(), self.written(entry("1", [("exp", 0)], wait=1), entry("2", [("exp", 1)])))
            result = model(batch())
            held = weakref.ref(model[1].first.untyped_storage())
            offloads = model[1].forward.region.applied.offloads
            del result, held, model[1].first, model[2].first
            self.assertEqual((offloads.on_device, offloads._calls), ({}, {}))
            card, = offloads.cards.values()
            self.assertEqual(sum(map(len, card._free.values())), len(Late.made))
            made = len(Late.made)
            self.step(model)
            self.assertEqual(len(Late.made), made)
            remove(model)
            self.assertFalse(offloads.cards)

    def test_a_result_that_is_changed_in_place_is_refused(self):
        class Changes(Twice):
            changes = False

            def forward(self, x):
                result = super().forward(x)
                if self.changes:
                    self.first.detach().add_(1)
                return result

        def made(inside):
            torch.manual_seed(1)
            model = nn.Sequential(nn.Linear(32, 32), Changes(), Twice(), nn.Linear(32, 32))
            model[1].changes = inside
            return model

        for inside in (True, False):
            for wait in (0, 1, 2):
                with self.subTest(inside=inside, wait=wait), self.late():
                    model = apply(made(inside), self.written(entry("1", [("exp", 0)], wait=wait), entry("2", [])))
                    if not inside and wait < 2:  # the host has the kept value
                        result = model(batch())
                        model[1].first.detach().add_(1)
                        model.zero_grad()
                        result.square().sum().backward()
                        got = [parameter.grad.clone() for parameter in model.parameters()]
                        self.assertEqualToTheBit(self.step(made(False)), got)
                        continue
                    with self.assertRaisesRegex(PolicyError, "module Sequential.1: the policy saves the result of .* "
                                                "changes that result in place"):
                        result = model(batch())
                        if not inside:
                            model[1].first.detach().add_(1)
                        result.square().sum().backward()

    def test_refusals(self):
        def refused(policy, sentence):
            with self.late(), self.assertRaises(PolicyError) as caught:
                apply(net(), policy)
            self.assertIn(sentence, str(caught.exception))

        found = entry("1", [("exp", 0)])
        refused(self.written({**found, "offload": {"wait": -1, "ahead": 0}}), "modules[0].offload.wait: expected a whole")
        refused(self.written({key: value for key, value in found.items() if key != "offload"}),
                "modules[0].offload is missing: expected {\"wait\", \"ahead\"}, since ops go to the host")
        refused(self.written(entry("1", [], arguments=[1, 0])),
                "modules[0].offload.arguments: expected ascending whole numbers from 0")
        found["ops"][0]["save"] = False
        refused(self.written(found), "modules[0].ops[0].offload: expected an op with \"save\"")
        found["ops"][0]["offload"] = 1
        refused(self.written(found), "modules[0].ops[0].offload: expected true or false")
        policy = self.written(entry("1", [("exp", 0)]))
        with unittest.mock.patch.object(Late, "is_available", lambda: False):
            refused(policy, "tensors go to pinned host memory, and that needs CUDA")

        def fail(nbytes):
            raise RuntimeError("CUDA error: out of memory\nmore lines")

        with self.late(), unittest.mock.patch.object(Late, "pinned", fail):
            model = apply(net(), policy)
            with self.assertRaisesRegex(PolicyError, "the host gives no 4,096 bytes of pinned memory"):
                model(batch())
            self.assertNotIn("forward", model[1].__dict__)

    def test_retained_graphs(self):
        """As with results on the device, the second backward recomputes all."""
        with self.late():
            model = apply(net(), self.written(entry("1", [("exp", 0)]), entry("2", [("exp", 1), ("sin", 0)], ahead=1)))
            loss = model(batch()).square().sum()
            loss.backward(retain_graph=True)
            for parameter in model.parameters():
                parameter.grad = None
            loss.backward()
        self.assertEqualToTheBit(self.step(net()), [parameter.grad for parameter in model.parameters()])

    def test_graphs_of_torch_compile(self):
        with self.late():
            model = apply(net(), self.written(entry("1", [("exp", 0)])))
            compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
            self.assertTrue(all(gradient.isfinite().all() for gradient in self.step(compiled)))
            with self.assertRaisesRegex(PolicyError, "module Sequential.1: the module runs inside of a graph of "
                                                     "torch.compile"):
                torch.optim.SGD(model.parameters(), lr=0.0).step()


def _test_of(name, case):
    return lambda self: self.check(name, case)


for _name, _case in CASES.items():
    setattr(Plans, f"test_{_name}", _test_of(_name, _case))


if __name__ == "__main__":
    Program.path, checker, *names = sys.argv[1:]
    Plans.checker = support.Checker(checker)
    torch.set_num_threads(1)  # small tensors: threads cost more than they give
    Plans.all = not names
    unittest.main(argv=[sys.argv[0], *names], verbosity=2)
