# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The models of PyTorch's test/functorch/test_ac.py, class MemoryBudgetTest, as steps.

    python3 make_steps.py HEADROOM_RECORD

Their inputs are parameters here, so that the step makes gradients for them, as that test does.
"""

import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn


class RematerializesCheap(nn.Module):
    def __init__(self):
        super().__init__()
        self.x = nn.Parameter(torch.randn(512, 512))
        self.w = nn.Parameter(torch.randn(512, 512))

    def forward(self, unused):
        return torch.mm(self.x.cos(), self.w).sum()


class EvenChain(nn.Module):
    def __init__(self):
        super().__init__()
        self.x = nn.Parameter(torch.randn(512, 512))
        self.ws = nn.ParameterList([torch.randn(512, 512) for _ in range(5)])

    def forward(self, unused):
        x = self.x.cos()
        for w in self.ws:
            x = torch.mm(x, w).cos()
        return x.sum()


class Pairs(nn.Module):
    """A pair of (b, o) has a result of b * o MiB and takes b * b * o times the flops of a 512 square matmul."""

    def __init__(self, pairs):
        super().__init__()
        self.xs = nn.ParameterList([torch.randn(512 * b, 512 * b) for b, _ in pairs])
        self.ws = nn.ParameterList([torch.randn(512 * b, 512 * o) for b, o in pairs])

    def forward(self, unused):
        results = [torch.mm(x, w).cos() for x, w in zip(self.xs, self.ws)]
        return sum(x.sum() for x in results)


class UnevenChain(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.x = nn.Parameter(torch.randn(512, 512))
        self.ws = nn.ParameterList([torch.randn(512, 512 * width) for width in widths])

    def forward(self, unused):
        results = [torch.mm(self.x, w).cos() for w in self.ws]
        return sum(x.sum() for x in results)


class AttentionAndLinear(nn.Module):
    def __init__(self, s, d):
        super().__init__()
        self.x = nn.Parameter(torch.randn(512 * s, 512 * d))
        self.w = nn.Parameter(torch.randn(512 * d, 512 * d))

    def forward(self, unused):
        x = self.x.reshape(1, 1, *self.x.shape)
        x = nn.functional.scaled_dot_product_attention(x, x, x).reshape(*self.x.shape)
        return torch.mm(x, self.w).cos().sum()


def models():
    yield "rematerializes_cheap", RematerializesCheap()
    yield "matmul_even_chain", EvenChain()
    yield "prioritize_cheaper_matmul", Pairs([(1, 4), (2, 2)])
    yield "prioritize_cheaper_matmul2", Pairs([(4, 4), (6, 2), (2, 6)])
    yield "matmul_uneven_0", UnevenChain([11, 3, 4, 2])
    yield "matmul_uneven_1", UnevenChain([3, 5, 11, 17, 14])
    yield "matmul_uneven_2", UnevenChain([2, 32, 24, 16, 31, 25, 19, 50, 48, 26])
    for s, d in [(1, 1), (1, 3), (2, 2), (2, 1), (2, 5), (4, 7), (4, 9)]:
        yield f"attention_vs_linear_S{s}_D{d}", AttentionAndLinear(s, d)


def main():
    here = pathlib.Path(__file__).parent
    with torch.device("meta"):
        named = list(models())
    with tempfile.TemporaryDirectory() as folder:
        for name, model in named:
            exported = pathlib.Path(folder) / f"{name}.pt2"
            torch.export.save(torch.export.export(model, (torch.zeros(1),)), exported)
            subprocess.run(
                [sys.argv[1], "record", f"{name}.pt2", "--gpu", "a100-80gb", "--optimizer", "sgd",
                 "-o", here / f"{name}.hrs"],
                cwd=folder, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip


if __name__ == "__main__":
    main()
