# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A step that needs half of a card of 8 GB by the sum of its blocks. If the last one has 4 GiB it finds no room: a
small one lies in the segment that was used before. argv[1] says how many GiB it has."""

import sys

import torch

model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(8, 64, device="cuda")).sum()
    torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
    small = torch.empty(16 << 20, dtype=torch.uint8, device="cuda")
    torch.empty(int(sys.argv[1]) << 30, dtype=torch.uint8, device="cuda")
    del small
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
