# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Offload in torch_headroom.apply(): which tensors move, when the device has them, and that no gradient changes.

Values are compared on the CPU, with streams that copy as late as the events allow. Bytes are compared on the simulated
GPU, which has no values."""

import copy
import gc
import json
import os
import pickle
import random
import tempfile
import unittest
import unittest.mock
import warnings
import weakref

import support

torch = support.simulated("h100-80gb")

import applied_models  # noqa: E402
from torch import nn  # noqa: E402
from torch.multiprocessing.reductions import StorageWeakRef  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_headroom import PolicyError, apply, remove  # noqa: E402
from torch_headroom._apply import offload, pinned  # noqa: E402
from torch_headroom._apply.recompute import region_of  # noqa: E402
from torch_headroom._modules import without_compilation  # noqa: E402
from late_copies import Compute, Late  # noqa: E402

torch.set_num_threads(1)
WIDTH, ROWS = 32, 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH)
        self.down, self.dropout = nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1)

    def forward(self, x):
        return x + self.dropout(self.down(F.gelu(self.up(self.norm(x)))))


def model(layers=4, make=Block):
    torch.manual_seed(1)
    return nn.Sequential(*[make() for _ in range(layers)], nn.Linear(WIDTH, 5))


def batch(seed=3):
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(seed))


class Saved:
    """What autograd saves in a module's forward: pairs of a tensor and what the tensor is that cannot move, or None."""

    def __init__(self, module, *args):
        self.tensors = []
        pack = torch.compiler.disable(self._pack)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), torch.random.fork_rng():
            module(*args)

    def _pack(self, tensor):
        what = "a view of a Parameter" if isinstance(tensor._base, nn.Parameter) else None
        self.tensors.append((tensor.detach(), what if type(tensor) is torch.Tensor else f"a {type(tensor).__name__}"))
        return tensor.detach()

    def moving(self):
        return [place for place, (_, what) in enumerate(self.tensors) if what is None]

    def nbytes(self):
        """Bytes of the storages that move."""
        return sum({tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes()
                    for tensor, what in self.tensors if what is None}.values())


def entry(net, name, tensors=None, wait=0, ahead=0, x=None, saved=None, **more):
    """The policy of a module, as the planner writes it; all tensors that can move, move. `more`: prefetch,
    after_unpacks."""
    found = Saved(net.get_submodule(name), (batch() if x is None else x).requires_grad_())
    return {"fqn": f"{type(net).__name__}.{name}", "discard_ratio": 0, "ops": [],
            "offload": {"tensors": found.moving() if tensors is None else tensors, "wait": wait, "ahead": ahead,
                        "saved": len(found.tensors) if saved is None else saved, **more}}


def backward(result):
    result.square().sum().backward()


def gradients(net, step=lambda net: backward(net(batch()))):
    """Gradients of one step, with dropout."""
    torch.manual_seed(7)
    net.zero_grad()
    step(net)
    return [parameter.grad.clone() for parameter in net.parameters()]


class OffloadTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def written(self, *entries):
        path = os.path.join(self.folder.name, "policy.json")
        with open(path, "w") as file:
            json.dump({"headroom_policy": 1, "model": "net.py", "modules": entries}, file)
        return path

    def assertSentence(self, error, sentence):
        """The error says exactly this of policy.json."""
        self.assertEqual(str(error), os.path.join(self.folder.name, "policy.json") + ": " + sentence)

    def assertEqualToTheBit(self, expected, got):
        self.assertEqual(len(expected), len(got))
        for one, other in zip(expected, got):
            self.assertTrue(torch.equal(one, other))


class OnTheCpu(OffloadTest):
    def setUp(self):
        super().setUp()
        Late.copied, Late.made, Late.compute = [], [], Compute()
        patch = unittest.mock.patch.object(pinned, "Cuda", Late)
        patch.start()
        self.addCleanup(patch.stop)
        # New memory is NaN, so that a copy that comes too late changes the gradients.
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)

    def applied(self, net, *names, x=None, **how):
        return apply(net, self.written(*(entry(net, name, x=x, **how) for name in names)))

    def check(self, make, names, step=lambda net: backward(net(batch())), x=None, **how):
        """Compares the gradients of three steps with plain training. Returns the model."""
        plain = gradients(make(), step)
        net = self.applied(make(), *names, x=x, **how)
        for _ in range(3):
            self.assertEqualToTheBit(plain, gradients(net, step))
        self.assertTrue(Late.copied)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        optimizer.step()  # the end of the first step
        self.assertEqualToTheBit(plain, gradients(net, step))
        self.assertIsNotNone(region_of(without_compilation(net.get_submodule(names[0]))))
        return net


