# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A `for` over 12,000 values of the GPU (a metric per sample). argv[1]: short or long, the length of the loop's body"""
import sys, torch
m = torch.nn.Linear(512, 512).cuda(); o = torch.optim.AdamW(m.parameters())
x = torch.randn(12000, 512, device="cuda")
body = "\n        ".join(f"a = a + {i}" for i in range(60)) if sys.argv[1] == "long" else "a = a + 1"
exec(compile(f'''
def metric(y):
    a = n = 0
    for i in range(12000):
        if y[i].item() > 0: n += 1
        {body}
    return n
''', "metric.py", "exec"))
for _ in range(3):
    y = m(x); loss = y.square().mean(); loss.backward(); o.step(); o.zero_grad()
    metric(y.detach()[:, 0])
print("ended by itself")
