# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# the usual way to look at memory: https-less, PyTorch's own recipe
import torch
torch.cuda.memory._record_memory_history(max_entries=100000)
m = torch.nn.Linear(1024, 1024).cuda(); o = torch.optim.AdamW(m.parameters())
for _ in range(3):
    m(torch.randn(64, 1024, device="cuda")).sum().backward(); o.step(); o.zero_grad()
torch.cuda.memory._dump_snapshot("snap.pickle")
torch.cuda.memory._record_memory_history(enabled=None)
