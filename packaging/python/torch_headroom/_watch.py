# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether training takes the memory that the policy was made for."""

import warnings

import torch


class MemoryWatch:
    """Compares what is allocated where checkpointed modules begin and end with the plan and with its budget, and warns
    of each once. It ends after two steps: optimizers make their state in the first. The budget is for all that is on
    the device, so that other models of the process count, too.

    Of the plan's bytes only what comes in the course of a step counts. What is more on the device where it begins,
    such as the last results of an evaluation or the buckets of DistributedDataParallel, is none of its doing, and a
    first step may hold less: it has no state of the optimizer yet, and often no gradients. Which call of a module is
    compared with which planned one does not matter: the most of all its calls bounds each."""

    STEPS = 2
    # The plan knows no workspaces of cuBLAS, which its first calls take; a batch may be fetched earlier or later.
    TOLERANCE = 128 << 20
    SHARE = 50  # or a fiftieth of the plan's bytes, where that is more

    def __init__(self, policy, model):
        self._policy = policy
        self._model = model
        self._device = next((p.device for p in model.parameters() if p.is_cuda), None)
        self._before = None  # the highest that was allocated before the first step
        self._steps = 0
        self._beside = None  # bytes beside the plan at the first module of this step
        self._as_planned = True  # so far
        self.is_on = policy.budget > 0 and self._device is not None

    def at(self, where, planned=()):
        """The program is at a boundary of a module, as in "at the end of module Net.layers.0". `planned` are the bytes
        that the plan has there, by call; none where it is not known."""
        if not self.is_on:
            return
        # Requested: a block that the caching allocator does not split counts as allocated with what it has too much.
        stats = torch.cuda.memory_stats(self._device)
        self._compare_with_budget(where, stats["requested_bytes.all.peak"], stats["requested_bytes.all.current"])
        if self.is_on and self._as_planned and any(planned):
            self._compare_with_plan(where, planned, stats["requested_bytes.all.current"])

    def step_ends(self):
        self.at("in backward, at the optimizer's step")
        self._steps += 1
        self._beside = None
        self.is_on = self.is_on and self._steps < self.STEPS

    def _compare_with_budget(self, where, highest, now):
        if self._before is None:
            self._before = highest
        if highest <= self._before:  # it was before, while the model was loaded
            highest = now
        if highest > self._policy.budget:
            self.is_on = False
            planned = f" ({self._policy.peak:,} bytes were planned)" if self._policy.peak else ""
            self._warn(f"the step has taken {highest:,} bytes{planned}, more than its budget of "
                       f"{self._policy.budget:,}, as first seen {where}")

    def _compare_with_plan(self, where, planned, held):
        if self._beside is None:
            self._beside = max(0, held - planned[0] + (0 if self._steps else self._missing_gradients()))
        most = max(planned)
        if held - most > self._beside + max(self.TOLERANCE, most // self.SHARE):
            self._as_planned = False
            self._warn(f"{where} the step holds {held:,} bytes, {most:,} were planned")

    def _missing_gradients(self):
        return sum(p.nbytes for p in self._model.parameters() if p.is_cuda and p.requires_grad and p.grad is None)

    def _warn(self, sentence):
        warnings.warn(f"{self._policy.source}: {sentence}: it is another step than the one that was recorded, or "
                      "something else is on the device, too", stacklevel=4)
