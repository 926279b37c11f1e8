# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.apply: what it checkpoints, what it refuses, and that it changes no gradient."""

import copy
import functools
import gc
import inspect
import json
import os
import pickle
import sys
import tempfile
import types
import unittest
import weakref
from collections import Counter

try:
    import torch
except (ImportError, OSError) as error:
    print(f"this Python cannot import torch: {error}")
    sys.exit(77)
import torch.nn as nn
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

from torch_headroom import PolicyError, apply, remove
from torch_headroom._apply.recompute import is_cached_cast, region_of

torch.set_num_threads(1)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, *, scale=None):
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.dropout = dropout
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, scale=None):
        x = x + self.dropped(self.attention(self.norm(x), scale=scale))
        return x + self.dropped(self.mlp(x))

    def dropped(self, x):
        return F.dropout(x, self.dropout, self.training) if self.dropout else x


class Net(nn.Module):
    def __init__(self, layers=3, width=32, dropout=0.1):
        super().__init__()
        self.layers = nn.ModuleList(Block(width, dropout) for _ in range(layers))
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x, scale=0.2)
        return self.head(x)


class Ops(TorchDispatchMode):
    """The ops that run under it and that have an index, by name."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        if not is_cached_cast(op, args):
            self.names.append(str(op))
        return op(*args, **(kwargs or {}))


class Doubled(torch.Tensor):
    """Adds itself to itself before each op: a subclass whose ops run other ones inside."""

    @staticmethod
    def __new__(cls, plain):
        made = torch.Tensor._make_wrapper_subclass(cls, plain.shape, dtype=plain.dtype, requires_grad=plain.requires_grad)
        made.plain = plain
        return made

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        inner = [arg.plain + arg.plain if isinstance(arg, Doubled) else arg for arg in args]
        return Doubled(op(*inner, **(kwargs or {})))


class Wrap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, plain):
        return Doubled(plain.detach())

    @staticmethod
    def backward(ctx, gradient):
        return gradient.plain


class Unwrap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, doubled):
        return doubled.plain

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def batch():
    return torch.randn(2, 16, 32, generator=torch.Generator().manual_seed(3))


def model(dropout=0.1):
    torch.manual_seed(1)
    return Net(dropout=dropout)


def ops_of(module, *args, **kwargs):
    with Ops() as ops, torch.random.fork_rng():
        module(*args, **kwargs)
    return [name for name in ops.names if name not in ("aten.detach.default", "prim.device.default")]


def policy_of(net, modules, saved=lambda name, index: False):
    """The policy document that recording `net` and planning would give: `modules` are names without the root's."""
    entries = []
    for name in modules:
        x = batch().requires_grad_()
        seen, ops = Counter(), []
        for op in ops_of(net.get_submodule(name), x, scale=0.2) if name.endswith("attention") else ops_of(
                net.get_submodule(name), x):
            ops.append({"op": op, "index": seen[op], "save": saved(op, seen[op])})
            seen[op] += 1
        entries.append({"fqn": f"Net.{name}", "discard_ratio": 0.5, "ops": ops})
    return {"headroom_policy": 1, "model": "net.py", "torch": "2.11.0", "budget_bytes": 1, "world_size": 1,
            "predicted": {"peak_bytes": 1, "recompute_ms": 1.0, "gap": 0.0}, "modules": entries}


def saves_products(name, index):
    return name in ("aten.addmm.default", "aten._scaled_dot_product_flash_attention_for_cpu.default")


def step(net, x=None):
    """Gradients of one step, with dropout, and which ops ran."""
    torch.manual_seed(7)
    net.zero_grad()
    with Ops() as ops:
        net(batch() if x is None else x).square().sum().backward()
    inner = getattr(net, "module", net)
    return [p.grad.clone() for p in inner.parameters()], Counter(ops.names)


class ApplyTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def written(self, document):
        path = os.path.join(self.folder.name, "policy.json")
        with open(path, "w") as file:
            file.write(document if isinstance(document, str) else json.dumps(document))
        return path

    def assertSentence(self, error, sentence):
        """The error says exactly this of policy.json."""
        self.assertEqual(str(error), os.path.join(self.folder.name, "policy.json") + ": " + sentence)

    def refused(self, net, document, *words):
        """`apply` raises one sentence that has all of `words` and leaves the model as it was."""
        before = {name: dict(module.__dict__) for name, module in net.named_modules()}
        with self.assertRaises(PolicyError) as caught:
            apply(net, self.written(document))
        message = str(caught.exception)
        for word in words:
            self.assertIn(word, message)
        self.assertNotIn("\n", message)
        self.assertEqual(before.keys(), dict(net.named_modules()).keys())
        for name, module in net.named_modules():
            self.assertEqual(before[name].keys(), module.__dict__.keys(), name)
        return message