class Values(OnTheCpu):
    def test_gradients_are_equal_to_the_bit_with_dropout(self):
        for names in (["0"], ["1", "2"], ["0", "1", "2", "3"]):
            for wait in (0, 1, 5):
                for ahead in (0, 1, 5):
                    with self.subTest(names=names, wait=wait, ahead=ahead):
                        self.check(model, names, wait=wait, ahead=ahead)

    def test_the_first_storages_come_early_and_the_others_late(self):
        for prefetch in range(5):
            for ahead in (0, 1, 3):
                with self.subTest(prefetch=prefetch, ahead=ahead):
                    self.check(model, ["0", "1", "2", "3"], ahead=ahead, prefetch=prefetch)

    def test_storages_come_in_the_middle_of_a_later_backward(self):
        for after in range(6):
            for ahead in (0, 1, 3):
                with self.subTest(after=after, ahead=ahead):
                    self.check(model, ["0", "1", "2", "3"], ahead=ahead, after_unpacks=after)

    def test_autocast(self):
        def inside(net):
            with torch.autocast("cpu", torch.bfloat16):
                backward(net(batch()))

        def outside(net):
            with torch.autocast("cpu", torch.bfloat16):
                loss = net(batch()).square().sum()
            loss.backward()

        for step in (inside, outside):
            with torch.autocast("cpu", torch.bfloat16):
                policy = self.written(entry(model(), "1", ahead=1), entry(model(), "2"))
            plain, net = gradients(model(), step), apply(model(), policy)
            for _ in range(3):
                self.assertEqualToTheBit(plain, gradients(net, step))

    def test_compiled_modules_and_compiled_functions_inside(self):
        """Autograd calls the hooks inside of compiled calls. Dynamo does not trace the hooks, and Inductor's backward
        writes into the memory of what the graph has saved."""
        class Inside(Block):
            def __init__(self):
                super().__init__()
                self.up.compile(backend=backend)
                self.act = torch.compile(lambda x: F.gelu(x) * x.sin(), backend=backend)

            def forward(self, x):
                y = self.up(self.norm(x))
                return x + self.dropout(self.down(self.act(y) * y))

        def compiled():
            net = model(layers=6)
            for block in net[:-1]:
                block.compile(backend=backend)
            return net

        def wrapped():
            net = model(layers=6)
            return nn.Sequential(*(torch.compile(block, backend=backend) for block in net[:-1]), net[-1])

        for backend in ("eager", "aot_eager", "inductor"):
            for make in (compiled, wrapped, lambda: model(6, Inside)):
                for wait in (0, 1):
                    with self.subTest(backend=backend, make=make, wait=wait):
                        torch._dynamo.reset()
                        with self.assertNoLogs("torch._dynamo", "WARNING"):
                            net = self.check(make, [*"12345"], wait=wait, ahead=wait)
                        planned = without_compilation(net[1])
                        cards = region_of(planned).offloads.cards
                        self.assertTrue(cards)
                        self.assertTrue(all(map(torch.all, map(torch.isfinite, gradients(copy.deepcopy(net))))))
                        remove(net)
                        self.assertEqual((cards, region_of(planned)), ({}, None))

    def test_accumulation_and_several_forwards_before_a_backward(self):
        def accumulated(net):
            for seed in range(3):
                backward(net(batch(seed)))

        def together(net):
            sum(net(batch(seed)).square().sum() for seed in range(3)).backward()

        def crossed(net):
            losses = [net(batch(seed)).square().sum() for seed in range(2)]
            losses[0].backward()
            losses.append(net(batch(2)).square().sum())
            for loss in losses[1:]:
                loss.backward()

        for step in (accumulated, together, crossed):
            for wait, ahead in ((0, 0), (1, 2), (6, 1), (0, 9)):
                self.check(model, ["0", "1", "2", "3"], step, wait=wait, ahead=ahead)

    def test_retained_graphs(self):
        def twice(net):
            loss = net(batch()).square().sum()
            loss.backward(retain_graph=True)
            loss.backward()

        def of_gradients(net):
            x = batch().requires_grad_()
            first, = torch.autograd.grad(net(x).square().sum(), x, create_graph=True)
            first.square().sum().backward()

        for step in (twice, of_gradients):
            for wait in (0, 1):
                self.check(model, ["1", "2"], step, wait=wait, ahead=1)

    def test_views_of_a_storage_move_once(self):
        class Views(nn.Module):
            def __init__(self):
                super().__init__()
                self.wide = nn.Linear(WIDTH, 3 * WIDTH)

            def forward(self, x):
                first, second, third = self.wide(x).chunk(3, -1)
                return first * second.t().sin().t() + third.exp()[:, ::2].repeat(1, 2)

        x = torch.randn(ROWS, WIDTH).requires_grad_()
        net = self.check(lambda: model(2, Views), ["1"], x=x)
        saved = Saved(model(2, Views)[1], x)
        self.assertGreater(len(saved.moving()), 4)
        del Late.copied[:]
        gradients(net)
        self.assertEqual(sum(Late.copied), 2 * saved.nbytes())

    def test_a_storage_of_two_modules(self):
        """The second module saves what the first has saved, and copies the storage again if it has left the device."""

        class Wave(nn.Module):
            def forward(self, x):
                return x.sin(), x

        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(1)
                self.inner, self.first, self.second = nn.Linear(WIDTH, WIDTH), Wave(), Wave()

            def forward(self, x):
                first, x = self.first(self.inner(x))
                second, x = self.second(x)
                return first.exp() + second

        for wait, copies in ((0, 4), (1, 1)):
            net = self.check(Two, ["first", "second"], wait=wait)
            del Late.copied[:]
            gradients(net)
            self.assertEqual(Late.copied, [batch().nbytes] * copies)
        plain, net = gradients(Two()), Two()
        apply(net, self.written(entry(net, "first", wait=1), entry(net, "second")))
        for _ in range(2):
            del Late.copied[:]
            self.assertEqualToTheBit(plain, gradients(net))
            self.assertEqual(Late.copied, [batch().nbytes] * 2)

    def test_storages_come_back_in_the_reverse_order_of_the_first_saves(self):
        class Sizes(nn.Module):
            def forward(self, x):
                first, second = x[:2].sin().sin(), x[:4].sin()
                return first.sum() + second.sin().sum() + x[:8].sin().exp().exp().sum() + x.cos().sum()

        class Net(nn.Sequential):
            def forward(self, x):
                return self[1](self[0](x)) * torch.ones(3, requires_grad=True)

        def make():
            return Net(nn.Linear(WIDTH, WIDTH), Sizes())

        net = make()
        found = Saved(net[1], batch().requires_grad_())
        sizes = list(dict.fromkeys(tensor.untyped_storage().nbytes() for tensor, _ in found.tensors))
        places = [place for place, (tensor, _) in enumerate(found.tensors) if tensor.numel()]
        storages = [found.tensors[place][0].untyped_storage() for place in places]
        self.assertEqual(storages[0]._cdata, storages[-1]._cdata, "the first tensor is saved again, as the last")
        self.assertGreater(len(sizes), 3)
        net = self.applied(net, "1", tensors=places)
        gradients(net)
        moved = list(dict.fromkeys(storage._cdata for storage in storages))
        nbytes = [next(s.nbytes() for s in storages if s._cdata == key) for key in moved]
        self.assertEqual(Late.copied, nbytes + nbytes[::-1])

    def test_a_forward_between_two_parts_of_a_backward(self):
        """The forward takes host buffers that the first part has read, ahead of the second part."""

        class Net(nn.Sequential):
            def forward(self, x):
                self.middle = self[1](self[0](x))
                return self[4](self[3](self[2](self.middle)))

        def make():
            return Net(*model())

        def step(net):
            first = net(batch())
            middle = net.middle
            gradient, = torch.autograd.grad(first.square().sum(), middle)
            second = net(batch(4))
            middle.backward(gradient)
            backward(second)

        for wait in (0, 1):
            self.check(make, ["0", "1", "2", "3"], step, wait=wait, ahead=2)

    def test_transforms_of_functions(self):
        def step(net):
            def loss(parameters):
                return torch.func.functional_call(net, parameters, batch()).square().sum()

            for name, gradient in torch.func.grad(loss)(dict(net.named_parameters())).items():
                net.get_parameter(name).grad = gradient

        def tangents(net):
            net.eval()
            with torch.autograd.forward_ad.dual_level():
                result = net(torch.autograd.forward_ad.make_dual(batch(), torch.ones_like(batch())))
                return [torch.autograd.forward_ad.unpack_dual(result).tangent.detach()]

        plain, net = gradients(model(), step), self.applied(model(), "0")
        self.assertEqualToTheBit(plain, gradients(net, step))
        self.assertEqualToTheBit(tangents(model()), tangents(net))
        self.assertFalse(Late.copied)

    def test_storages_on_the_device_stay_there(self):
        net = self.check(model, ["0", "1", "2"], wait=2)
        del Late.copied[:]
        gradients(net)
        moved = Saved(model()[0], batch().requires_grad_()).nbytes()
        self.assertEqual(sum(Late.copied), 3 * moved + moved, "three go to the host, one comes back")

    def test_own_checkpoints_inside(self):
        for reentrant in (False, True):
            class Checkpointing(Block):
                def forward(self, x):
                    return x + checkpoint(super().forward, x.sin(), use_reentrant=reentrant)

            with self.subTest(reentrant=reentrant):
                self.check(lambda: model(3, Checkpointing), ["1", "2"],
                           lambda net: backward(net(batch().requires_grad_())))

    def test_own_checkpoints_around(self):
        class Around(nn.Module):
            reentrant = False

            def __init__(self):
                super().__init__()
                self.inner = Block()

            def forward(self, x):
                return checkpoint(self.inner, x, use_reentrant=self.reentrant)

        for reentrant in (False, True):
            net = model(1, Around)
            net[0].reentrant = reentrant
            self.applied(net, "0.inner")
            with self.assertRaises(PolicyError) as caught:
                gradients(net, lambda net: backward(net(batch().requires_grad_())))
            self.assertIn("module Sequential.0.inner: the module runs inside of a checkpoint of the program",
                          str(caught.exception))
            self.assertNotIn("forward", net[0].inner.__dict__)

    def test_fully_shard_and_distributed_data_parallel(self):
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        dist.init_process_group("gloo", init_method=f"file://{self.folder.name}/store", rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        torch.use_deterministic_algorithms(False)  # it fills memory that gloo has received
        mesh = init_device_mesh("cpu", (1,))

        def shard(net):
            for layer in net[:3]:
                fully_shard(layer, mesh=mesh)
            return fully_shard(net, mesh=mesh)

        plain = gradients(model())
        for wrap in (shard, nn.parallel.DistributedDataParallel):
            for first in (False, True):
                net = model()
                policy = self.written(entry(net, "0", ahead=1), entry(net, "1"))
                net = wrap(apply(net, policy)) if first else apply(wrap(net), policy)
                for _ in range(3):
                    got = [g.full_tensor() if hasattr(g, "full_tensor") else g for g in gradients(net)]
                    self.assertEqualToTheBit(plain, got)
                torch.optim.SGD(net.parameters(), lr=0.0).step()
        del net, got
        gc.collect()

    def test_nothing_happens_without_gradients(self):
        net = self.applied(model().eval(), "0", "1")
        with torch.no_grad():
            result = net(batch())
        self.assertTrue(torch.equal(result, model().eval()(batch())))
        with torch.inference_mode():
            net(batch())
        self.assertEqual((Late.copied, Late.made), ([], []))

    def test_copies_move_tensors_and_pickles_do_not(self):
        net = self.applied(model(), "0", "1")
        plain = gradients(model())
        gradients(net)
        other = copy.deepcopy(net)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.zero_()
        del Late.copied[:]
        self.assertEqualToTheBit(plain, gradients(other))
        self.assertTrue(Late.copied)
        del Late.copied[:]
        self.assertEqualToTheBit(plain, gradients(pickle.loads(pickle.dumps(other))))
        self.assertFalse(Late.copied)

    def test_what_is_changed_in_place(self):
        class Changed(nn.Module):
            """The program changes the saved results of exp() and cos()."""

            def forward(self, x):
                self.first, self.second = x.exp(), x.cos()
                return self.first.sin() + self.second.sin()

        def make():
            torch.manual_seed(1)
            return nn.Sequential(nn.Linear(WIDTH, WIDTH), Changed())

        expected = gradients(make())
        net = make()
        found = Saved(net[1], batch().requires_grad_())
        first = [place for place, (saved, _) in enumerate(found.tensors) if torch.equal(saved, net[1].first)]
        net = self.applied(net, "1", tensors=first, wait=1)
        other = self.applied(make(), "1", tensors=first)
        for changed, model_, sentence in (("second", net, True), ("first", net, True), ("first", other, False)):
            def step(model_, changed=changed):
                result = model_(batch())
                getattr(model_[1], changed).detach().add_(1)
                backward(result)

            if sentence:
                with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                    gradients(model_, step)
            else:  # the host has the saved value
                self.assertEqualToTheBit(expected, gradients(model_, step))

        class Changes(nn.Module):
            """Changes what it has saved, before the copy to the host has ended."""

            def forward(self, x):
                x = x.exp()
                result = x.sin()
                x.detach().add_(1)
                return result

        net = nn.Sequential(nn.Linear(WIDTH, WIDTH), Changes())
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            gradients(net)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            gradients(self.applied(net, "1"))


class Models(OnTheCpu):
    """All that can move, of all layers of the models of applied_models.py."""

    def test_gradients_are_equal_to_the_bit(self):
        for name, case in applied_models.CASES.items():
            if not case.cpu:
                continue
            with self.subTest(model=name):
                support.skip_without(case.package)
                torch.manual_seed(0)
                model, batch, loss_of = case.make(False)
                trained = copy.deepcopy(model)
                expected = self.step(case, model, batch, loss_of)
                apply(trained, self.written(*self.entries(case, model, batch, loss_of)))
                del Late.copied[:]
                for _ in range(2):
                    self.assertEqualToTheBit(expected, self.step(case, trained, batch, loss_of))
                self.assertTrue(Late.copied)
                torch.optim.SGD(trained.parameters(), lr=0.0).step()
                remove(trained)

    def step(self, case, model, batch, loss_of):
        torch.manual_seed(5)
        model.zero_grad()
        for _ in range(case.parts):
            with case.context("cpu"):
                loss = loss_of(model, batch)
            loss.backward()
        return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]

    def entries(self, case, model, batch, loss_of):
        """Entries for the outermost members of lists of modules."""
        found = {}
        names = {}
        for name, module in model.named_modules():
            for key, part in module.named_children() if isinstance(module, (nn.ModuleList, nn.Sequential)) else ():
                path = f"{name}.{key}".lstrip(".")
                if (not isinstance(part, (nn.ModuleList, nn.Sequential))
                        and not any(path.startswith(f"{other}.") for other in names.values())):
                    names[part] = path

        def run(module, args, kwargs, forward):
            saved = []

            def pack(tensor):
                saved.append(offload._obstacle(tensor) is None)
                return tensor.detach()

            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                result = forward(*args, **kwargs)
            found.setdefault(names[module], saved)
            return result

        for module in names:
            module.forward = lambda *args, _module=module, _forward=module.forward, **kwargs: run(
                _module, args, kwargs, _forward)
        self.step(case, model, batch, loss_of)
        offloads = {name: {"tensors": [place for place, moves in enumerate(saved) if moves], "saved": len(saved),
                           "wait": 1, "ahead": 2} for name, saved in found.items()}
        return [{"fqn": f"{type(model).__name__}.{name}", "ops": [], "offload": each} for name, each in offloads.items()]


