# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The peak of a training step on the simulated GPU is the one that PyTorch's MemTracker says for the same step on fake
tensors, to the byte."""

import unittest

import support

torch = support.simulated("h100-80gb")

from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.distributed._tools.mem_tracker import MemTracker  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm, self.attention = nn.RMSNorm(width), Attention(width, heads)
        self.mlp_norm = nn.RMSNorm(width)
        self.gate, self.up, self.down = (nn.Linear(width, 4 * width, bias=False), nn.Linear(width, 4 * width, bias=False),
                                         nn.Linear(4 * width, width, bias=False))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """As Hugging Face's in what it does to memory: RMS norms, SwiGLU, causal attention, an untied head."""

    def __init__(self, layers=3, width=256, heads=4, vocabulary=1000):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def step(model, optimizer):
    tokens = torch.randint(0, 1000, (4, 128), device="cuda")
    logits = model(tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    del tokens, logits, loss, norm


def built(dtype):
    torch.set_default_dtype(dtype)
    try:
        with torch.device("cuda"):
            model = Llama()
    finally:
        torch.set_default_dtype(torch.float32)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def reference_peak(dtype):
    """Of the second step: the first one makes the optimizer's state."""
    with FakeTensorMode():
        model, optimizer = built(dtype)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with tracker:
            step(model, optimizer)
            tracker.reset_mod_stats()
            step(model, optimizer)
            snapshots = tracker.get_tracker_snapshot("peak")
    return {device.type: totals["Total"] for device, totals in snapshots.items()}["cuda"]


def simulated_peak(dtype):
    before, _ = support.tensor_bytes()
    model, optimizer = built(dtype)
    step(model, optimizer)
    torch.cuda.reset_peak_memory_stats()
    step(model, optimizer)
    return support.tensor_bytes()[1] - before


class Peaks(unittest.TestCase):
    def test_float32(self):
        self.assertEqual(simulated_peak(torch.float32), reference_peak(torch.float32))

    def test_bfloat16(self):
        self.assertEqual(simulated_peak(torch.bfloat16), reference_peak(torch.bfloat16))


if __name__ == "__main__":
    unittest.main()
