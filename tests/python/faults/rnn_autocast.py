# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recurrent network under autocast. argv[1] is its class: LSTM, GRU, RNN."""

import sys

import torch

net = getattr(torch.nn, sys.argv[1])(64, 128, num_layers=2, batch_first=True).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(3):
    x = torch.randn(8, 50, 64, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        y, _ = net(x)
        loss = y.float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("ran", y.dtype)
