# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several models one after the other, the last ones after they ran out of memory: what becomes of the earlier ones?"""

import gc
import weakref

import torch


def train(width, batch, steps):
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(4)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    known.extend(map(weakref.ref, [model, model[0], model[0].weight, optimizer]))
    for _ in range(steps):
        model(torch.randn(batch, width, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


known = []
for batch, steps in ((32, 1), (32, 1), (1 << 24, 1), (1 << 23, 1), (32, 3)):
    try:
        train(1024, batch, steps)
    except torch.OutOfMemoryError:
        pass
    gc.collect()
    torch.cuda.empty_cache()
    alive = [type(thing()).__name__ for thing in known if thing() is not None]
    assert not alive, f"still alive: {alive}"