class Checkpointing(ApplyTest):
    def test_gradients_are_equal_to_the_bit_with_dropout(self):
        plain, _ = step(model())
        for saved in (lambda name, index: False, saves_products, lambda name, index: name == "aten.addmm.default"
                      and index == 1):
            net = model()
            self.assertIs(apply(net, self.written(policy_of(net, ["layers.0", "layers.2.attention"], saved))), net)
            for again in range(2):  # the first step checks the ops, the second is the steady one
                gradients, _ = step(net)
                for expected, got in zip(plain, gradients):
                    self.assertTrue(torch.equal(expected, got))

    def test_what_is_saved_is_not_recomputed(self):
        _, plain = step(model())
        net = model()
        apply(net, self.written(policy_of(net, ["layers.1"], saves_products)))
        step(net)
        _, ran = step(net)
        self.assertEqual(ran["aten.addmm.default"], plain["aten.addmm.default"])
        self.assertEqual(ran["aten.gelu.default"], plain["aten.gelu.default"] + 1)
        self.assertEqual(ran["aten.native_layer_norm.default"], plain["aten.native_layer_norm.default"] + 1)

    def test_a_second_backward_recomputes_all(self):
        """The first recomputation ends before the last product, which is saved and which no gradient needs."""
        def net():
            torch.manual_seed(1)
            return nn.Sequential(nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32)), nn.Linear(32, 3))

        def twice(net):
            loss = net(batch()).square().sum()
            loss.backward(retain_graph=True)
            net.zero_grad()
            loss.backward()
            return [parameter.grad for parameter in net.parameters()]

        document = policy_of(net(), ["0"], lambda name, index: name == "aten.addmm.default" and index == 1)
        document["modules"][0]["fqn"] = "Sequential.0"
        try:
            found = twice(apply(net(), self.written(document)))
        except RuntimeError as error:  # torch 2.15
            self.assertIn("Trying to backward an extra time", str(error))
        else:
            for expected, got in zip(twice(net()), found):
                self.assertTrue(torch.equal(expected, got))

    def test_only_the_index_named_is_saved(self):
        _, plain = step(model())
        net = model()
        apply(net, self.written(policy_of(net, ["layers.1"],
                                          lambda name, index: name == "aten.addmm.default" and index == 2)))
        step(net)
        _, ran = step(net)
        # Four products a layer: one is kept, and the last is needed by no saved tensor before it but dropout's input.
        self.assertEqual(ran["aten.addmm.default"], plain["aten.addmm.default"] + 3)

    def test_activations_are_gone_between_forward_and_backward(self):
        net = model()
        policy = self.written(policy_of(net, ["layers.0"]))
        inner = []
        note = inner.append  # a method that is not set back
        net.layers[0].mlp[1].register_forward_hook(
            lambda module, args, result: note(weakref.ref(result.untyped_storage())))
        apply(net, policy)
        loss = net(batch()).sum()
        gc.collect()
        self.assertIsNone(inner[0]())
        loss.backward()
        self.assertEqual(len(inner), 2, "the layer runs again in backward")

    def test_nothing_is_checkpointed_without_gradients(self):
        net = model().eval()
        expected = net(batch())
        apply(net, self.written(policy_of(net, ["layers.0"])))
        with torch.no_grad():
            with Ops() as ops:
                result = net(batch())
        self.assertTrue(torch.equal(expected, result))
        self.assertNotIn("aten.detach.default", ops.names)

    def test_keywords_that_checkpoint_has_itself_reach_the_module(self):
        class Inner(nn.Module):
            def forward(self, x, debug=None, determinism_check=None):
                return x * debug * determinism_check

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, x):
                return self.inner(x, debug=2, determinism_check=3)

        net = Outer()
        document = policy_of(model(), [])
        document["modules"] = [{"fqn": "Outer.inner", "discard_ratio": 1, "ops": [
            {"op": "aten.mul.Tensor", "index": i, "save": False} for i in range(2)]}]
        apply(net, self.written(document))
        x = torch.ones(2, requires_grad=True)
        net(x).sum().backward()
        self.assertEqual(x.grad.tolist(), [6, 6])

    def test_a_tensor_given_twice_is_one_when_the_forward_runs_again(self):
        class Given(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(2))

            def forward(self, query, key, value=None, other=None):
                same = 2 if query is key and query is other and value is not query else 3
                return (query * self.weight * same).exp()

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Given()

            def forward(self, x):
                return self.inner(x, x, x + 1, other=x)

        net = Outer()
        x = torch.ones(2, requires_grad=True)
        net(x).sum().backward()
        expected = [x.grad.clone(), net.inner.weight.grad.clone()]
        document = policy_of(model(), [])
        document["modules"] = [{"fqn": "Outer.inner", "ops": []}]
        apply(net, self.written(document))
        x.grad = net.inner.weight.grad = None
        net(x).sum().backward()
        self.assertTrue(torch.equal(x.grad, expected[0]))
        self.assertTrue(torch.equal(net.inner.weight.grad, expected[1]))

    def trains_with_one_add_in_place(self, net, x, gradients):
        """Checks two steps of a model of two equal modules, of which the first has a policy."""
        for _ in range(2):
            net.zero_grad()
            with Ops() as ops:
                result = net(x)
            self.assertEqual(ops.names.count("aten.add_.Tensor"), 1, "of the module with a policy")
            self.assertEqual(ops.names.count("aten.add.Tensor"), 1, "of the other, since Ops is a mode, too")
            result.sum().backward()
            for parameter, gradient in zip(net.parameters(), gradients):
                self.assertTrue(torch.equal(parameter.grad, gradient))

    def test_linear_runs_the_ops_that_it_runs_without_a_policy(self):
        class Turned(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x):
                return self.linear(x.transpose(0, 1)).exp()

        net = nn.Sequential(Turned(), Turned())
        document = policy_of(model(), [])
        document["modules"] = [{"fqn": "Sequential.0", "ops": [
            {"op": name, "index": 0, "save": name == "aten.exp.default"}
            for name in ("aten.transpose.int", "aten.t.default", "aten.mm.default", "aten.add_.Tensor",
                         "aten.exp.default")]}]
        x = torch.randn(3, 2, 4)
        net(x).sum().backward()
        expected = [p.grad.clone() for p in net.parameters()]
        linear = F.linear
        apply(net, self.written(document))
        inner = []
        net[0].register_forward_hook(lambda *_: inner.append(F.linear))
        self.trains_with_one_add_in_place(net, x, expected)
        self.assertIs(F.linear, linear)
        self.assertTrue(all(function is linear for function in inner))

    def test_a_module_that_the_program_replaces_is_refused(self):
        class Replacing(nn.Sequential):
            def forward(self, x):
                if type(self[self.replaced]) is nn.Linear:
                    self[self.replaced] = nn.Sequential(nn.Linear(4, 4))
                return super().forward(x)

        document = policy_of(model(), [])
        document["modules"] = [{"fqn": f"Replacing.{i}", "ops": []} for i in range(2)]
        for replaced in range(2):
            net = Replacing(nn.Linear(4, 4), nn.Linear(4, 4))
            net.replaced = replaced
            apply(net, self.written(document))
            sentence = f"module Replacing.{replaced}: the program has replaced the module by a Sequential since"
            with self.assertRaisesRegex(PolicyError, sentence):
                net(torch.ones(2, 4))
            net(torch.ones(2, 4)).sum().backward()  # without the policy

    def test_a_forward_that_the_program_replaces(self):
        """The policy is refused if the new forward does not call the policy's, as of kernels that are put on instances."""
        for wraps in (False, True):
            with self.subTest(wraps=wraps):
                net = model()
                apply(net, self.written(policy_of(net, ["layers.0"])))
                inner = net.layers[0].forward if wraps else functools.partial(type(net.layers[0]).forward, net.layers[0])
                net.layers[0].forward = lambda *args, inner=inner, **named: inner(*args, **named)
                optimizer = torch.optim.SGD(net.parameters())
                counts = step(net)[1]
                self.assertEqual(counts["aten.gelu.default"], 4 if wraps else 3)
                if wraps:
                    optimizer.step()
                    remove(net)
                    self.assertEqual(step(net)[1]["aten.gelu.default"], 3)
                else:
                    with self.assertRaisesRegex(PolicyError, "module Net.layers.0: the program has replaced the module's "
                                                             r"forward since torch_headroom.apply\(\)"):
                        optimizer.step()

    def test_a_module_without_successor_is_one_of_another_stage(self):
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        document = policy_of(model(), [])
        document["modules"] = [{"fqn": f"Sequential.{i}", "ops": []} for i in range(2)]
        apply(net, self.written(document))
        del net[1]
        net(torch.ones(2, 4)).sum().backward()
        torch.optim.SGD(net.parameters()).step()

    def test_attention_adds_its_mask_as_it_does_without_a_policy(self):
        class Grouped(nn.Module):
            def forward(self, x):
                return F.scaled_dot_product_attention(x, x[:, :1], x[:, :1], is_causal=True, enable_gqa=True).exp()

        net = nn.Sequential(nn.Linear(8, 8), Grouped(), Grouped())
        document = policy_of(model(), [])
        document["modules"] = [{"fqn": "Sequential.1", "ops": [
            {"op": name, "index": 0, "save": name == "aten.exp.default"}
            for name in ("aten.bmm.default", "aten.add_.Tensor", "aten._safe_softmax.default", "aten.exp.default")]}]
        x = torch.randn(2, 2, 6, 8)
        with sdpa_kernel(SDPBackend.MATH):  # as on the GPU for float32 with fewer heads of keys than of queries
            net(x).sum().backward()
            expected = [p.grad.clone() for p in net.parameters()]
            apply(net, self.written(document))
            self.trains_with_one_add_in_place(net, x, expected)

    def autocast_step(self, net, inside):
        torch.manual_seed(7)
        net.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = net(batch()).square().sum()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        return [p.grad.clone() for p in net.parameters()]

    def test_casts_that_are_kept_with_backward_inside_of_autocast(self):
        def casts_and_products(name, index):
            return name == "aten._to_copy.default" and index % 2 == 0 or name == "aten.addmm.default"

        with torch.autocast("cpu", torch.bfloat16):
            document = policy_of(model(), ["layers.0", "layers.1"], casts_and_products)
        for inside in False, True:
            expected = self.autocast_step(model(), inside)
            net = model()
            apply(net, self.written(document))
            for _ in range(2):
                for should, got in zip(expected, self.autocast_step(net, inside)):
                    self.assertTrue(torch.equal(should, got))

    def test_removed_it_is_the_model_it_was(self):
        net = model()
        net.layers[1].forward = net.layers[1].forward  # a patch of the user's stays
        before = [dict(module.__dict__) for module in net.modules()]
        apply(net, self.written(policy_of(net, ["layers.0", "layers.1"])))
        step(net)
        self.assertIs(remove(net), net)
        self.assertEqual([module.__dict__.keys() for module in net.modules()], [b.keys() for b in before])
        plain, ran = step(model())
        gradients, again = step(net)
        self.assertEqual(ran, again)
        for expected, got in zip(plain, gradients):
            self.assertTrue(torch.equal(expected, got))
        apply(net, self.written(policy_of(net, ["layers.0"])))  # and can have another

    def copied(self, net):
        """A copy that runs on parameters of its own, which are 0."""
        other = copy.deepcopy(net)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
        self.assertEqual(other(batch()).abs().sum().item(), 0, "a copy runs on its own parameters")
        return other

    def test_copies_checkpoint_themselves_and_pickles_do_not(self):
        net = model()
        apply(net, self.written(policy_of(net, ["layers.0"])))
        step(net)
        other = self.copied(net)
        self.assertIn("forward", other.layers[0].__dict__)
        self.assertEqual(net.state_dict().keys(), model().state_dict().keys())
        again = pickle.loads(pickle.dumps(net))
        self.assertTrue(torch.equal(step(again)[0][0], step(model())[0][0]))
        self.assertEqual(step(again)[1], step(model())[1])

    def test_copies_of_a_patched_module(self):
        """As hooks of accelerate: the module's forward is a partial of the module."""
        def run(module, *args, **named):
            return type(module).forward(module, *args, **named)

        net = model()
        for layer in net.layers:
            layer.forward = functools.partial(run, layer)
        apply(net, self.written(policy_of(net, ["layers.0"])))
        step(net)
        other = self.copied(net)
        remove(other)
        self.assertIs(other.layers[0].forward.args[0], other.layers[0])
        self.assertIsNotNone(region_of(net.layers[0]))
        self.assertFalse(region_of(net.layers[0]).removed)

    def test_shallow_copies(self):
        """A shallow copy has the attributes of the module, `forward` included, and may get other parameters."""
        net = model()
        apply(net, self.written(policy_of(net, ["layers.0"])))
        step(net)
        other = copy.copy(net.layers[0])
        other._modules = {name: copy.deepcopy(child) for name, child in other._modules.items()}
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.mul_(2)
        plain = copy.copy(other)
        del plain.forward
        (expected, ran), (got, again) = step(plain), step(other)
        for should, found in zip(expected, got):
            self.assertTrue(torch.equal(should, found))
        self.assertGreater(again["aten.gelu.default"], ran["aten.gelu.default"], "a shallow copy checkpoints itself")
        self.assertIsNotNone(region_of(net.layers[0]))

    def test_a_trace_has_no_checkpoint(self):
        """As of SummaryWriter.add_graph(), with gradients."""
        net = model().eval()
        apply(net, self.written(policy_of(net, ["layers.0"])))
        traced = torch.jit.trace(net, (batch(),))
        self.assertTrue(torch.equal(traced(batch()), net(batch())))
        self.assertEqual(step(net)[1]["aten.gelu.default"], 4)

    def test_an_exported_program_has_no_checkpoint(self):
        """By default; a strict export has the checkpoint as an operator of its own, as without a policy."""
        plain, expected = torch.export.export(model().eval(), (batch(),)), model().eval()(batch())
        for saved in (lambda name, index: False, saves_products):
            net = apply(model().eval(), self.written(policy_of(model().eval(), ["layers.0"], saved)))
            program = torch.export.export(net, (batch(),))
            self.assertEqual([str(node.target) for node in program.graph.nodes], [str(node.target) for node in plain.graph.nodes])
            self.assertTrue(torch.equal(program.module()(batch()), expected))
            self.assertTrue(torch.equal(torch.export.export(net, (batch(),), strict=True).module()(batch()), expected))
            self.assertEqual(step(net)[1]["aten.gelu.default"], 4)

    def test_what_takes_no_policy_says_so(self):
        net = model().eval()
        apply(net, self.written(policy_of(net, ["layers.0"])))
        for trace, what in ((lambda: torch.jit.script(net.layers[0]), "torch.jit.script"),
                            (lambda: make_fx(net)(batch()), "make_fx")):
            with self.assertRaisesRegex(PolicyError, f"^module Net.layers.0 has a policy, and {what}.*: call "
                                                     r"torch_headroom.remove\(model\) first, [^\n]*$"):
                trace()
        self.assertEqual(step(net)[1]["aten.gelu.default"], 4, "the policy stays")
        remove(net)
        make_fx(net)(batch())

    def test_the_signature_is_that_of_the_module(self):
        """transformers.Trainer passes the columns of a data set that a forward names."""
        net = model()
        plain = inspect.signature(net.layers[0].forward)
        apply(net, self.written(policy_of(net, ["layers.0"])))
        self.assertEqual(inspect.signature(net.layers[0].forward), plain)

    def test_forwards_that_accelerate_wraps_and_unwraps(self):
        """accelerate.utils.extract_model_from_parallel(keep_fp32_wrapper=False) binds the innermost `__wrapped__`."""
        def wraps(net):
            original = net.forward

            @functools.wraps(getattr(original, "__func__", original))
            def doubled(*args):
                return 2 * getattr(original, "__func__", original)(*args)

            net.forward = types.MethodType(doubled, net) if hasattr(original, "__func__") else doubled
            return original

        def unwraps(net, original):
            forward = net.forward
            while hasattr(forward, "__wrapped__"):
                forward = forward.__wrapped__
                if forward == original:
                    break
            net.forward = types.MethodType(forward, net)

        plain, ran = step(model())
        for applied_first in (True, False):
            net = model()
            document = policy_of(net, ["layers.0"])
            document["modules"] = [{"fqn": "Net", "discard_ratio": 1, "ops": []}]
            if applied_first:
                apply(net, self.written(document))
            original = wraps(net)
            if not applied_first:
                apply(net, self.written(document))
            self.assertFalse(torch.equal(step(net)[0][0], plain[0]))
            unwraps(net, original)
            self.assertEqual(list(inspect.signature(net.forward).parameters), ["x"])
            for other in net, copy.deepcopy(net):
                gradients, again = step(other)
                for expected, got in zip(plain, gradients):
                    self.assertTrue(torch.equal(expected, got))
                self.assertEqual(again["aten.gelu.default"], 2 * ran["aten.gelu.default"], "the policy stays")
            self.assertTrue(torch.equal(step(pickle.loads(pickle.dumps(net)))[0][0], plain[0]))
            remove(net)
            self.assertEqual(step(net)[1], ran)

    def test_replicas_of_data_parallel(self):
        """A replica has no parameters, only tensors: what DataParallel makes of a model with a policy is refused."""
        net = model()
        apply(net, self.written(policy_of(net, ["layers.0"])))
        step(net)
        replica = net.layers[0]._replicate_for_data_parallel()
        with self.assertRaisesRegex(PolicyError, "module Net.layers.0: DataParallel is not supported"):
            replica(batch())
        self.assertIsNone(region_of(net.layers[0]))

    def test_copies_and_models_are_freed_without_the_garbage_collector(self):
        def freed(drop):
            """Returns what of all that `drop` names is still there when `drop` has returned."""
            gc.collect()
            gc.disable()
            self.addCleanup(gc.enable)
            known = [weakref.ref(thing) for thing in drop()]
            return [thing() for thing in known if thing() is not None]

        def storages(net):
            return [*net.modules(), *(parameter.untyped_storage() for parameter in net.parameters())]

        net = model()
        apply(net, self.written(policy_of(net, ["layers.0", "layers.1"], saves_products)))
        step(net)

        def drop_a_copy():
            other = copy.deepcopy(net)
            step(other)
            return storages(other)

        self.assertEqual(freed(drop_a_copy), [])
        part = copy.deepcopy(net.layers[0])
        forward, gradients = part.forward, step(part)[0]
        for should, got in zip(step(model().layers[0])[0], gradients):
            self.assertTrue(torch.equal(should, got))
        part = None
        with self.assertRaisesRegex(ReferenceError, "module Net.layers.0 is gone"):
            forward(batch())
        self.assertIs(copy.deepcopy({"call": net.layers[0].forward, "of": net.layers[0]})["of"].forward.region,
                      net.layers[0].forward.region)
        expected = step(model())[0]
        averaged = copy.deepcopy(net)
        for should, got in zip(expected, step(averaged)[0]):
            self.assertTrue(torch.equal(should, got))

        def drop_the_model():
            nonlocal net
            gone, net = net, None
            return storages(gone)

        self.assertEqual(freed(drop_the_model), [])
        ran = step(averaged)
        self.assertEqual(ran[1]["aten.gelu.default"], 5, "a copy of a model that is gone checkpoints itself")

    def test_compiled_modules_under_a_policy_can_be_copied_and_pickled(self):
        net = model(dropout=0)
        document = policy_of(net, ["layers.0", "layers.1"])
        net.layers[0].compile(backend="eager")
        net.layers[1] = torch.compile(net.layers[1], backend="eager")
        apply(net, self.written(document))
        plain = step(model(dropout=0))[0]
        part = copy.deepcopy(net.layers[0])
        self.assertEqual([thing for thing in gc.get_referents(part.__dict__) if isinstance(thing, Net)], [])
        for other in net, copy.deepcopy(net), pickle.loads(pickle.dumps(net)):
            for should, got in zip(plain, step(other)[0]):
                self.assertTrue(torch.equal(should, got))
        apply(copy.deepcopy(net), self.written(document))  # has none
        remove(net)
        self.assertEqual(step(net)[1]["aten.gelu.default"], 3)


