# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fused weight gradients as in Megatron: the backward of a function reads an attribute of a saved parameter, compares
objects, and reads attributes of a buffer and of inputs that live on or do not."""

import torch
from torch import nn


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, scale):
        mask = x > 0
        mask.meaning = "mask"
        ctx.save_for_backward(x, weight, scale, mask)
        return x @ weight.t() * scale

    @staticmethod
    def backward(ctx, gradient):
        x, weight, scale, mask = ctx.saved_tensors
        assert x.meaning == "input" and mask.meaning == "mask"
        assert not kept or any(x is one for one in kept), "another input"
        assert any(weight is parameter for parameter in net.parameters()), "another weight"
        assert any(scale is buffer for buffer in net.buffers()) and scale.meaning == "scale", "another buffer"
        assert type(weight) is nn.Parameter and weight.is_leaf and weight.requires_grad
        weight.main_grad.addmm_((gradient * scale).t().float(), x.float())
        return gradient * scale @ weight, None, None


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width))
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x):
        x.meaning = "input"
        if keeps:
            kept.append(x)
        return Linear.apply(x, self.weight, self.scale)


net = nn.Sequential(Layer(256), nn.GELU(), Layer(256)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for parameter in net.parameters():
    parameter.main_grad = torch.zeros_like(parameter, dtype=torch.float32)
for buffer in net.buffers():
    buffer.meaning = "scale"
kept = []  # inputs of layers
for step, keeps in enumerate((True, False, True)):
    x = torch.randn(64, 256, device="cuda", requires_grad=True)
    out = net(x)
    weight = next(net.parameters())
    assert weight is out.grad_fn.next_functions[0][0].next_functions[0][0].saved_tensors[1]
    out.sum().backward()
    for parameter in net.parameters():
        parameter.grad = parameter.main_grad
    optimizer.step()
    for parameter in net.parameters():
        parameter.main_grad.zero_()
    kept.clear()
