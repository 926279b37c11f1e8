# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# as nsys recipes do: profile from the second step on
import torch
m = torch.nn.Linear(512, 512).cuda(); o = torch.optim.AdamW(m.parameters())
for step in range(3):
    if step == 1: torch.cuda.profiler.start()
    m(torch.randn(64, 512, device="cuda")).sum().backward(); o.step(); o.zero_grad()
torch.cuda.profiler.stop()
print("ended")