class Refusals(ApplyTest):
    def test_a_renamed_module(self):
        net = model()
        document = policy_of(net, ["layers.0.attention"])
        document["modules"][0]["fqn"] = "Net.layers.0.attn"
        message = self.refused(net, document)
        self.assertSentence(message, "the model has no module Net.layers.0.attn; was the module renamed to "
                                     "Net.layers.0.attention?")
        document["modules"][0] |= {"fqn": "Net.layers.0.norms", "types": ["Net", "ModuleList", "Block", "Dropout"]}
        self.assertSentence(self.refused(net, document), "the model has no module Net.layers.0.norms; was the policy made "
                            "for another model?")

    def test_a_model_with_fewer_layers(self):
        document = policy_of(model(), ["layers.0", "layers.1"])
        document["modules"][0]["fqn"], document["modules"][1]["fqn"] = "Net.layers.4", "Net.layers.3.mlp"
        message = self.refused(model(), document)
        self.assertSentence(message, "the model has no module Net.layers.4 nor 1 more of the policy's 2; layers has "
                                     "3 modules: make the model as recorded, or record the step and plan again")

    def test_modules_that_are_not_there(self):
        net = model()
        document = policy_of(net, ["layers.0", "layers.1"])
        document["modules"][0]["fqn"] = "Net.blocks.first"
        document["modules"][1]["fqn"] = "Net.blocks.second"
        message = self.refused(net, document)
        self.assertSentence(message, "the model has no module Net.blocks.first nor 1 more of the policy's 2; was the "
                            "policy made for another model?")

    def test_another_model(self):
        document = policy_of(model(), ["layers.0"])
        message = self.refused(nn.Sequential(nn.Linear(2, 2)), document)
        self.assertSentence(message, "module Net.layers.0 belongs to a Net, and this model is a Sequential: the policy was "
                            "made for another model (net.py)")

    def test_a_newer_version(self):
        document = policy_of(model(), ["layers.0"])
        document["headroom_policy"] = 2
        message = self.refused(model(), document)
        self.assertSentence(message, "headroom_policy: version 2; this package reads version 1: install a newer torch-headroom")

    def test_files_that_are_no_policies(self):
        net = model()
        self.refused(net, "{", "not JSON")
        self.refused(net, "[" * 100000, "not JSON")
        self.refused(net, "[]", "headroom_policy")
        self.refused(net, {"headroom_policy": True, "model": "", "modules": []}, "headroom_policy", "whole number")
        self.refused(net, {"headroom_policy": 1, "model": "", "modules": {}}, "modules", "expected a list")
        document = policy_of(net, ["layers.0"])
        document["modules"][0]["ops"][3]["index"] = 7
        self.refused(net, document, "modules[0].ops[3].index", "not 7")
        document = policy_of(net, ["layers.0", "layers.0.attention"])
        self.refused(net, document, "Net.layers.0.attention is inside of Net.layers.0")
        document = policy_of(net, ["layers.0"])
        document["modules"] *= 2
        self.refused(net, document, "named twice")
        with self.assertRaisesRegex(PolicyError, "nowhere.json: cannot be read"):
            apply(net, os.path.join(self.folder.name, "nowhere.json"))

    def test_a_policy_that_is_no_path(self):
        for policy, sentence in ((None, r"policy None: expected the path of a policy.json \(the policy of a plan is None"),
                                 ({}, "policy {}: expected the path of a policy.json$")):
            with self.assertRaisesRegex(PolicyError, f"^{sentence}"):
                apply(model(), policy)
        apply(model(), os.fsencode(self.written(policy_of(model(), ["layers.0"]))))

    def test_a_policy_is_a_regular_file(self):
        net = model()
        pipe, large = (os.path.join(self.folder.name, name) for name in ("pipe", "large"))
        os.mkfifo(pipe)
        with open(large, "wb") as file:
            file.truncate(1 << 40)
        for path, sentence in ((pipe, "expected a regular file, but found a pipe"), ("/dev/zero", "found a device"),
                               (self.folder.name, "found a folder"), (large, "more than 128 MiB is too much"),
                               ("/proc/self/mem", "cannot be read")):
            with self.assertRaises(PolicyError) as caught:
                apply(net, path)
            self.assertIn(sentence, str(caught.exception))

    def test_a_saved_result_that_is_changed_in_place(self):
        class Changes(nn.Module):
            """The result of its second mul is changed by its next op, that of its first addmm by the caller."""

            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

            def forward(self, x):
                first = self.first(x)
                return first, self.second(first.mul(2).mul(3).relu_())

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.last = Changes(), nn.Linear(8, 8)

            def forward(self, x):
                first, second = self.inner(x)
                return self.last(second + first.relu_())

        x = torch.randn(4, 8)

        def document(op, index):
            ops, seen = [], Counter()
            for name in ops_of(Changes(), x.clone().requires_grad_()):
                ops.append({"op": name, "index": seen[name], "save": (name, seen[name]) == (op, index)})
                seen[name] += 1
            return {"headroom_policy": 1, "model": "net.py",
                    "modules": [{"fqn": "Outer.inner", "ops": ops}]}

        for op, index, sentence in (("aten.mul.Tensor", 1, "saves the result of aten.mul.Tensor, but a later op of "),
                                    ("aten.addmm.default", 0, "but the program, after the module's forward, changes")):
            with self.subTest(op):
                net = Outer()
                apply(net, self.written(document(op, index)))
                with self.assertRaises(PolicyError) as caught:
                    net(x).sum().backward()
                self.assertIn(sentence, str(caught.exception))
                net(x).sum().backward()  # the policy was removed
        net = Outer()
        apply(net, self.written(document("aten.mul.Tensor", 0)))
        net(x).sum().backward()

    def first_step_refused(self, net, document, sentence):
        """By the optimizer, before it changes anything."""
        apply(net, self.written(document))
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        before = [p.detach().clone() for p in net.parameters()]
        step(net)
        with self.assertRaises(PolicyError) as caught:
            optimizer.step()
        self.check_refusal(caught.exception, net, sentence)
        for should, got in zip(before, net.parameters()):
            self.assertTrue(torch.equal(should, got))

    def check_refusal(self, error, net, sentence):
        self.assertSentence(error, f"{sentence}; record the step again with the same batch layout, dtype, autocast and "
                                   "device as now; if only the first steps differ, as while a cache is empty, "
                                   "apply the policy after these steps; the policy was removed from the model")
        self.assertFalse([name for name, module in net.named_modules() if "forward" in module.__dict__])
        self.assertEqual(step(net)[1], step(model())[1], "training goes on without the policy")

    def test_an_op_that_never_runs(self):
        net = model()
        document = policy_of(net, ["layers.0", "layers.1"])
        document["modules"][1]["ops"].append({"op": "aten.native_group_norm.default", "index": 0, "save": False})
        self.first_step_refused(net, document, "module Net.layers.1: aten.native_group_norm.default never ran in "
                                               "the forward, 1 times in the recorded step")

    def test_an_op_that_runs_another_number_of_times(self):
        net = model()
        document = policy_of(net, ["layers.0"], saves_products)
        document["modules"][0]["ops"].append({"op": "aten.addmm.default", "index": 4, "save": True})
        self.first_step_refused(net, document, "module Net.layers.0: aten.addmm.default ran 4 times in the forward, "
                                               "5 times in the recorded step")

    def test_other_dtypes_run_other_ops(self):
        net = model()
        with torch.autocast("cpu", torch.bfloat16):
            document = policy_of(net, ["layers.0"], saves_products)
        casts = sum(op["op"] == "aten._to_copy.default" for op in document["modules"][0]["ops"])
        self.first_step_refused(net, document, "module Net.layers.0: aten._to_copy.default never ran in the "
                                               f"forward, {casts} times in the recorded step")
        apply(net, self.written(document))  # after the step that differs
        with torch.autocast("cpu", torch.bfloat16):
            expected, got = step(model())[0], step(net)[0]
        self.assertTrue(all(map(torch.equal, expected, got)))
        torch.optim.SGD(net.parameters(), lr=1.0).step()
        self.assertIn("forward", net.layers[0].__dict__)

    def test_without_an_optimizer_of_torch_the_second_step_is_refused(self):
        net = model()
        document = policy_of(net, ["layers.0"], saves_products)
        document["modules"][0]["ops"].append({"op": "aten.addmm.default", "index": 4, "save": True})
        apply(net, self.written(document))
        for _ in range(3):
            net(batch())  # nothing says that this was a step
        step(net)
        with self.assertRaises(PolicyError) as caught:
            step(net)
        self.check_refusal(caught.exception, net, "module Net.layers.0: aten.addmm.default ran 4 times in the "
                                                  "forward, 5 times in the recorded step")

    def test_forwards_before_the_loop_may_run_other_ops(self):
        for with_backward in False, True:
            net = model()
            apply(net, self.written(policy_of(net, ["layers.0", "layers.2"], saves_products)))
            other = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
            optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
            with torch.autocast("cpu", torch.bfloat16):
                loss = net(batch()).sum()
            other.step()
            if with_backward:
                loss.backward()
            for expected, got in zip(step(model())[0], step(net)[0]):
                self.assertTrue(torch.equal(expected, got))
            optimizer.step()
            self.assertIn("forward", net.layers[0].__dict__)
            optimizer.step(lambda: step(net)[0][0].sum())

    def test_a_closure_runs_its_forwards_after_the_optimizers_step_began(self):
        net = model()
        apply(net, self.written(policy_of(net, ["layers.0"], saves_products)))
        with torch.autocast("cpu", torch.bfloat16):
            net(batch())
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        for _ in range(2):
            optimizer.step(lambda: step(net)[0][0].sum())
        self.assertIn("forward", net.layers[0].__dict__)

    def test_ops_inside_of_tensor_subclasses(self):
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(32))

            def forward(self, x):
                return Unwrap.apply(Wrap.apply(x * self.weight).exp()).sin()

        net = nn.Sequential(Layer(), Layer())
        ran = [(f"aten.{op}", 0) for op in ("mul.Tensor", "add.Tensor", "exp.default", "sin.default")]  # also inside
        document = policy_of(model(), [])
        expected = step(net)[0]
        for saved in False, True:
            document["modules"] = [{"fqn": "Sequential.0", "ops": [
                {"op": op, "index": index, "save": saved and op == "aten.mul.Tensor"} for op, index in ran]}]
            apply(net, self.written(document))
            if not saved:
                for _ in range(2):
                    self.assertTrue(torch.equal(step(net)[0][0], expected[0]))
                remove(net)
                continue
            with self.assertRaisesRegex(PolicyError, "Sequential.0: the module's ops run inside of tensors of class "
                                                     "Doubled, where single results cannot be kept for backward; "
                                                     "plan with --pin Sequential.0=recompute"):
                step(net)

    def test_a_second_call_under_the_same_autocast(self):
        """It finds the weights' casts in autocast's cache; its recomputation does not."""

        def gradients(net):
            torch.manual_seed(7)
            with torch.autocast("cpu", torch.bfloat16):
                loss = net(batch()).float().square().mean() + net(batch() * 2).float().square().mean()
            loss.backward()
            return [parameter.grad for parameter in net.parameters()]

        net = model()
        with torch.autocast("cpu", torch.bfloat16):
            document = policy_of(net, ["layers.0"], lambda name, index: name == "aten._to_copy.default" and index == 1)
        self.assertTrue(any(op["save"] for op in document["modules"][0]["ops"]))
        for expected, got in zip(gradients(model()), gradients(apply(net, self.written(document)))):
            self.assertTrue(torch.equal(expected, got))

    def test_models_that_cannot_be_checkpointed(self):
        document = policy_of(model(), ["layers.0"])
        net = model()
        apply(net, self.written(document))
        with self.assertRaisesRegex(PolicyError, "layers.0 has a policy already"):
            apply(net, self.written(document))
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
        net = model()
        net.layers[0].mlp = checkpoint_wrapper(net.layers[0].mlp)
        self.refused(net, document, "checkpoint_wrapper")
        net = model()
        net.layers[0] = checkpoint_wrapper(net.layers[0])
        inner = policy_of(model(), ["layers.0.mlp"])
        inner["modules"][0]["fqn"] = "Net.layers.0._checkpoint_wrapped_module.mlp"
        self.refused(net, inner, "module layers.0 is checkpointed by checkpoint_wrapper")
        net = model()
        net.layers[2] = checkpoint_wrapper(net.layers[2])
        apply(net, self.written(document))
        self.refused(nn.DataParallel(model()), document, "DataParallel is not supported")
        with self.assertRaisesRegex(PolicyError, "expected a torch.nn.Module, not list"):
            apply([], self.written(document))
        net = model()
        net.layers[0].mlp = torch.jit.script(net.layers[0].mlp)
        self.refused(net, document, "module Net.layers.0 contains the scripted module mlp, and PyTorch cannot end "
                                    "the recomputation of a scripted module: leave torch.jit out for this module, "
                                    "or plan with --pin Net.layers.0=save")
        self.refused(net, policy_of(model(), ["layers.0.mlp"]), "module Net.layers.0.mlp is scripted")
        apply(net, self.written(policy_of(model(), ["layers.1"])))

    def test_modules_outside_of_the_policys_keep_their_own_checkpoints(self):
        class GradientCheckpointingLayer(nn.Module):  # as transformers names it
            gradient_checkpointing = False

        class Layer(Block, GradientCheckpointingLayer):
            pass

        document = policy_of(model(), ["layers.0"])

        def net(*flagged):
            made = model()
            for layer in made.layers:
                layer.__class__ = Layer
            for name in flagged:
                made.get_submodule(name).gradient_checkpointing = True
            return made

        document["modules"][0]["types"] = ["Net", "ModuleList", "Block"]
        for flagged in (("layers.1",), ("", "layers.1"), ("head",), ("layers.0.mlp",), ("",)):
            made = net(*flagged)
            self.assertIs(apply(made, self.written(document)), made)
            self.assertIn("forward", made.layers[0].__dict__)
        self.refused(net("", "layers.0"), document, "module layers.0 checkpoints itself already")

    def test_checkpoints_around_and_inside_of_the_policys_modules(self):
        """A flag says nothing of what a module of diffusers checkpoints: what runs decides."""

        class Flagged(Block):
            gradient_checkpointing = True  # as a block of diffusers: it may checkpoint parts only
            part, reentrant = "attention", False

            def forward(self, x, scale=None):
                if self.part == "attention":
                    x = x + checkpoint(self.attention, self.norm(x), use_reentrant=self.reentrant)
                    return x + self.mlp(x)
                x = x + self.attention(self.norm(x))
                return x + (checkpoint(self.mlp, x, use_reentrant=self.reentrant) if self.part == "mlp" else self.mlp(x))

        def net(part, reentrant):
            made = model(dropout=0)
            for layer in made.layers:
                layer.__class__, layer.part, layer.reentrant = Flagged, part, reentrant
            return made

        document = policy_of(model(), ["layers.0.mlp", "layers.2.mlp"])
        document["modules"][0]["types"] = document["modules"][1]["types"] = ["Net", "ModuleList", "Block", "Sequential"]
        for reentrant in (False, True):
            for part in ("attention", "nothing"):
                expected, _ = step(net(part, reentrant))
                applied = apply(net(part, reentrant), self.written(document))
                for _ in range(2):
                    gradients, ran = step(applied)
                    self.assertEqual(ran["aten.gelu.default"], 5, "three layers, two of them again")
                    for one, other in zip(gradients, expected):
                        self.assertTrue(torch.equal(one, other))
            for entry, part, sentence in (("mlp", "mlp", "the module runs inside of a checkpoint of the program"),
                                          ("", "mlp", "the module checkpoints a part of the forward"),
                                          ("", "attention", "the module checkpoints a part of the forward")):
                name = f"layers.0.{entry}".rstrip(".")
                applied = apply(net(part, reentrant), self.written(policy_of(model(dropout=0), [name])))
                with self.assertRaisesRegex(PolicyError, f"module Net.{name}: {sentence}, unlike in the recorded step"):
                    step(applied)
                self.assertNotIn("forward", applied.layers[0].__dict__)


