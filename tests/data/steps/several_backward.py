# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trainings with several models or several backward passes, recorded for the planner's tests and benchmarks:

    python -m torch_headroom.record --gpu a100-80gb -o gan.hrs several_backward.py gan

The files that are kept do not say where they were recorded.
"""
import sys

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.Sequential(nn.Linear(width, 2 * width), nn.Tanh(), nn.Linear(2 * width, width))
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width),
                                          nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.feed_forward(x)


class Stack(nn.Module):
    def __init__(self, blocks, out, width=256):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = nn.Linear(width, out)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def trained(*arguments, **options):
    model = Stack(*arguments, **options).cuda()
    return model, torch.optim.Adam(model.parameters())


def batch():
    return torch.randn(16, 256, 256, device="cuda")


def actor_critic():
    """Two models with a backward pass each."""
    critic, of_critic = trained(4, 1)
    actor, of_actor = trained(6, 16)

    def step():
        seen = batch()
        advantage = 1 - critic(seen).squeeze(-1)
        of_critic.zero_grad()
        advantage.square().mean().backward()
        of_critic.step()
        of_actor.zero_grad()
        (actor(seen).log_softmax(-1)[..., 0] * advantage.detach()).mean().backward()
        of_actor.step()

    return step


def gan():
    """A generator whose graph is held while the discriminator learns."""
    generator, of_generator = trained(6, 256)
    discriminator, of_discriminator = trained(4, 1)

    def step():
        fake = generator(batch())
        of_discriminator.zero_grad()
        (discriminator(batch()).sigmoid().log() - discriminator(fake.detach()).sigmoid().log()).mean().backward()
        of_discriminator.step()
        of_generator.zero_grad()
        discriminator(fake).sigmoid().log().mean().backward()
        of_generator.step()

    return step


def two_losses():
    """Two heads on one trunk, each with a backward pass of its own."""
    trunk, of_trunk = trained(6, 256)
    heads = [trained(2, 8), trained(3, 8)]

    def step():
        features = trunk(batch())
        losses = [head(features).square().mean() for head, _ in heads]
        of_trunk.zero_grad()
        for _, optimizer in heads:
            optimizer.zero_grad()
        losses[0].backward(retain_graph=True)
        losses[1].backward()
        for _, optimizer in (*heads, (trunk, of_trunk)):
            optimizer.step()

    return step


def multi_crop():
    """One model that runs for each of six crops before one backward pass, and a teacher of it."""
    student, of_student = trained(5, 64)
    teacher = Stack(5, 64).cuda().requires_grad_(False)

    def step():
        crops = [torch.randn(8, length, 256, device="cuda") for length in (256, 256, 64, 64, 64, 64)]
        targets = [teacher(crop).mean(1).softmax(-1) for crop in crops[:2]]
        outputs = [student(crop).mean(1).log_softmax(-1) for crop in crops]
        of_student.zero_grad()
        (-sum((target * output).mean() for target in targets for output in outputs)).backward()
        of_student.step()

    return step


run = globals()[sys.argv[1]]()
for _ in range(3):
    run()
