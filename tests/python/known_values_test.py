# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows from values of which only some are known: each op is compared with the CPU on everything that the unknown
elements can be."""

import itertools
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

import support

torch = support.simulated("h100-80gb")

T, F, U = True, False, None  # U: unknown


def on_gpu(elements, dtype=torch.bool):
    """A tensor on the GPU of which the elements U are not known."""
    tensor = torch.tensor([e or 0 for e in elements], dtype=dtype).cuda()
    for i, element in enumerate(elements):
        if element is U:
            tensor[i] = (torch.rand((), device="cuda") * 7).to(dtype)
    return tensor


def completions(elements, dtype, numbers):
    """The CPU's tensors that it can stand for."""
    places = [i for i, e in enumerate(elements) if e is U]
    for chosen in itertools.product(numbers, repeat=len(places)):
        whole = list(elements)
        for i, number in zip(places, chosen):
            whole[i] = number
        yield torch.tensor(whole, dtype=dtype)


def what_is_known(tensor):
    """Its elements, U where they are invented."""
    found = []
    for element in tensor.flatten():
        before = support.placeholder_values()
        value = element.item()
        found.append(value if support.placeholder_values() == before else U)
    return found


class Logic(unittest.TestCase):
    def compare(self, op, *arguments, dtype=torch.bool, numbers=(T, F), complete=True):
        """Known is what is the same in all cases. Not `complete`: that, or less."""
        found = what_is_known(op(*(on_gpu(a, dtype) for a in arguments)))
        cases = itertools.product(*(list(completions(a, dtype, numbers)) for a in arguments))
        results = [op(*(c.clone() for c in case)).flatten().tolist() for case in cases]
        same = [all_of[0] if len(set(all_of)) == 1 else U for all_of in zip(*results)]
        if not complete:
            same = [s if f is not U else U for s, f in zip(same, found)]
        self.assertEqual(found, same)

    LEFT, RIGHT = [T, T, T, F, F, F, U, U, U], [T, F, U, T, F, U, T, F, U]

    def test_two_arguments(self):
        ops = [torch.bitwise_or, torch.bitwise_and, torch.logical_or, torch.logical_and, torch.mul]
        ops += [torch.bitwise_xor, torch.logical_xor, torch.eq, torch.ne]
        ops += [torch.Tensor.bitwise_or_, torch.Tensor.bitwise_and_, torch.Tensor.logical_or_, torch.Tensor.logical_and_]
        ops += [torch.Tensor.copy_, torch.Tensor.eq_]
        for op in ops:
            with self.subTest(op=op):
                self.compare(op, self.LEFT, self.RIGHT)
        for op in (torch.lt, torch.le, torch.gt, torch.ge):  # of bool some are decided by one argument
            with self.subTest(op=op):
                self.compare(op, self.LEFT, self.RIGHT, complete=False)

    def test_one_argument(self):
        half, unknown = [T, F, U], [U, U]
        for op in (torch.bitwise_not, torch.logical_not, lambda x: x.clone(), lambda x: x.long() * 3):
            self.compare(op, half)
        for op in (torch.any, torch.all, torch.max, torch.min, torch.amax, torch.amin, torch.sum, torch.count_nonzero):
            for elements in (half, unknown, [T, U], [F, U], [U, F, F], [T, T], [F]):
                with self.subTest(op=op, elements=elements):
                    self.compare(op, elements)

    def test_reductions_of_dimensions(self):
        table = [T, U, F, U, T, T]
        for op in (torch.any, torch.all, torch.amax, torch.sum):
            for dim in (0, 1, (0, 1)):
                for keepdim in (False, True):
                    self.compare(lambda x: op(x.view(2, 3), dim, keepdim), table)

    def test_numbers(self):
        some, others = [0, 1, U, U, 5, -1], [U, U, 0, -1, 5, U]
        for op in (torch.bitwise_and, torch.bitwise_or, torch.mul, torch.eq, torch.add, torch.logical_and):
            with self.subTest(op=op):
                self.compare(op, some, others, dtype=torch.long, numbers=(0, 1, 6, -1))
        self.compare(lambda x, y: x & (y != 0), some, others, dtype=torch.long, numbers=(0, 1, 6, -1))
        self.compare(lambda x, y: x | (y != 0), some, others, dtype=torch.long, numbers=(0, 1, 6, -1), complete=False)
        self.compare(lambda x: x.max() == 0, [0, 0, U], dtype=torch.long, numbers=(0, 1))
        floats = on_gpu([0.0, U], torch.float32)
        self.assertEqual(what_is_known(floats * on_gpu([U, 0.0], torch.float32)), [U, U])  # infinity times zero

    def test_choices(self):
        condition = [T, T, F, F, U, U, U]
        self.compare(torch.where, condition, [T, U, T, U, T, T, U], [U, T, U, F, T, F, U])
        self.compare(lambda x, m: x.masked_fill(m, True), [T, U, F, F, T, F, U], condition)
        self.compare(lambda x, m: x.masked_fill_(m, True), [T, U, F, F, T, F, U], condition)

    def test_elements_that_move(self):
        x, y = [T, U, F, T], [U, F]
        for op in (
            lambda x, y: torch.cat((x, y)),
            lambda x, y: torch.stack((x, x.flip(0))),
            lambda x, y: x[1:].index_select(0, torch.tensor([2, 0], device=x.device)),
            lambda x, y: x[torch.tensor([3, 1], device=x.device)],
            lambda x, y: x[torch.tensor([T, T, F, F], device=x.device)],
            lambda x, y: x.view(2, 2).t().contiguous(),
            lambda x, y: x.repeat(2),
            lambda x, y: torch.nn.functional.pad(x, (1, 1)),
            lambda x, y: x.gather(0, torch.tensor([1, 0], device=x.device)),
            lambda x, y: x.expand(2, 4)[1],
            lambda x, y: x.int().cumsum(0)[:1],
        ):
            self.compare(op, x, y, complete=False)

        def write(x, y):
            x[2:] = y
            x[0] = False
            return x

        self.compare(write, x, y)
        self.compare(lambda x, y: x.index_put_((torch.tensor([3, 0], device=x.device),), y), x, y)
        self.compare(lambda x, y: x.index_fill_(0, torch.tensor([3, 1], device=x.device), True), x, y)
        self.compare(lambda x, y: x.scatter_(0, torch.tensor([3, 1], device=x.device), y), x, y)

    def test_a_part_is_overwritten(self):
        unknown = torch.randint(0, 9, (4,), device="cuda")
        unknown[1:3] = 5
        self.assertEqual(what_is_known(unknown), [U, 5, 5, U])
        known = torch.arange(4, device="cuda")
        known[2:].random_(0, 5)
        self.assertEqual(what_is_known(known), [0, 1, U, U])
        self.assertEqual(known.cpu().tolist(), [0, 1, 0, 0])
        known.zero_()
        self.assertEqual(what_is_known(known), [0] * 4)
        known[2:].random_(0, 5)
        self.assertEqual(what_is_known(known.view(torch.int32)), [U] * 8)

    def test_sizes_are_true_where_all_is_known(self):
        mask = torch.rand(8, device="cuda") > 0.5
        self.assertEqual(torch.nonzero(mask & False).shape, (0, 1))
        self.assertEqual(torch.nonzero(mask | True).shape, (8, 1))
        self.assertEqual(torch.nonzero(mask).shape, (8, 1))

    def test_what_is_asked_of_all_elements_holds(self):
        boxes = torch.rand(8, 4, device="cuda") * 2
        before = support.placeholder_values()
        self.assertTrue((boxes[:, 2:] >= boxes[:, :2]).all())
        self.assertGreater(support.placeholder_values(), before)
        known = torch.tensor([True, False], device="cuda")
        self.assertFalse(known.all())
        self.assertFalse(torch.cat((known, boxes[:, 0] > 1)).all())

    def test_unknown_numbers_stay_finite_among_known_ones(self):
        losses = torch.stack((torch.randn(9, device="cuda").mean(), torch.tensor(3.0, device="cuda")))
        self.assertTrue(torch.isfinite(losses).all())
        self.assertFalse(torch.isnan(losses).any())
        self.assertEqual(losses[1].item(), 3)


