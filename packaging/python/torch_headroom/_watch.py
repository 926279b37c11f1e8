# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that training takes the memory that the policy predicts."""

import warnings

import torch

from ._modules import parameters_of


class MemoryWatch:
    """Compares the allocated memory at the borders of checkpointed modules with the plan and with its budget, and warns
    once of each. It stops after two steps, since optimizers create their state in the first. The budget is for
    everything on the device, so other models of the process count too.

    The comparison with the plan counts only what is allocated during a step. Other memory at the start of the step,
    such as the last results of an evaluation or the buckets of DistributedDataParallel, is not counted. A first step
    may hold less: it has no optimizer state yet, and often no gradients. Calls of a module are not matched with planned
    ones: the largest planned value of all its calls is the limit for each.
    """

    STEPS = 2
    # Bytes. The plan excludes cuBLAS's workspaces, which its first calls take; a batch may be fetched earlier or later.
    TOLERANCE = 128 << 20
    SHARE = 50  # or this part (1/50) of the plan's bytes, if that is more

    def __init__(self, policy, model):
        self._policy = policy
        self._model = model
        self._device = next((p.device for p in parameters_of(model) if p.is_cuda), None)
        self._before = None  # peak in bytes before the first step
        self._steps = 0
        self._not_planned = None  # bytes beside those of the plan, at the first module of this step
        self._as_planned = True  # no warning about the plan so far
        self.is_on = policy.budget > 0 and self._device is not None

    def at(self, where, planned=()):
        """Checks the memory at a border of a module, such as `where` = "at the end of module Net.layers.0". `planned`
        are the plan's bytes there, by call; empty: unknown."""
        if not self.is_on:
            return
        # Requested bytes: allocated bytes would include the slack of blocks that the caching allocator does not split.
        stats = torch.cuda.memory_stats(self._device)
        self._compare_with_budget(where, stats["requested_bytes.all.peak"], stats["requested_bytes.all.current"])
        if self.is_on and self._as_planned and any(planned):
            self._compare_with_plan(where, planned, stats["requested_bytes.all.current"])

    def step_ends(self):
        self.at("in backward, at the optimizer's step")
        self._steps += 1
        self._not_planned = None
        self.is_on = self.is_on and self._steps < self.STEPS

    def _compare_with_budget(self, where, highest, now):
        if self._before is None:
            self._before = highest
        if highest <= self._before:  # the peak was earlier, for example while the model was loaded
            highest = now
        if highest > self._policy.budget:
            self.is_on = False
            planned = f" ({self._policy.peak:,} bytes were planned)" if self._policy.peak else ""
            self._warn(f"the step has taken {highest:,} bytes{planned}, more than its budget of "
                       f"{self._policy.budget:,}, as first seen {where}")

    def _compare_with_plan(self, where, planned, held):
        if self._not_planned is None:
            self._not_planned = max(0, held - planned[0] + (0 if self._steps else self._missing_gradients()))
        most = max(planned)
        if held - most > self._not_planned + max(self.TOLERANCE, most // self.SHARE):
            self._as_planned = False
            self._warn(f"{where} the step holds {held:,} bytes, {most:,} were planned")

    def _missing_gradients(self):
        return sum(p.nbytes for p in parameters_of(self._model) if p.is_cuda and p.requires_grad and p.grad is None)

    def _warn(self, sentence):
        warnings.warn(f"{self._policy.source}: {sentence}: it is another step than the one that was recorded, or "
                      "something else is on the device, too", stacklevel=4)
