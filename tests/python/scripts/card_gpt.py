# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A transformer that trains with AdamW on the card at hand; POLICY is applied if it is set. EVALUATES is when it is
evaluated on a larger batch: before training, between steps, or both; with `tries`, a forward of TRIES rows that saves for
a backward, which never comes, precedes the optimizer, and a block stays. LENGTHS are those of the steps, and
ROWS their batch. Prints the most bytes that the allocator has reserved after each step."""

import os

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, LENGTH, CLASSES = 512, 512, 16000
ROWS = int(os.environ.get("ROWS", 8))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(CLASSES, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(12))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        y = self.embedding(x)
        for block in self.blocks:
            y = block(y)
        return F.cross_entropy(self.head(y).flatten(0, 1), x.flatten())


if "LIMIT" in os.environ:
    torch.cuda.set_per_process_memory_fraction(
        int(os.environ["LIMIT"]) / torch.cuda.get_device_properties(0).total_memory)
model = Net().cuda()
if "POLICY" in os.environ:
    import torch_headroom
    torch_headroom.apply(model, os.environ["POLICY"])
evaluates = os.environ.get("EVALUATES", "").split()
if "tries" in evaluates:
    kept = torch.empty(40 << 20, device="cuda")
    loss = model(torch.randint(CLASSES, (int(os.environ.get("TRIES", 1)), LENGTH // 2), device="cuda"))
    kept = torch.empty(20 << 20, device="cuda")
    del loss
optimizer = torch.optim.AdamW(model.parameters())


def evaluate():
    with torch.no_grad():
        for length in LENGTH - 100, LENGTH:
            model(torch.randint(CLASSES, (2 * ROWS, length), device="cuda"))


if "before" in evaluates:
    evaluate()
lengths = [int(length) for length in os.environ.get("LENGTHS", "").split()] or [LENGTH] * 5
for length in lengths:
    model(torch.randint(CLASSES, (ROWS, length), device="cuda")).backward()
    optimizer.step()
    optimizer.zero_grad()
    if "between" in evaluates:
        evaluate()
    print("reserved", torch.cuda.max_memory_reserved(), flush=True)
