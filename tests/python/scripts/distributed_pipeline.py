# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Llama in stages, by the schedule that the first argument names."""

import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from distributed_model import Llama  # noqa: E402

interleaved = sys.argv[1] == "interleaved"
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda")


class Part(nn.Module):
    """Layers of a Llama, with what comes before the first and after the last."""

    def __init__(self, llama, number, count):
        super().__init__()
        size = len(llama.layers) // count
        self.tok_embeddings = llama.tok_embeddings if number == 0 else None
        self.layers = nn.ModuleList(llama.layers[number * size:(number + 1) * size])
        self.norm, self.output = (llama.norm, llama.output) if number == count - 1 else (None, None)

    def forward(self, x):
        x = self.tok_embeddings(x) if self.tok_embeddings else x
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x)) if self.output else x


with torch.device(device):
    llama = Llama(layers=8, width=256, heads=8, hidden=512, vocabulary=1000)
numbers = [rank, rank + world] if interleaved else [rank]
count = world * len(numbers)
parts = [Part(llama, number, count) for number in numbers]
del llama  # each rank holds its stages alone
stages = [PipelineStage(part, number, count, device) for part, number in zip(parts, numbers)]


def loss_of(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


schedule = (ScheduleInterleaved1F1B(stages, 4, loss_of) if interleaved else Schedule1F1B(stages[0], 4, loss_of))
optimizer = torch.optim.AdamW([parameter for part in parts for parameter in part.parameters()])
for step in range(3):
    tokens = torch.randint(0, 1000, (8, 128), device=device)
    inputs = (tokens,) if rank == 0 else ()
    is_last = numbers[-1] == count - 1
    schedule.step(*inputs, **({"target": tokens} if is_last else {}))
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
