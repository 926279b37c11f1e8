# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.apply on programs with several models, and on models inside of others."""

import copy
import unittest
import warnings

import apply_test as base
import torch
import torch.nn as nn

from torch_headroom import PolicyError, apply, remove


class Loss(nn.Module):
    """A loss around a model."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.model(x) * self.scale


class Average(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.module = copy.deepcopy(model)


class Twins(nn.Module):
    def __init__(self, one, other):
        super().__init__()
        self.one, self.other = one, other


LAYER = ("Net", "ModuleList", "Block")


class Names(base.ApplyTest):
    def document(self, entries, objects=()):
        """Of entries (fqn, types, saved); types are None in policies of older versions."""
        document = base.policy_of(base.model(), [])
        for fqn, types, saved in entries:
            (entry,) = base.policy_of(base.model(), ["layers.0"], saved)["modules"]
            document["modules"].append({**entry, "fqn": fqn, **({"types": list(types)} if types else {})})
        if objects:
            document["objects"] = list(objects)
        return document

    def checkpointed(self, net):
        return [name for name, module in net.named_modules() if "forward" in module.__dict__]

    def applied(self, net, document, **options):
        """The modules of `net` that are checkpointed then."""
        self.assertIs(apply(net, self.written(document), **options), net)
        return self.checkpointed(net)

    def check_refused(self, net, document, sentence, **options):
        with self.assertRaises(PolicyError) as caught:
            apply(net, self.written(document), **options)
        self.assertSentence(caught.exception, sentence)
        self.assertEqual(self.checkpointed(net), [])

    def test_the_object_that_was_recorded(self):
        for fqn, types in (("Net.layers.0", LAYER), ("Net.layers.0", None), ("models.Net.layers.0", None),
                           ("Net_2.layers.0", LAYER), ("models.Net_2.layers.0", None)):
            with self.subTest(fqn=fqn, types=types):
                document = self.document([(fqn, types, base.saves_products)])
                net = base.model()
                self.assertEqual(self.applied(net, document), ["layers.0"])
                for expected, got in zip(base.step(base.model())[0], base.step(net)[0]):
                    self.assertTrue(torch.equal(expected, got))

    def test_an_object_that_holds_it(self):
        document = self.document([("Net.layers.0", LAYER, base.saves_products)])
        self.assertEqual(self.applied(Loss(base.model()), document), ["model.layers.0"])
        self.assertEqual(self.applied(Average(base.model()), document), ["module.layers.0"])
        self.assertEqual(self.applied(nn.ModuleDict({"a": base.model()}), document), ["a.layers.0"])
        old = self.document([("models.Net_2.layers.0", None, base.saves_products)])
        self.assertEqual(self.applied(Loss(base.model()), old), ["model.layers.0"])

    def test_an_object_inside_of_what_was_recorded(self):
        document = self.document([("Loss.model.layers.0", ("Loss", *LAYER), base.saves_products),
                                  ("Loss.model.layers.2", ("Loss", *LAYER), base.saves_products)])
        net = base.model()
        self.assertEqual(self.applied(net, document), ["layers.0", "layers.2"])
        wrapped = self.document([("DistributedDataParallel.module.layers.1", ("DistributedDataParallel", *LAYER),
                                  base.saves_products)])
        self.assertEqual(self.applied(base.model(), wrapped), ["layers.1"])

    def test_a_part_of_it_that_looks_like_another_model(self):
        document = self.document([("Net.layers.0", LAYER, base.saves_products),
                                  ("ModuleList.1", ("ModuleList", "Block"), base.saves_products)], ["Net", "ModuleList"])
        self.assertEqual(self.applied(base.model(), document), ["layers.0"])

    def test_which_of_several_like_modules(self):
        document = self.document([("Net.layers.0", LAYER, base.saves_products)])
        twins = Twins(base.model(), base.model())
        self.check_refused(twins, document, "the plan for Net fits one, other of this model: apply the plan to the "
                                            "recorded module")
        self.assertEqual(self.applied(twins.other, document), ["layers.0"])

    def test_models_of_one_class_with_different_plans(self):
        document = self.document([("Net.layers.0", LAYER, base.saves_products),
                                  ("Net_2.layers.1", LAYER, base.saves_products)], ["Net", "Net_2"])
        one, other = base.model(), base.model()
        self.check_refused(one, document, "there are plans for Net, Net_2 (in the order of first calls), and each "
                                          "fits this Net: name the object, as in torch_headroom.apply(model, "
                                          "policy, object=\"Net\")")
        self.assertEqual(self.applied(other, document, object="Net_2"), ["layers.1"])
        self.assertEqual(self.applied(one, document, object="Net"), ["layers.0"])
        self.check_refused(base.model(), document, "the plan checkpoints nothing of Net_3, only Net, Net_2",
                           object="Net_3")
        inside = self.document([(f"Twins.{name}.layers.{i}", ("Twins", *LAYER), base.saves_products)
                                for i, name in enumerate(("one", "other"))])
        self.check_refused(base.model(), inside, "there are plans for Twins.one, Twins.other (in the order of first "
                                                 "calls), and each fits this Net: name the object, as in "
                                                 "torch_headroom.apply(model, policy, "
                           "object=\"Twins.one\")")
        self.assertEqual(self.applied(base.model(), inside, object="Twins.other"), ["layers.1"])
        self.assertEqual(self.applied(Twins(base.model(), base.model()), inside), ["one.layers.0", "other.layers.1"])
        self.check_refused(Twins(base.model(), base.model()), document, "the plans for Net, Net_2 (in the order of "
                                                                        "first calls) each fit one, other of this "
                                                                        "model: apply each plan to the recorded "
                                                                        "module, as in "
                           "torch_headroom.apply(model.one, policy, object=\"Net\")")

    def step_of(self, *nets):
        """The warnings of two steps with one optimizer each."""
        optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                for net, optimizer in zip(nets, optimizers):
                    base.step(net)
                    optimizer.step()
        return [str(warning.message) for warning in caught]

    def test_an_object_that_was_left_out_is_told_of(self):
        document = self.document([("Net.layers.0", LAYER, base.saves_products),
                                  ("Net_2.layers.0", LAYER, base.saves_products)], ["Net", "Net_2"])
        one, other = base.model(), base.model()
        self.assertEqual(self.applied(one, document), ["layers.0"])
        (message,) = self.step_of(one, other)
        self.assertIn("policy.json has plans for a module of Net_2, but was not applied there", message)
        self.assertEqual(self.applied(other, document), ["layers.0"])
        self.assertEqual(self.applied(remove(one), document), ["layers.0"])
        self.assertEqual(self.step_of(one, other), [])

    def test_an_object_that_the_plan_leaves_as_it_is(self):
        document = self.document([("Net.layers.0", LAYER, base.saves_products)], ["Net", "Twins_2"])
        twins = Twins(nn.Linear(2, 2), nn.Linear(2, 2))
        self.assertEqual(self.applied(twins, document), [])
        self.assertEqual(self.applied(twins, document, object="Twins_2"), [])
        self.assertEqual(self.applied(base.model(), document), ["layers.0"])
        self.check_refused(nn.Sequential(nn.Linear(2, 2)), document, "module Net.layers.0 belongs to a Net, and this "
                           "model is a Sequential: the policy was made for another model (net.py)")
        net = base.model()
        del net.layers
        self.check_refused(net, document, "the model has no module Net.layers.0; was the policy made for another "
                           "model?")
        document["objects"] = "Net"
        self.check_refused(twins, document, "objects: expected a list")

    def test_another_model(self):
        document = self.document([("Net.layers.0", LAYER, base.saves_products)])
        self.check_refused(nn.Sequential(nn.Linear(2, 2)), document, "module Net.layers.0 belongs to a Net, and this model "
                           "is a Sequential: the policy was made for another model (net.py)")
        plain = self.document([("Sequential.0", ("Sequential", "Block"), base.saves_products)])
        self.check_refused(nn.ModuleList([nn.Sequential(nn.Linear(2, 2))]), plain, "module Sequential.0 belongs to a "
                           "Sequential, and this model is a ModuleList: the policy was made for another model (net.py)")
        document["modules"][0]["types"] = ["Net"]
        self.check_refused(base.model(), document, "modules[0].types: expected 3 names of classes, as many as Net.layers.0 "
                           "has parts")


if __name__ == "__main__":
    unittest.main()