class Wrapped(ApplyTest):
    """Models that training has wrapped."""

    def alone(self):
        """A process group of this process only."""
        import torch.distributed as dist
        if not dist.is_available():
            self.skipTest("this torch has no torch.distributed")
        dist.init_process_group("gloo", init_method=f"file://{self.folder.name}/store", rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)

    def check(self, wrap, apply_first):
        plain, _ = step(model())
        net = model()
        document = self.written(policy_of(net, ["layers.0", "layers.2"], saves_products))
        if apply_first:
            apply(net, document)
        net = wrap(net)
        if not apply_first:
            apply(net, document)
        for again in range(2):
            gradients, ran = step(net)
            for expected, got in zip(plain, gradients):
                got = got.full_tensor() if hasattr(got, "full_tensor") else got
                self.assertTrue(torch.allclose(expected, got, rtol=0, atol=1e-6))
        return ran

    def test_distributed_data_parallel(self):
        self.alone()
        for first in (False, True):
            ran = self.check(nn.parallel.DistributedDataParallel, first)
            self.assertEqual(ran["aten.gelu.default"], 5, "three layers, two of them again")

    def test_fully_shard(self):
        self.alone()
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (1,))

        def shard(net):
            for layer in net.layers:
                fully_shard(layer, mesh=mesh)
            return fully_shard(net, mesh=mesh)

        for first in (False, True):
            ran = self.check(shard, first)
            self.assertEqual(ran["aten.gelu.default"], 5, "three layers, two of them again")

    def test_two_processes(self):
        """DistributedDataParallel and fully_shard over two processes: the gradients of both batches, by both."""
        import torch.distributed as dist
        if not dist.is_available():
            self.skipTest("this torch has no torch.distributed")
        document = self.written(policy_of(model(dropout=0), ["layers.0", "layers.2"], saves_products))
        torch.multiprocessing.spawn(_one_of_two, (document, f"file://{self.folder.name}/store"), nprocs=2)

    def compiled_step(self, net):
        """Gradients of a step of a compiled model, and its graphs."""
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch.partitioners import min_cut_rematerialization_partition
        graphs = []

        def keep(graph, example):
            graphs.append(Counter(str(node.target) for node in graph.graph.nodes if node.op == "call_function"))
            return make_boxed_func(graph.forward)

        torch._dynamo.reset()
        compiled = torch.compile(net, backend=aot_autograd(
            fw_compiler=keep, bw_compiler=keep, partition_fn=min_cut_rematerialization_partition), fullgraph=True)
        net.zero_grad()
        compiled(batch()).square().sum().backward()
        return compiled, [p.grad.clone() for p in net.parameters()], graphs

    def test_torch_compile(self):
        # Without dropout: compiling takes its CPU kernel apart in another way than running does.
        _, plain, (_, backward) = self.compiled_step(model(dropout=0))
        self.assertEqual(backward["aten.gelu.default"], 0)
        for saved, least, most in ((lambda name, index: False, 9, 12), (saves_products, 0, 0)):
            net = model(dropout=0)
            apply(net, self.written(policy_of(net, ["layers.0", "layers.1", "layers.2"], saved)))
            _, gradients, (_, backward) = self.compiled_step(net)
            self.assertEqual(backward["aten.gelu.default"], 3, "recomputed in the compiled backward")
            self.assertIn(backward["aten.addmm.default"], range(least, most + 1))
            for expected, got in zip(plain, gradients):
                self.assertTrue(torch.allclose(expected, got, rtol=0, atol=1e-6))

    def test_a_model_that_is_compiled_already(self):
        net = model(dropout=0)
        compiled, plain, _ = self.compiled_step(net)
        apply(compiled, self.written(policy_of(net, ["layers.1"])))
        net.zero_grad()
        compiled(batch()).square().sum().backward()
        for expected, got in zip(plain, (p.grad for p in net.parameters())):
            self.assertTrue(torch.allclose(expected, got, rtol=0, atol=1e-6))
        self.assertIs(remove(compiled), compiled)
        self.assertNotIn("forward", net.layers[1].__dict__)


def _one_of_two(rank, document, store):
    """What each of two processes does in test_two_processes."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))

    def shard(net):
        for layer in net.layers:
            fully_shard(layer, mesh=mesh)
        return fully_shard(net, mesh=mesh)

    batches = [batch(), batch() + 1]
    plain = [sum(gradients) / 2 for gradients in zip(*(step(model(dropout=0), x)[0] for x in batches))]
    for wrap in nn.parallel.DistributedDataParallel, shard:
        net = wrap(apply(model(dropout=0), document))
        for _ in range(2):
            gradients, ran = step(net, batches[rank])
            if ran["aten.gelu.default"] != 5:
                raise AssertionError(f"three layers, two of them again: {ran}")
            for expected, got in zip(plain, gradients):
                got = got.full_tensor() if hasattr(got, "full_tensor") else got
                torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
    # Threads of gloo end with the last that holds their group: later, when Python has ended, they would end the process.
    del net, gradients, got
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    unittest.main()
