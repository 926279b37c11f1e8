# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A residual CNN: DataLoader with workers, SGD with momentum, a learning-rate schedule, evaluation after each epoch.
Gradients are cleared before backward."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def unit(inputs, outputs, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True))


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.body = nn.Sequential(unit(inputs, outputs, 2), unit(outputs, outputs))
        self.shortcut = nn.Conv2d(inputs, outputs, 1, 2)

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = unit(3, 32)
        self.stages = nn.Sequential(Residual(32, 64), Residual(64, 128), Residual(128, 256))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, 10))

    def forward(self, x):
        return self.head(self.stages(self.stem(x)))


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    right = sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images = TensorDataset(torch.rand(256, 3, 32, 32), torch.randint(0, 10, (256,)))
    loader = DataLoader(images, batch_size=64, shuffle=True, num_workers=2, pin_memory=True, drop_last=True)
    model = Net().to(device)
    print(f"untrained accuracy {accuracy(model, loader, device):.2f}")
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    for epoch in range(3):
        running = 0.0
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        schedule.step()
        print(f"epoch {epoch} loss {running / len(loader):.3f} accuracy {accuracy(model, loader, device):.2f}")


if __name__ == "__main__":
    main()