class Lifetimes(OnTheCpu):
    def offloads(self, net):
        return net[0].forward.region.offloads

    def assertNothingHeld(self, net):
        gc.collect()
        offloads = self.offloads(net)
        self.assertEqual((offloads.on_device, offloads._calls), ({}, {}))
        card, = offloads.cards.values()
        self.assertEqual(sum(map(len, card._free.values())), len(Late.made), "all host buffers can be used again")

    def test_host_buffers_are_used_again(self):
        net = self.applied(model(), "0", "1", wait=1)
        for _ in range(3):
            gradients(net)
            self.assertNothingHeld(net)
            made = getattr(self, "made", len(Late.made))
            self.assertEqual(made, len(Late.made))
            self.made = made
        card = weakref.ref(next(iter(self.offloads(net).cards.values())))
        remove(net)
        self.assertIsNone(card())

    def test_batches_of_many_sizes_share_the_host_memory(self):
        net = self.applied(model(), "0", "1")
        del Late.made[:]
        for rows in range(8, 40):
            backward(net(torch.randn(rows, *batch().shape[1:])))
        pool = next(iter(self.offloads(net).cards.values()))
        kept = sum(size * len(buffers) for size, buffers in pool._free.items())
        del Late.made[:]
        self.offloads(net).cards.clear()
        backward(net(torch.randn(39, *batch().shape[1:])))
        self.assertLess(kept, 2 * sum(Late.made))

    def test_a_block_that_comes_back_for_another_stream(self):
        other, used = Compute(), []
        with unittest.mock.patch.object(Late, "used_by", lambda storage, stream: used.append(stream), create=True):
            net = self.applied(model(), "0", "1", ahead=1)
            x = batch().requires_grad_()
            middle = net[0](x)

            def change(gradient):
                patches = {"current_id": staticmethod(lambda index: 1), "current_stream": staticmethod(lambda device: other)}
                for name, value in patches.items():
                    patch = unittest.mock.patch.object(Late, name, value)
                    patch.start()
                    self.addCleanup(patch.stop)
                return gradient

            middle.register_hook(change)  # the backward of the first module, which came back before, runs there
            backward(net[1:](middle))
        self.assertTrue(used)
        self.assertEqual(set(used), {other})

    def test_memory_goes_with_the_last_handle(self):
        """A graph that dies without a backward, after a part of backward, and after an exception in backward."""
        saved = []

        class Failing(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return x.clone()

            @staticmethod
            def backward(context, gradient):
                raise KeyError("in backward")

        class Net(nn.Sequential):
            fails = False

            def forward(self, x):
                x = self[0](x)
                x = Failing.apply(x) if self.fails else x
                return self[2](self[1](x))

        class Exp(Block):
            def forward(self, x):
                result = super().forward(x).exp()
                saved.append(StorageWeakRef(result.untyped_storage()))
                return result

        def make(fails):
            torch.manual_seed(1)
            net = Net(Exp(), Exp(), nn.Linear(WIDTH, 5))
            net.fails = fails
            return net

        for wait in (0, 1):
            for ahead in (0, 1):
                del Late.made[:]
                net = self.applied(make(False), "0", "1", wait=wait, ahead=ahead)
                result = net(batch())
                buffers = len(Late.made)
                del result
                self.assertNothingHeld(net)
                result = net(batch())
                torch.autograd.grad(result.sum(), net[2].weight)  # the engine frees only what it ran
                del result
                self.assertNothingHeld(net)
                result = net(batch())
                torch.autograd.grad(result.sum(), net[1].norm.weight)
                del result
                self.assertNothingHeld(net)
                self.assertEqual(len(Late.made), buffers)
                net.fails = True
                with self.assertRaises(KeyError):
                    backward(net(batch()))
                self.assertNothingHeld(net)
                net.fails = False
                self.assertEqualToTheBit(gradients(make(False)), gradients(net))
                apply(remove(net), self.written(entry(net, "0", tensors=[]), entry(net, "1", tensors=[])))
                gradients(net)
                net(batch())
                remove(net)
        gc.collect()
        self.assertTrue(all(storage.expired() for storage in saved))

    def test_exceptions_in_forward(self):
        class Fails(Block):
            now = False

            def forward(self, x):
                result = super().forward(x)
                if self.now:
                    raise KeyError("in forward")
                return result.sin()

        for wait in (0, 2):
            del Late.made[:]
            net = self.applied(model(2, Fails), "0", "1", wait=wait)
            plain = gradients(model(2, Fails))
            self.assertEqualToTheBit(plain, gradients(net))
            buffers = len(Late.made)
            net[1].now = True
            for _ in range(2):
                with self.assertRaises(KeyError):
                    gradients(net)
                self.assertNothingHeld(net)
            net[1].now = False
            self.assertEqualToTheBit(plain, gradients(net))
            self.assertNothingHeld(net)
            self.assertEqual(len(Late.made), buffers)
            remove(net)  # models with a policy of one file share host buffers

    def test_removed_between_forward_and_backward(self):
        net, plain = self.applied(model(), "0", "1"), gradients(model())
        torch.manual_seed(7)
        result = net(batch())
        remove(net)
        self.assertNotIn("forward", net[0].__dict__)
        backward(result)
        self.assertEqualToTheBit(plain, [parameter.grad for parameter in net.parameters()])
        self.assertEqualToTheBit(plain, gradients(net))


class Refusals(OnTheCpu):
    def refused(self, policy, sentence, where="modules[0].offload"):
        with self.assertRaises(PolicyError) as caught:
            apply(model(), policy)
        self.assertSentence(caught.exception, f"{where}{sentence}")

    def test_fields(self):
        number = "expected a whole number, 0 or more"
        for key, value, sentence in (
                ("ahead", -1, f".ahead: {number}"), ("wait", 1.0, f".wait: {number}"),
                ("prefetch", -1, f".prefetch: {number}"), ("prefetch", "all", f".prefetch: {number}"),
                ("after_unpacks", -1, f".after_unpacks: {number}"), ("after_unpacks", 0.5, f".after_unpacks: {number}"),
                ("saved", True, f".saved: {number}"), ("saved", None, f".saved: {number}"),
                ("tensors", {}, ".tensors: expected a list"),
                ("tensors", [1, 0], ".tensors: expected ascending whole numbers from 0 to below 5"),
                ("tensors", [1, 1], ".tensors: expected ascending whole numbers from 0 to below 5"),
                ("tensors", [5], ".tensors: expected ascending whole numbers from 0 to below 5"),
                ("tensors", [-1], ".tensors: expected ascending whole numbers from 0 to below 5"),
                ("tensors", ["0"], ".tensors: expected ascending whole numbers from 0 to below 5")):
            with self.subTest(key=key, value=value):
                found = entry(model(), "0", saved=5, tensors=[1, 4])
                found["offload"][key] = value
                self.refused(self.written(found), sentence)
        found = entry(model(), "0")
        self.refused(self.written({**found, "offload": [1]}), ": expected an object")
        found["ops"] = [{"op": "aten.gelu.default", "index": 0, "save": True}]
        self.refused(self.written(found),
                     ": expected no op to save, not aten.gelu.default 0: the module is not checkpointed")

    def test_without_cuda(self):
        with unittest.mock.patch.object(Late, "is_available", lambda: False):
            self.refused(self.written(entry(model(), "0")), "module Sequential.0: tensors go to pinned host memory, and "
                                                            "that needs CUDA: train on a GPU, or plan without "
                                                            "--offload", where="")

    def test_without_pinned_memory(self):
        def fail(nbytes):
            raise RuntimeError("CUDA error: out of memory\nmore lines")

        net = self.applied(model(), "0")
        with unittest.mock.patch.object(Late, "pinned", fail), self.assertRaises(PolicyError) as caught:
            net(batch())
        self.assertSentence(caught.exception, "module Sequential.0: the host gives no 2,048 bytes of pinned memory "
                            "(CUDA error: out of memory): free host memory, or plan with a smaller --host-memory; the "
                            "policy was removed from the model")
        self.assertEqualToTheBit(gradients(model()), gradients(net))

    def first_step_refused(self, net, policy, sentence, step=lambda net: backward(net(batch()))):
        """By the optimizer, before the optimizer changes anything, or by the forward of the second step."""
        sentence = (f"{sentence}; record the step again with the same batch layout, dtype, autocast and device as "
                    "now; if only the first steps differ, as while a cache is empty, apply the policy after these steps; "
                    "the policy was removed from the model")
        before = [parameter.detach().clone() for parameter in net.parameters()]
        for ends in (True, False):
            apply(net, policy)
            optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
            step(net)
            with self.assertRaises(PolicyError) as caught:
                optimizer.step() if ends else step(net)
            self.assertSentence(caught.exception, sentence)
            self.assertFalse([name for name, module in net.named_modules() if "forward" in module.__dict__])
            self.assertEqualToTheBit(before, list(net.parameters()))

    def test_another_number_of_saved_tensors(self):
        found = entry(model(), "1")
        count = found["offload"]["saved"]
        for more, moving in ((1, None), (-1, None), (9, [count + 3])):
            found["offload"]["saved"] = count + more
            found["offload"]["tensors"] = [1] if moving is None else moving
            self.first_step_refused(model(), self.written(found), f"module Sequential.1: autograd saved {count} "
                                    f"tensors in the forward, {count + more} in the recorded step")

    def test_tensors_that_do_not_move(self):
        found = [(model(), "0", place, what) for place, (_, what) in enumerate(
            Saved(model()[0], batch().requires_grad_()).tensors) if what is not None]
        self.assertGreater(len(found), 3)
        x = batch()
        for other, what in ((x.to_sparse(), "sparse, nested or quantized"), (x.as_subclass(Named), "a Named"),
                            (torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "sparse, nested or quantized"),
                            (torch.complex(x, x).conj(), "a conjugated or negated view"),
                            (torch.complex(x, x).conj().imag, "a conjugated or negated view")):
            found.append((nn.Sequential(nn.Linear(WIDTH, WIDTH), Saves(other)), "1", 0, what))
        for net, name, place, what in found:
            with self.subTest(what=what, place=place):
                self.first_step_refused(
                    net, self.written(entry(net, name, tensors=[place])), f"module Sequential.{name}: the saved tensor "
                    f"{place} of the forward is {what} and stays in place")

    def test_tensors_on_the_cpu_of_a_machine_with_a_gpu(self):
        with unittest.mock.patch.object(Late, "type", "cuda"):
            self.first_step_refused(
                model(), self.written(entry(model(), "0", tensors=[1])),
                "module Sequential.0: the saved tensor 1 of the forward is on the device cpu and stays in place")

    def test_memory_that_changes_between_two_saves(self):
        class Changes(nn.Module):
            def forward(self, x):
                x = x + 0
                first = x.sin()
                x.add_(1)
                return first, x.cos()

        net = nn.Sequential(nn.Linear(WIDTH, WIDTH), Changes())
        policy = self.written(entry(net, "1"))

        def step(net):
            net(batch())[1].sum().backward()

        apply(net, policy)
        step(net)
        with self.assertRaises(PolicyError) as caught:
            torch.optim.SGD(net.parameters(), lr=1.0).step()
        self.assertIn("the memory of the saved tensor 1 of the forward is changed in place after the first save",
                      str(caught.exception))

    def test_parts_of_a_storage_that_count_changes_apart(self):
        class Gates(nn.Module):
            def forward(self, x):
                first, second = x.sin().unsafe_chunk(2, -1)
                first = first.sigmoid_().exp()
                return first * second.sigmoid_()

        class InPlace(nn.Module):
            def forward(self, x):
                return F.relu(x.sin(), inplace=True).exp().sum(1)

        for make, moves in ((Gates, False), (InPlace, True)):
            net = nn.Sequential(nn.Linear(WIDTH, WIDTH), make())
            plain = gradients(net)
            self.applied(net, "1")
            self.assertEqualToTheBit(plain, gradients(net))
            with self.subTest(make=make.__name__):
                if moves:
                    self.assertTrue(Late.copied)
                    torch.optim.SGD(net.parameters(), lr=1.0).step()
                else:
                    with self.assertRaisesRegex(PolicyError, "is changed in place after the first save"):
                        torch.optim.SGD(net.parameters(), lr=1.0).step()

    def test_calls_that_differ_after_the_first_step_move_nothing(self):
        class Changing(Block):
            waves = 0

            def forward(self, x):
                x = super().forward(x)
                for _ in range(self.waves):
                    x = x.sin()
                return x

        net = self.applied(model(2, Changing), "0", "1", ahead=1)
        gradients(net)
        torch.optim.SGD(net.parameters(), lr=0.0).step()
        for waves in (2, 1, 0):
            plain = model(2, Changing)
            plain[1].waves = net[1].waves = waves
            del Late.copied[:]
            with warnings.catch_warnings(record=True) as caught:
                self.assertEqualToTheBit(gradients(plain), gradients(net))
            self.assertEqual(len(caught), int(waves == 2), caught)  # once
            for warning in caught:
                self.assertRegex(str(warning.message), "module Sequential.1: autograd saved [0-9]+ tensors in the forward, "
                                                       "[0-9]+ in the recorded step; tensors of such a forward stay")
            moved = Saved(model()[0], batch().requires_grad_()).nbytes()
            # The tensors of the second module are copied to the host, but stay on the device.
            self.assertEqual(sum(Late.copied), (3 if waves else 4) * moved)

    def test_forwards_that_differ_in_several_modules_warn_once_per_apply(self):
        """As the gradients of the inputs in evaluation, without those of the parameters."""
        net = self.applied(model(), "0", "1", "2")
        gradients(net)
        torch.optim.SGD(net.parameters(), lr=0.0).step()
        for again in (False, True):
            if again:
                remove(net)
                self.applied(net, "0", "1", "2")
                gradients(net)
            net.eval().requires_grad_(False)
            with warnings.catch_warnings(record=True, action="always") as caught:
                for seed in range(2):
                    x = batch(seed).requires_grad_()
                    backward(net(x))
                    self.assertTrue(torch.equal(x.grad, self.of_inputs(seed)))
            self.assertEqual(len(caught), 1, caught)
            self.assertRegex(str(caught[0].message), r"module Sequential.0: .* \(other modules of the policy .* not named\)")
            net.train().requires_grad_(True)

    def of_inputs(self, seed):
        x, net = batch(seed).requires_grad_(), model().eval().requires_grad_(False)
        backward(net(x))
        return x.grad

    def test_forwards_before_the_loop_may_save_others(self):
        net = self.applied(model(), "0")
        with torch.autocast("cpu", torch.bfloat16):
            net(batch())
        self.assertEqualToTheBit(gradients(model()), gradients(net))
        torch.optim.SGD(net.parameters(), lr=0.0).step()
        self.assertIn("forward", net[0].__dict__)

    def test_graphs_of_torch_compile(self):
        net = model(2)
        net = apply(net, self.written(entry(net, "0")))
        compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
        self.assertTrue(all(gradient.isfinite().all() for gradient in gradients(compiled)))
        with self.assertRaisesRegex(PolicyError, "module Sequential.0: the module runs inside of a graph of torch.compile"):
            torch.optim.SGD(net.parameters(), lr=0.0).step()


class Named(torch.Tensor):
    """A class of the program."""


class Saves(nn.Module):
    """Saves a tensor, and no other."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(context, x, other):
            context.save_for_backward(other)
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            assert len(context.saved_tensors) == 1
            return gradient, None

    def __init__(self, other):
        super().__init__()
        self.other = other

    def forward(self, x):
        return self.Function.apply(x, self.other)


class Bytes(OffloadTest):
    """On the simulated GPU."""

    SIZE = 1 << 20
    LAYERS = 6

    def setUp(self):
        super().setUp()
        gc.collect()

    class Layer(nn.Module):
        """Saves one storage, twice."""

        def forward(self, x):
            return x.exp().sin()

    def borders(self, offloads=()):
        """Bytes at the end of the forward of each layer, and at the begin of each backward."""
        net = nn.Sequential(*[self.Layer() for _ in range(self.LAYERS)])
        apply(net, self.written(*({"fqn": f"Sequential.{layer}", "ops": [], "offload": offload}
                                  for layer, offload in enumerate(offloads))))
        for _ in range(2):
            ends, begins = [], []

            def begin(gradient):
                begins.append(support.tensor_bytes()[0])

            x = torch.randn(self.SIZE // 4, device="cuda", requires_grad=True)
            for layer in net:
                x = layer(x)
                ends.append(support.tensor_bytes()[0])
                x.register_hook(begin)
            x.sum().backward()
            del x
        return ends, begins[::-1], support.tensor_bytes()[0]

    def test_storages_leave_and_come_back_as_the_policy_says(self):
        plain = self.borders()
        last = self.LAYERS - 1
        numbers = random.Random(1)
        same = [[each] * self.LAYERS for each in range(self.LAYERS + 1)]
        cases = [(waits, aheads) for waits in same for aheads in same]
        cases += [[[numbers.randint(0, self.LAYERS) for _ in range(self.LAYERS)] for _ in range(2)] for _ in range(50)]
        for waits, aheads in cases:
            with self.subTest(waits=waits, aheads=aheads):
                ends, begins, left = self.borders([{"tensors": [0, 1], "saved": 2, "wait": wait, "ahead": ahead}
                                                   for wait, ahead in zip(waits, aheads)])
                for call in range(self.LAYERS):
                    away = sum(earlier + waits[earlier] <= call for earlier in range(call + 1))
                    self.assertEqual(plain[0][call] - ends[call], away * self.SIZE)
                    away = sum(earlier + waits[earlier] <= last and (call == last or earlier + aheads[earlier] <= call)
                               for earlier in range(call + 1))
                    self.assertEqual(plain[1][call] - begins[call], away * self.SIZE)
                self.assertEqual(left, plain[2])

    def test_a_prefetch_of_none_brings_a_call_back_in_its_own_backward(self):
        moved = {"tensors": [0, 1], "saved": 2, "wait": 0, "ahead": 2}
        one = self.borders([moved] * self.LAYERS)
        self.assertEqual(one, self.borders([{**moved, "prefetch": 1}] * self.LAYERS), "a layer saves one storage")
        late = self.borders([{**moved, "ahead": 0}] * self.LAYERS)
        self.assertEqual(late, self.borders([{**moved, "prefetch": 0}] * self.LAYERS))
        self.assertNotEqual(one, late)

    def test_only_the_named_tensors_move(self):
        plain = self.borders()
        ends, _, _ = self.borders([{"tensors": [1], "saved": 2, "wait": 0, "ahead": 0}] * self.LAYERS)
        self.assertEqual(plain[0], ends, "another saved tensor holds the same storage")

    def test_a_step_with_an_optimizer(self):
        held = []
        for wait in (None, 0):
            net = model().cuda()
            x = batch().cuda()
            if wait is not None:
                entries = [entry(net, str(layer), x=x, wait=wait, ahead=1) for layer in range(4)]
                apply(net, self.written(*entries))
            optimizer = torch.optim.Adam(net.parameters())
            for _ in range(3):
                result = net(x)
                held.append(torch.cuda.memory_allocated())
                backward(result)
                del result
                optimizer.step()
                optimizer.zero_grad()
        moved = Saved(model()[0], batch().requires_grad_()).nbytes()
        # The input of a layer is the result of the layer before, and the first input and the last result stay.
        self.assertLess(held[5], held[2] - 3 * moved)
        del net, x, optimizer
        gc.collect()

    def test_fully_shard(self):
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from torch.testing._internal.distributed import fake_pg

        dist.init_process_group("fake", store=fake_pg.FakeStore(), rank=0, world_size=4)
        self.addCleanup(dist.destroy_process_group)
        mesh = init_device_mesh("cuda", (4,))
        held = []
        for offloads in (False, True):
            net = model().cuda()
            entries = [entry(net, str(layer), x=batch().cuda(), ahead=1) for layer in range(4)]
            for layer in net[:4]:
                fully_shard(layer, mesh=mesh)
            fully_shard(net, mesh=mesh)
            if offloads:
                apply(net, self.written(*entries))
            optimizer = torch.optim.Adam(net.parameters())
            for _ in range(2):
                result = net(batch().cuda())
                held.append(torch.cuda.memory_allocated())
                backward(result)
                del result
                optimizer.step()
                optimizer.zero_grad()
        self.assertLess(held[3], held[1])


if __name__ == "__main__":
    unittest.main()
