# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A custom function saves a parameter whose data the program swaps, as ZeRO-3 and FSDP1 do: autograd keeps the leaf."""

import torch


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight, gradient.t() @ x


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        empty = [torch.nn.Parameter(torch.empty(0, device="cuda")) for _ in range(4)]
        self.weights = torch.nn.ParameterList(empty)

    def forward(self, x):
        for weight in self.weights:
            weight.data = torch.ones(2048, 2048, device="cuda")  # as a gather
            x = Linear.apply(x, weight)
            weight.data = torch.empty(0, device="cuda")
        return x


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
for step in range(3):
    out = net(torch.randn(16, 2048, device="cuda", requires_grad=True))
    print("after forward", torch.cuda.memory_allocated(), tuple(out.grad_fn.saved_tensors[1].shape))
    for weight in net.weights:
        weight.data = torch.ones(2048, 2048, device="cuda")
    out.sum().backward()
    for weight in net.weights:
        weight.grad = None
        weight.data = torch.empty(0, device="cuda")
    optimizer.step()
