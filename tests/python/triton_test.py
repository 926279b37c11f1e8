# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Triton's kernels on the simulated GPU (torch_headroom/_kernels/triton.py)."""

import unittest
from unittest import mock

import support

support.need("torch", "triton")
torch = support.simulated("a100-80gb")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from torch_headroom._kernels import launches, triton as triton_kernels  # noqa: E402


@triton.jit
def scale(pointer, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(pointer + offsets, tl.load(pointer + offsets) * factor)


@triton.jit
def normalize(out, x, weight, n, HAS_WEIGHT: tl.constexpr, BLOCK: tl.constexpr):
    x += tl.program_id(0) * n
    columns = tl.arange(0, BLOCK)
    row = tl.load(x + columns, mask=columns < n)
    if HAS_WEIGHT:
        row *= tl.load(weight + columns)
    places = out + columns
    for i in range(0, n, BLOCK):
        tl.store(places, row / tl.sum(row))
        places += BLOCK


@triton.jit
def add_at(target, value):
    tl.atomic_add(target, value)


@triton.jit
def calls_others(counts, x, n):
    add_at(counts + tl.program_id(0), tl.load(x))


@triton.jit
def multiplies(a, b, c, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(a, (BLOCK, BLOCK), (BLOCK, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    columns = tl.arange(0, BLOCK)
    product = tl.dot(tl.load(block), tl.load(b + columns[:, None] * BLOCK + columns[None, :]))
    tl.store(c + columns[:, None] * BLOCK + columns[None, :], product)


@triton.jit
def writes_where_nobody_sees(addresses, x):
    tl.load(addresses).to(tl.pointer_type(tl.float32))


@triton.jit
def drop(x, seed):
    tl.store(x, tl.load(x) * hashed(seed))


@triton.jit
def hashed(seed):
    return seed * 7


@triton.jit
def copies_if(out, x, flag):
    if flag > 1:
        tl.store(out, tl.load(x))
    else:
        tl.store(x, 0.0)


@triton.jit
def calls_copies_if(out, x, level):
    copies_if(out, x, level + 1)


def launched(launch):
    """Name, what it reads and what it writes of the one kernel that is launched."""
    with mock.patch.object(launches, "launch") as seen:
        launch()
    (name, reads, writes), how = seen.call_args
    return name, reads, writes, how["how"]


class Accesses(unittest.TestCase):
    def setUp(self):
        self.x, self.y, self.z = (torch.ones(64, 64, device="cuda") for _ in range(3))

    def check(self, launch, name, reads, writes, how=None):
        found = launched(launch)
        self.assertEqual(found[0], name)
        for seen, expected in zip(found[1:3], (reads, writes)):
            self.assertEqual([id(tensor) for tensor in seen], [id(tensor) for tensor in expected])
        self.assertEqual(found[3], how)

    def test_in_place(self):
        self.check(lambda: scale[(4,)](self.x, 2.0, BLOCK=64), "scale", [self.x], [self.x])

    def test_branches_that_constants_rule_out_do_not_count(self):
        x, y, z = self.x, self.y, self.z
        self.check(lambda: normalize[(64,)](y, x, z, 64, True, 64), "normalize", [x, z], [y])
        self.check(lambda: normalize[(64,)](y, x, z, 64, HAS_WEIGHT=False, BLOCK=64), "normalize", [x], [y])
        self.check(lambda: normalize[(64,)](y, x, None, 64, False, 64), "normalize", [x], [y])

    def test_functions_that_a_kernel_calls(self):
        self.check(lambda: calls_others[(4,)](self.x, self.y, 4), "calls_others", [self.x, self.y], [self.x])

    def test_numbers_count_where_they_decide(self):
        x, y = self.x, self.y
        for _ in range(2):
            for level in range(3):
                expected = ([x], [y]) if level else ([], [x])
                self.check(lambda: calls_copies_if[(1,)](y, x, level), "calls_copies_if", *expected)
        with mock.patch.object(triton_kernels, "_of_launch", wraps=triton_kernels._of_launch) as analysed:
            for seed in range(5):
                self.check(lambda: drop[(1,)](x, seed), "drop", [x], [x])
        self.assertEqual(analysed.call_count, 1)

    def test_matrix_products_are_said(self):
        x, y, z = self.x, self.y, self.z
        self.check(lambda: multiplies[(1,)](x, y, z, 64), "multiplies", [x, y], [z], launches.PRODUCTS)

    def test_what_cannot_be_told_is_read_and_written(self):
        both = [self.x, self.y]
        self.check(lambda: writes_where_nobody_sees[(1,)](*both), "writes_where_nobody_sees", both, both)


class Launches(unittest.TestCase):
    def setUp(self):
        self.x = torch.ones(64, device="cuda")
        launches.counts.clear()

    def count(self, name="scale"):
        return launches.counts[name, launches.BYTES]

    def test_what_is_written_is_forgotten(self):
        before = support.placeholder_values()
        self.x.sum().item()
        self.assertEqual(support.placeholder_values(), before)
        scale[(1,)](self.x, 2.0, BLOCK=64)
        self.x.sum().item()
        self.assertGreater(support.placeholder_values(), before)

    def test_grids(self):
        seen = []

        def grid(meta):
            seen.append((meta["BLOCK"], meta["factor"]))
            return (triton.cdiv(64, meta["BLOCK"]), 1)

        scale[grid](self.x, 2.0, BLOCK=32, num_warps=8)
        self.assertEqual((seen, self.count()), ([(32, 2.0)], 1))
        scale[(0,)](self.x, 2.0, BLOCK=32)
        self.assertEqual(self.count(), 1)
        with self.assertRaises(TypeError):
            scale[(1,)](self.x, BLOCK=32)

    def test_hooks_before_a_run(self):
        @triton.jit
        def hooked(pointer):
            tl.store(pointer, 1.0)

        seen = []
        hooked.add_pre_run_hook(lambda *arguments, **named: seen.append(arguments))
        hooked[(1,)](self.x)
        self.assertEqual(len(seen), 1)

    def test_autotuners_take_the_first_configuration_and_say_so(self):
        seen = []
        configs = [triton.Config({"BLOCK": block}, num_warps=2, pre_hook=seen.append) for block in (16, 32)]
        tuned = triton.autotune(configs, key=["factor"], reset_to_zero=["pointer"])(scale)
        for _ in range(2):
            tuned[lambda meta: (64 // meta["BLOCK"],)](self.x, 2.0)
        self.assertEqual(tuned.best_config.kwargs, {"BLOCK": 16})
        self.assertEqual([arguments["BLOCK"] for arguments in seen], [16, 16])
        self.assertEqual(self.count(), 2)
        self.assertIn("scale", launches.choices)

    def test_heuristics(self):
        @triton.heuristics({"BLOCK": lambda arguments: triton.next_power_of_2(arguments["pointer"].numel())})
        @triton.jit
        def chosen(pointer, BLOCK: tl.constexpr):
            tl.store(pointer + tl.arange(0, BLOCK), 1.0)

        seen = []
        chosen[lambda meta: seen.append(meta["BLOCK"]) or (1,)](self.x)
        self.assertEqual((seen, self.count("chosen")), ([64], 1))

    def test_warmup_launches_nothing(self):
        kernel = scale.warmup(self.x, 2.0, BLOCK=64, grid=(1,))
        kernel._init_handles()
        self.assertGreater(kernel.n_regs, 0)
        self.assertEqual(self.count(), 0)
        kernel[(1, 1, 1)](self.x, 2.0, 64)
        self.assertEqual(self.count(), 1)

    def test_the_driver_is_the_cards(self):
        active = triton.runtime.driver.active
        target = active.get_current_target()
        self.assertEqual((target.backend, target.arch, target.warp_size), ("cuda", 80, 32))
        self.assertEqual(active.utils.get_device_properties(0)["multiprocessor_count"], 108)
        self.assertEqual(triton.testing.do_bench(lambda: scale[(1,)](self.x, 2.0, BLOCK=64), quantiles=[0.5, 0.2]), [1, 1])
        self.assertEqual(self.count(), 1)


if __name__ == "__main__":
    unittest.main()
