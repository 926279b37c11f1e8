#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch.optim's optimizers on the simulated device take the memory that PyTorch's MemTracker counts for them on fake CUDA
tensors: what lives after each step and the peak within it, to the byte. And autocast knows the ops that it knows on CUDA.

    optimizer_memory_test.py libheadroom_python.so
"""

import gc
import sys
import unittest

try:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker
except Exception as error:
    print(f"skipped: {sys.executable} cannot import torch and its MemTracker: {error}")
    sys.exit(77)

from device import SimulatedDevice

SIZES = ((300, 200), (200,), (1000, 64), (7,))
STEPS = 3

IMPLEMENTATIONS = ({"foreach": True}, {"fused": True}, {"foreach": False, "fused": False})
CHOICES = {
    "SGD": ({}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {"maximize": True}),
    "Adam": ({}, {"amsgrad": True}, {"weight_decay": 0.1}, {"maximize": True}, {"capturable": True}),
    "AdamW": ({}, {"amsgrad": True, "maximize": True}),
}


def train(device, make, measure):
    """[what `measure` says of each step]."""
    parameters = [torch.nn.Parameter(torch.empty(size, device=device)) for size in SIZES]
    optimizer = make(parameters)
    results = []
    for _ in range(STEPS):
        for parameter in parameters:
            parameter.grad = torch.empty_like(parameter)
        results.append(measure(optimizer.step))
        for parameter in parameters:
            parameter.grad = None
    return results


def of_tracker(make):
    """(live, peak) of each step as MemTracker counts it."""
    with FakeTensorMode():
        tracker = MemTracker()

        def measure(step):
            tracker.reset_mod_stats()
            step()
            return tuple(_total(tracker.get_tracker_snapshot(kind)) for kind in ("current", "peak"))

        with tracker:
            return train("cuda", make, measure)


def _total(snapshot):
    return next(values["Total"] for device, values in snapshot.items() if device.type == "cuda")


class Optimizers(unittest.TestCase):
    device = None  # set by main

    def of_device(self, make):
        gc.collect()
        base = self.device.memory().live

        def measure(step):
            self.device.reset_peak()
            step()
            memory = self.device.memory()
            return memory.live - base, memory.peak - base

        return train("sim", make, measure)

    def test_take_the_memory_that_mem_tracker_counts(self):
        for name, choices in CHOICES.items():
            for choice in choices:
                for implementation in IMPLEMENTATIONS:
                    if name == "SGD" and implementation.get("fused"):
                        continue  # asks the driver for the device: the next test
                    settings = {**choice, **implementation}
                    with self.subTest(optimizer=name, **settings):
                        make = lambda parameters: getattr(torch.optim, name)(parameters, **settings)
                        self.assertEqual(self.of_device(make), of_tracker(make))

    def test_fused_sgd_takes_parameters_gradients_and_momentum_alone(self):
        tensors = sum((4 * torch.Size(size).numel() + 511) // 512 * 512 for size in SIZES)
        for momentum, copies in ((0, 2), (0.9, 3)):
            with self.subTest(momentum=momentum):
                make = lambda parameters: torch.optim.SGD(parameters, momentum=momentum, fused=True)
                self.assertEqual(self.of_device(make), [(copies * tensors, copies * tensors)] * STEPS)


class Amp(unittest.TestCase):
    def test_autocast_knows_the_ops_that_it_knows_on_cuda(self):
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        names = torch._C._dispatch_get_all_op_names()
        cuda = {name for name in names if has(name, "AutocastCUDA")}
        ours = {name for name in names if has(name, "AutocastPrivateUse1")}
        self.assertEqual(cuda, ours)

    def test_a_scaled_step_runs_with_clipping(self):
        model = torch.nn.Linear(64, 10).to("sim")
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        scaler = torch.amp.GradScaler("sim")
        with torch.autocast("sim", dtype=torch.float16):
            logits = model(torch.empty(8, 64, device="sim"))
        self.assertEqual(logits.dtype, torch.float16)
        scaler.scale(logits.float().sum()).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        self.assertEqual(len(optimizer.state), 2)

    def test_binary_cross_entropy_is_refused_as_on_cuda(self):
        probability = torch.empty(4, device="sim")
        with torch.autocast("sim", dtype=torch.float16):
            with self.assertRaisesRegex(RuntimeError, "unsafe to autocast"):
                torch.nn.functional.binary_cross_entropy(probability, probability)

    def test_recurrent_networks_run_in_half_precision(self):
        model = torch.nn.LSTM(32, 64, batch_first=True).to("sim")
        with torch.autocast("sim", dtype=torch.float16):
            output, _ = model(torch.empty(2, 10, 32, device="sim"))
        self.assertEqual(output.dtype, torch.float16)
        self.assertEqual(output.grad_fn.name(), "CudnnRnnBackward0")
        output.float().sum().backward()
        self.assertEqual(model.weight_hh_l0.grad.dtype, torch.float32)


if __name__ == "__main__":
    Optimizers.device = SimulatedDevice(sys.argv.pop(1), "a100-80gb")
    unittest.main()
