# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether training keeps the budget of the policy that it runs under."""

import warnings

import torch


class BudgetWatch:
    """Compares allocated memory with the budget where checkpointed modules begin and end, and warns once. It ends after
    two steps: optimizers make their state in the first. The budget is for all that is on the device, so that other models
    of the process count, too."""

    STEPS = 2

    def __init__(self, policy, model):
        self._policy = policy
        self._device = next((p.device for p in model.parameters() if p.is_cuda), None)
        self._before = None  # the highest that was allocated before the first step
        self._steps = 0
        self.is_on = policy.budget > 0 and self._device is not None

    def at(self, where):
        """The program is at a boundary of a module, as in "at the end of module Net.layers.0"."""
        if not self.is_on:
            return
        highest = torch.cuda.max_memory_allocated(self._device)
        if self._before is None:
            self._before = highest
        if highest <= self._before:  # it was before, while the model was loaded
            highest = torch.cuda.memory_allocated(self._device)
        if highest > self._policy.budget:
            self.is_on = False
            planned = f" ({self._policy.peak:,} bytes were planned)" if self._policy.peak else ""
            warnings.warn(
                f"{self._policy.source}: the step has taken {highest:,} bytes{planned}, more than its budget of "
                f"{self._policy.budget:,}, as first seen {where}: it is another step than the one that was recorded, or "
                "something else is on the device, too", stacklevel=2)

    def step_ends(self):
        self.at("in backward, at the optimizer's step")
        self._steps += 1
        self.is_on = self.is_on and self._steps < self.STEPS
