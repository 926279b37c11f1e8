# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fine-tuning: a frozen embedding and lower layers, checkpointed upper ones, fp16 with a gradient scaler, accumulation."""

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class Classifier(nn.Module):
    def __init__(self, width=512, layers=6, frozen=3):
        super().__init__()
        self.frozen = frozen
        self.embed = nn.Embedding(20000, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, norm_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, 4)
        self.embed.requires_grad_(False)
        self.layers[:frozen].requires_grad_(False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for index, layer in enumerate(self.layers):
            x = layer(x) if index < self.frozen else checkpoint(layer, x, use_reentrant=False)
        return self.head(x.mean(1))


def train(model, steps, accumulate):
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda")
    criterion = nn.CrossEntropyLoss()
    for step in range(steps):
        total = torch.zeros((), device="cuda")
        for _ in range(accumulate):
            tokens = torch.randint(0, 20000, (16, 128), device="cuda")
            labels = torch.randint(0, 4, (16,), device="cuda")
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = criterion(model(tokens), labels) / accumulate
            scaler.scale(loss).backward()
            total += loss.detach()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        print(f"step {step} loss {total.item():.4f} scale {scaler.get_scale()}")


if __name__ == "__main__":
    train(Classifier().cuda().train(), steps=6, accumulate=4)