class Shapes(unittest.TestCase):
    """What PyTorch refuses on the CPU is refused here."""

    def test_shapes_that_do_not_fit(self):
        mask, two, index = torch.zeros(3, dtype=torch.bool), torch.zeros(2), torch.tensor([0, 1])
        calls = {
            "masked_fill_": lambda x, to: x.masked_fill_(to(mask), 0),
            "masked_fill_ by a tensor": lambda x, to: x.masked_fill_(to(mask), to(torch.tensor(0.0))),
            "masked_fill_ by two": lambda x, to: x.masked_fill_(to(mask[:1]), to(two)),
            "masked_fill": lambda x, to: x.masked_fill(to(mask), 0),
            "masked_fill by numbers": lambda x, to: x.masked_fill_(to(index), 0),
            "masked_fill beyond half": lambda x, to: x.half().masked_fill(to(mask[:1]), -1e9),
            "dot": lambda x, to: x[0].dot(to(two)),
            "layer_norm": lambda x, to: torch.nn.functional.layer_norm(x, (2,), to(two)),
            "masked_scatter_": lambda x, to: x.masked_scatter_(to(mask), to(two)),
            "copy_": lambda x, to: x.copy_(to(two)),
            "setitem": lambda x, to: x.__setitem__((slice(None), slice(1, 4)), to(two)),
            "setitem by a mask": lambda x, to: x.__setitem__(to(mask), 0),
            "index_put_": lambda x, to: x.index_put_((to(index),), to(torch.zeros(3))),
            "index_fill_": lambda x, to: x.index_fill_(0, to(index[None]), 0),
            "index_copy_": lambda x, to: x.index_copy_(0, to(index), to(two)),
            "index_add_": lambda x, to: x.index_add_(0, to(index), to(two)),
            "add_": lambda x, to: x.add_(to(two)),
            "addcmul_": lambda x, to: x.addcmul_(to(two), to(two)),
            "lerp_": lambda x, to: x.lerp_(to(two), 0.5),
            "fill_": lambda x, to: x.fill_(to(two)),
            "where": lambda x, to: torch.where(to(mask), x, to(two)),
            "scatter_": lambda x, to: x.scatter_(1, to(torch.zeros(9, 1, dtype=torch.long)), to(torch.zeros(4, 1))),
            "scatter_add_": lambda x, to: x.scatter_add_(1, to(index), to(two)),
            "bernoulli_": lambda x, to: x.bernoulli_(to(two)),
            "foreach": lambda x, to: torch._foreach_copy_([x], [to(two)]),
            "addmm_": lambda x, to: x.addmm_(to(torch.zeros(4, 2)), to(torch.zeros(3, 4))),
        }
        for name, call in calls.items():
            with self.subTest(name):
                with self.assertRaises((RuntimeError, IndexError)):
                    call(torch.zeros(4, 4), lambda tensor: tensor)
                with self.assertRaises((RuntimeError, IndexError)):
                    call(torch.randn(4, 4, device="cuda"), lambda tensor: tensor.cuda())

    def test_the_error_is_the_cpus(self):
        functional, picture = torch.nn.functional, torch.zeros(1, 6, 8, 8)
        beyond, table = torch.tensor([0, 7]), torch.zeros(3, 4)
        calls = {
            "weight of a convolution in groups": lambda to: functional.conv2d(
                to(picture), to(torch.zeros(4, 2, 3, 3)), groups=3),
            "fewer channels than groups": lambda to: functional.conv2d(to(picture), to(torch.zeros(1, 3, 3, 3)), groups=2),
            "channels of a convolution": lambda to: functional.conv2d(to(picture), to(torch.zeros(4, 2, 3, 3)), groups=2),
            "no groups": lambda to: functional.conv2d(to(picture), to(torch.zeros(4, 6, 3, 3)), groups=0),
            "channels of a transposed one": lambda to: functional.conv_transpose2d(to(picture), to(torch.zeros(4, 3, 3, 3))),
            "bias": lambda to: functional.conv2d(to(picture), to(torch.zeros(4, 6, 3, 3)), to(torch.zeros(3))),
            "bias of a transposed one": lambda to: functional.conv_transpose2d(
                to(picture), to(torch.zeros(6, 2, 3, 3)), to(torch.zeros(2)), groups=2),
            "roll": lambda to: torch.roll(to(table), (1, 2), (0,)),
            "roll without dims": lambda to: torch.roll(to(table), (1, 2)),
            "roll beyond": lambda to: torch.roll(to(table), 1, 5),
            "vdot": lambda to: torch.vdot(to(torch.zeros(3)), to(torch.zeros(2))),
            "vdot of two types": lambda to: torch.vdot(to(torch.zeros(3)), to(torch.zeros(3).double())),
            "embedding": lambda to: functional.embedding(to(beyond), to(table)),
            "embedding of one too many": lambda to: functional.embedding(to(torch.tensor([[3]])), to(table)),
            "index_select": lambda to: to(table).index_select(0, to(beyond)),
            "gather": lambda to: to(table).gather(0, to(beyond[:, None])),
            "gather below": lambda to: to(table).gather(1, to(torch.tensor([[-1]]))),
            "index": lambda to: to(table)[to(beyond)],
            "index below": lambda to: to(table)[to(torch.tensor([-4]))],
            "index_fill": lambda to: to(table).index_fill_(0, to(beyond), 0),
            "setitem": lambda to: to(table).__setitem__(to(beyond), 0),
            "label": lambda to: functional.cross_entropy(to(table), to(torch.tensor([0, 1, 4]))),
            "label of a picture": lambda to: functional.cross_entropy(to(picture), to(torch.full((1, 8, 8), 6))),
        }
        for name, call in calls.items():
            with self.subTest(name):
                with self.assertRaises((RuntimeError, IndexError)) as on_cpu:
                    call(lambda tensor: tensor)
                with self.assertRaises(type(on_cpu.exception)) as on_gpu:
                    call(lambda tensor: tensor.cuda())
                self.assertEqual(*(str(caught.exception).splitlines()[0] for caught in (on_cpu, on_gpu)))

    def test_what_is_in_range_is_taken(self):
        table, functional = torch.randn(3, 4, device="cuda"), torch.nn.functional
        indices = torch.tensor([0, 2], device="cuda")
        self.assertEqual(functional.embedding(indices, table).shape, (2, 4))
        self.assertEqual(table[indices - 3].shape, (2, 4))
        self.assertEqual(table.gather(1, indices[None] + 1).shape, (1, 2))
        self.assertEqual(functional.cross_entropy(table, torch.tensor([0, -100, 3], device="cuda")).dim(), 0)
        self.assertEqual(functional.embedding(torch.randint(0, 9, (2,), device="cuda"), table).shape, (2, 4))  # unknown
        self.assertEqual(table.index_select(0, table.argmax(0)).shape, (4, 4))
        self.assertEqual(torch.roll(table, 5).shape, (3, 4))
        self.assertEqual(torch.roll(table, (1, 2), (0, 0)).shape, (3, 4))
        depthwise = functional.conv2d(torch.zeros(1, 6, 8, 8, device="cuda"), torch.zeros(12, 1, 3, 3, device="cuda"), groups=6)
        self.assertEqual(depthwise.shape, (1, 12, 6, 6))


