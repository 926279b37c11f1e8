# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The models and optimizers of a program are found: those that it made before anyone watched, and those since then, however
they came to be."""

import copy
import gc
import pickle
import unittest

import support

support.need("torch")

import torch  # noqa: E402
from torch_headroom import _modules  # noqa: E402
from torch import nn  # noqa: E402


class Wrapper(torch.optim.Optimizer):
    """As accelerate's: an optimizer around one, without groups of its own."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def param_groups(self):
        return self.inner.param_groups


def found():
    inventory = _modules.Inventory()
    return inventory.roots(), set(inventory.optimizers())


class Inventory(unittest.TestCase):
    def check(self):
        model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
        frozen, without = nn.Linear(3, 3).requires_grad_(False), nn.ReLU()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        wrapper = Wrapper(optimizer)
        roots, optimizers = found()
        self.assertTrue(any(root is model for root in roots))
        self.assertTrue(any(root is frozen for root in roots))
        self.assertFalse(any(root is part for root in roots for part in (model[0], model[1], without)))
        self.assertIn(optimizer, optimizers)
        self.assertNotIn(wrapper, optimizers)
        return model, frozen, optimizer

    def test_before_and_after_someone_watches(self):
        early = self.check()  # and from here someone watches
        del early
        gc.collect()
        _modules.watch()
        kept = self.check()
        copies = [copy.deepcopy(kept[0]), pickle.loads(pickle.dumps(kept[0]))]
        roots, optimizers = found()
        for made in copies:
            self.assertTrue(any(root is made for root in roots))
        twin = copy.deepcopy(kept[2])
        self.assertIn(twin, found()[1])
        self.assertEqual(len(roots), 2 + len(copies))
        del kept, copies, made, twin, roots, optimizers
        gc.collect()
        self.assertEqual(found(), ([], set()))
        self.assertEqual([known for known in _modules._born.values() if known], [])

    def test_what_is_made_after_a_question_changes_the_answer(self):
        inventory = _modules.Inventory()
        first, second = nn.Linear(2, 2), nn.Linear(3, 3)
        inventory.add_root(second)
        inventory.add_root(first)
        self.assertEqual(list(map(id, inventory.roots())), [id(second), id(first)])
        loss = nn.ModuleDict({"model": second})  # a wrapper that is made later
        copied = copy.deepcopy(second)
        self.assertEqual(list(map(id, inventory.roots())), [id(first), id(loss), id(copied)])
        early = torch.optim.SGD(first.parameters(), lr=0.1)
        self.assertEqual(inventory.optimizers(), [early])
        late = torch.optim.SGD(second.parameters(), lr=0.1)
        self.assertEqual(inventory.optimizers(), [early, late])
        del early, loss
        gc.collect()
        self.assertEqual(inventory.optimizers(), [late])
        self.assertEqual(list(map(id, inventory.roots())), [id(second), id(first), id(copied)])

    def test_tensors_of_an_optimizer_that_are_no_parameters_of_modules(self):
        half = nn.Linear(4, 3).bfloat16()
        masters = [parameter.detach().float().requires_grad_() for parameter in half.parameters()]
        point = torch.zeros(5, 2, requires_grad=True)
        view = nn.Parameter(half.weight.detach().view(-1))
        optimizers = [torch.optim.SGD([*masters, point], lr=0.1), torch.optim.SGD([*half.parameters(), view], lr=0.1)]
        leaves = _modules.leaves_of(optimizers, list(half.parameters()))
        self.assertEqual([(id(tensor), category) for tensor, category in leaves],
                         [*((id(master), _modules.OPTIMIZER) for master in masters), (id(point), _modules.PARAMETER)])


if __name__ == "__main__":
    unittest.main()
