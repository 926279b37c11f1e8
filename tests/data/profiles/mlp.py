# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A step that make_profiles.py records and profiles: the same ops on a simulated GPU and on the CPU."""
import torch


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def main(device, steps, after_step=lambda: None):
    torch.manual_seed(0)
    model = torch.nn.Sequential(Block(256), Block(256), torch.nn.Linear(256, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for _ in range(steps):
        x = torch.randn(64, 256, device=device)
        target = torch.randint(10, (64,), device=device)
        loss = torch.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        after_step()


if __name__ == "__main__":
    main("cuda", 2)