class Loops(unittest.TestCase):
    """A loop that waits for an invented value is ended; others are left alone."""

    def ended(self, program, *command):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "train.py"
            path.write_text(textwrap.dedent(program))
            return subprocess.run(
                [sys.executable, *command, path], capture_output=True, text=True, cwd=folder, timeout=300
            )

    HEAD = """
        import torch_headroom
        torch_headroom.simulate("a100-80gb")
        import torch
    """

    def test_a_while_that_waits(self):
        result = self.ended(self.HEAD + """
        def ready(state):
            return (state > 2).any().item()

        state = torch.randn(4, device="cuda")
        while not ready(state):
            try:
                state = state * 2
            except Exception:
                pass
        """)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\A\S*train.py:10: this loop has read 10,000 placeholder values .* may never end: .*\n\Z")

    def test_while_a_step_is_recorded(self):
        result = self.ended("""
        import torch
        model = torch.nn.Linear(8, 8).cuda()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        while True:
            loss = model(torch.randn(2, 8, device="cuda")).square().mean()
            while not (loss > 0).cpu():
                loss = loss + 1
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """, "-m", "torch_headroom.record", "-o", "step.hrs")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"\Atorch_headroom.record: \S*train.py:7: this loop has read 10,000 placeholder values .*\n\Z")

    def test_in_another_thread(self):
        result = self.ended(self.HEAD + """
        import threading

        def wait():
            while not torch.randn((), device="cuda") > 0:
                pass

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
        print("not here")
        """)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, r"\A\S*train.py:9: this loop has read 10,000 placeholder values .*\n\Z")

    def test_a_for_that_is_long(self):
        result = self.ended(self.HEAD + """
        loss = torch.randn((), device="cuda")
        total = sum(loss.item() for _ in range(25_000))
        for _ in range(15_000):
            total += loss.item()
        print(total)
        """)
        self.assertEqual((result.returncode, result.stdout), (0, "40000.0\n"), result.stderr)


if __name__ == "__main__":
    unittest.main()
