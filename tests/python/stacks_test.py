# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Training loops as users write them: recorded, planned at a share of the peak, and run under the plan to the byte.

    stacks_test.py HEADROOM_PROGRAM
"""

import importlib.util
import os
import subprocess
import sys
import unittest

import support

support.need("torch")

from recorded_script import Recorded  # noqa: E402

_NET = """
    import os, torch, torch_headroom
    from torch import nn
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)
        def forward(self, x):
            return x + self.down(nn.functional.gelu(self.up(x)))
    def applied(model):
        return torch_headroom.apply(model, os.environ["POLICY"]) if "POLICY" in os.environ else model
    net = nn.Sequential(*(Block() for _ in range(6))).cuda()
    def loss():
        return net(torch.randn(4096, 256, device="cuda")).pow(2).mean()
"""

_TRAIN_LAYERS = """
    net = nn.Sequential(*(Layer() for _ in range(6))).cuda()
    applied(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    while True:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


class Stacks(Recorded):
    program = ""

    def headroom(self, *arguments):
        result = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True,
                                cwd=self.folder.name)
        self.assertEqual(result.returncode, 0, result.stderr)

    def check(self, script, share=0.7, *options):
        """Executes a plan at a share of the peak, and returns what the recorder says of the step without it."""
        found = self.recorded(script, *options)
        plain = self.step.rename(self.step.with_name("plain.hrs"))
        policy = self.step.with_name("policy.json")
        self.headroom("plan", plain, "--budget", int(found["peak_bytes"] * share), "-o", policy)
        os.environ["POLICY"] = str(policy)
        self.addCleanup(os.environ.pop, "POLICY", None)
        self.recorded(script, *options)
        self.headroom("verify", plain, "--executed", self.step, "--policy", policy)
        return found

    def test_sizes_that_random_numbers_decide(self):
        self.check(_NET + """
    import random
    import numpy
    applied(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    while True:
        rows = random.randrange(1000, 2000) + numpy.random.randint(1000) + int(torch.randint(1000, ()))
        net(torch.randn(rows, 256, device="cuda")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    """)

    def test_an_optimizer_that_wraps_another(self):
        found = self.check(_NET + """
    class SharpnessAware(torch.optim.Optimizer):
        def __init__(self, parameters, base):
            super().__init__(parameters, {})
            self.base = base(self.param_groups, lr=0.1)
            self.param_groups = self.base.param_groups
        @torch.no_grad()
        def first_step(self):
            for group in self.param_groups:
                for parameter in group["params"]:
                    self.state[parameter]["old"] = parameter.clone()
                    parameter.add_(parameter.grad, alpha=0.05)
            self.zero_grad()
        @torch.no_grad()
        def second_step(self):
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.copy_(self.state[parameter]["old"])
            self.base.step()
            self.zero_grad()
    applied(net)
    optimizer = SharpnessAware(net.parameters(), torch.optim.SGD)
    while True:
        loss().backward()
        optimizer.first_step()
        loss().backward()
        optimizer.second_step()
    """)
        self.assertEqual(found["notes"], [])

    def test_hooks_of_modules(self):
        self.check(_NET + """
    norms = {}
    net[2].register_forward_hook(lambda module, inputs, output: norms.update(seen=output.detach().norm()))
    net[3].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    net[4].register_full_backward_hook(lambda module, inputs, outputs: norms.update(grad=outputs[0].norm()))
    applied(net)
    optimizer = torch.optim.AdamW(net.parameters())
    while True:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()
    """, 0.6)

    def test_an_optimizer_inside_of_backward(self):
        self.check(_NET + """
    optimizers = {parameter: torch.optim.AdamW([parameter]) for parameter in net.parameters()}
    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()
    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    applied(net)
    while True:
        loss().backward()
    """)

    def test_ops_on_the_cpu_inside_of_modules(self):
        self.check(_NET + """
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = (nn.Parameter(torch.randn(256, 256)) for _ in range(2))
            self.act = nn.GELU()
        def forward(self, x):
            scale = (torch.ones(1, 2) @ torch.ones(2, 1)).item()
            return self.act(x @ self.up / scale) @ self.down
""" + _TRAIN_LAYERS, 0.8)

    def test_nodes_that_die_in_forward(self):
        self.check(_NET + """
    class Layer(Block):
        def choose(self, x):
            scores = x.sigmoid()
            return scores.masked_fill(scores > 0.9, 0).topk(64, dim=-1)[1]
        def forward(self, x):
            return super().forward(x).scatter_add(-1, self.choose(x), x[:, :64])
""" + _TRAIN_LAYERS)

    def test_saves_of_the_program_s_own_are_said(self):
        found = self.recorded(_NET + """
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    while True:
        with torch.autograd.graph.save_on_cpu():
            value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
    """)
        self.assertTrue(any("save_on_cpu" in remark for remark in found["remarks"]), found["remarks"])


    def check_transformer_engine(self, context, share):
        if not all(map(importlib.util.find_spec, ("transformer_engine", "onnxscript"))):
            self.skipTest("this Python has no TransformerEngine")
        self.check(f"""
    import os, torch, torch_headroom
    os.environ["NVTE_TORCH_COMPILE"] = "0"
    import transformer_engine.pytorch as te
    from transformer_engine.common.recipe import Float8CurrentScaling
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(te.TransformerLayer(512, 2048, 8, self_attn_mask_type="causal",
                                                            params_dtype=torch.bfloat16) for _ in range(4))
        def forward(self, x):
            with te.autocast(**{context}):
                for layer in self.layers:
                    x = layer(x)
            return x
    net = Net()
    if "POLICY" in os.environ:
        torch_headroom.apply(net, os.environ["POLICY"])
    optimizer = te.optimizers.FusedAdam(net.parameters())
    while True:
        net(torch.randn(1024, 4, 512, dtype=torch.bfloat16, device="cuda")).float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    """, share, "--gpu", "h100-80gb")

    def test_transformer_engine(self):
        self.check_transformer_engine('{"enabled": False}', 0.7)

    def test_transformer_engine_in_float8(self):
        self.check_transformer_engine('{"recipe": Float8CurrentScaling()}', 0.8)


if __name__ == "__main__":
    Stacks.program = sys.argv.pop()
    unittest.main()
