# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A generator and a critic with an optimizer each, and a gradient penalty: gradients of gradients."""

import torch
import torch.nn as nn

device = torch.device("cuda", 0)
torch.cuda.set_device(device)

generator = nn.Sequential(
    nn.ConvTranspose2d(64, 128, 4, 1, 0, bias=False),
    nn.BatchNorm2d(128),
    nn.ReLU(),
    nn.ConvTranspose2d(128, 64, 4, 2, 1, bias=False),
    nn.BatchNorm2d(64),
    nn.ReLU(),
    nn.ConvTranspose2d(64, 3, 4, 2, 1),
    nn.Tanh(),
).cuda()
critic = nn.Sequential(
    nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(64, 128, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(2048, 1)
).cuda()
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizer_c = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
data = torch.rand(256, 3, 16, 16)


def penalty(real, fake):
    share = torch.rand(real.shape[0], 1, 1, 1, device=device)
    mixed = (share * real + (1 - share) * fake).requires_grad_(True)
    score = critic(mixed)
    (gradient,) = torch.autograd.grad(score, mixed, torch.ones_like(score), create_graph=True, retain_graph=True)
    return ((gradient.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


for iteration in range(8):
    real = data[torch.randint(0, len(data), (64,))].to(device)

    optimizer_c.zero_grad()
    noise = torch.randn(64, 64, 1, 1, device=device)
    fake = generator(noise).detach()
    critic_loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
    critic_loss.backward()
    optimizer_c.step()

    optimizer_g.zero_grad()
    generator_loss = -critic(generator(noise)).mean()
    generator_loss.backward()
    optimizer_g.step()
    print(f"{iteration}: critic {critic_loss.item():.3f} generator {generator_loss.item():.3f}")
