# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of the program are read by the built-in classes' own methods: what the program overrides is never called."""

import collections
import pathlib
import subprocess
import sys
import unittest

import support

support.need("torch")

import apply_test as base  # noqa: E402
import torch  # noqa: E402
from recorded_script import Recorded  # noqa: E402

from torch_headroom import apply  # noqa: E402
from torch_headroom._apply.held import Arguments, Attributes, HeldInCalls  # noqa: E402
from torch_headroom._modules import tensors_of  # noqa: E402

FAULTS = pathlib.Path(__file__).with_name("faults")
sys.path.insert(0, str(FAULTS))

import overrides  # noqa: E402


class Values(unittest.TestCase):
    def test_tensors_are_found(self):
        tensor = torch.ones(2)
        for name in ("tuple", "list", "dict", "ordered", "default", "keyed"):
            with self.subTest(name):
                found = tensors_of([overrides.made(tensor)[name]])
                self.assertEqual(list(map(id, found)), [id(tensor)])

    def test_a_list_that_holds_itself(self):
        tensor = torch.ones(2)
        values = [tensor]
        values.append(values)
        self.assertEqual(len(tensors_of((values, values))), 2)

    def test_arguments_are_held_and_copied(self):
        tensor = torch.ones(2)
        for name, value in overrides.made(tensor).items():
            with self.subTest(name):
                overrides.Key.hashes = False
                try:
                    HeldInCalls({}).of((value,), {"named": value}, [])
                    arguments = Arguments(lambda x: x, (value,), {})
                    arguments.check("in a test")
                finally:
                    overrides.Key.hashes = True
                copy = arguments.for_recompute(arguments.inputs)[0][0]
                self.assertIs(type(copy), type(value))
                self.assertEqual(copy is value, name in ("irrep", "tuple", "frozen"))  # tuples of constants are shared
                if name in ("list", "deque"):
                    base_class = list if name == "list" else collections.deque
                    self.assertIs(base_class.__getitem__(copy, 0), tensor)
                if name in ("dict", "default"):
                    self.assertIs(dict.__getitem__(copy, "a" if name == "dict" else "b"), tensor)
                if name == "default":
                    self.assertIs(collections.defaultdict.default_factory.__get__(copy), list)
                if name in ("own", "slots"):
                    held = vars(copy)["held"] if name == "own" else type(copy).one.__get__(copy)
                    self.assertIs(held, tensor)

    def test_attributes_are_kept(self):
        layer = overrides.Layer(4)
        kept = Attributes(layer)
        before = dict(layer.__dict__)
        layer.kept_list = layer.kept_dict = layer.kept_own = None
        with kept.restored(layer):
            self.assertIs(type(layer.kept_list), type(before["kept_list"]))
            self.assertEqual(list.__len__(layer.kept_list), 2)
            self.assertEqual(dict.__len__(layer.kept_dict), 1)
        self.assertIsNone(layer.kept_list)


class Programs(base.ApplyTest):
    def test_gradients_under_a_policy(self):
        def made():
            torch.manual_seed(3)
            return overrides.Net(8)

        def gradients(net):
            for parameter in torch.nn.Module.parameters(net.layers):
                parameter.grad = None
            net(torch.ones(4, 8), overrides.made(torch.ones(5))).square().sum().backward()
            return [parameter.grad for parameter in torch.nn.Module.parameters(net.layers)]

        ops = [{"op": f"aten.{name}.default", "index": index, "save": name == "gelu"}
               for name, index in (("addmm", 0), ("gelu", 0), ("addmm", 1))]
        policy = {"headroom_policy": 1, "model": "net.py", "modules": [
            {"fqn": f"Net.layers.{i}", "discard_ratio": 0.5, "ops": ops} for i in (0, 2)]}
        expected, net = gradients(made()), made()
        apply(net, self.written(policy))
        for _ in range(3):
            for one, other in zip(gradients(net), expected):
                self.assertTrue(torch.equal(one, other))
        self.assertEqual(net.layers[0].count, 3)


class Scripts(Recorded):
    def test_a_program_is_recorded(self):
        result = self.run_script(FAULTS / "overrides.py", "--gpu", "a100-80gb", "--strict")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_dispatch_modes_see_the_ops_of_the_program(self):
        """Also a mode that takes memory of the card, and that is there at the end of the recording."""
        script = self.written("""
            import contextlib, sys, torch_headroom
            torch_headroom.simulate("a100-80gb")
            import torch
            from torch.utils._python_dispatch import TorchDispatchMode

            class Mode(TorchDispatchMode):
                def __torch_dispatch__(self, op, types, arguments=(), named=None):
                    seen.append(op.overloadpacket.__name__)
                    torch.empty(8, device="cuda")
                    return op(*arguments, **(named or {}))

            def step():
                linear.zero_grad()
                linear(torch.randn(8, 64, device="cuda")).exp().tanh().sum().backward()
                return linear(torch.randn(8, 64, device="cuda")).exp().tanh()

            linear, seen = torch.nn.Linear(64, 64, device="cuda"), []
            with Mode():
                held = step()
                expected = list(seen)
                seen.clear()
                with torch_headroom.record(sys.argv[1]) as recording:
                    held = step()
                    now = list(seen)
                    recording.step()
                held.sum().backward()
            ops = [[name for name in names if name != "detach"] for names in (expected, now)]
            assert ops[0] == ops[1] and len(now) <= len(expected), (expected, now)
            """)
        result = subprocess.run([sys.executable, script, self.step], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
