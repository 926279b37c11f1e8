# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where offload pays, as a table of the manual: plans of five steps on the time model's H100, by the link to the host.

    offload_tables.py HEADROOM [STEP ...]    # prints the rows of the steps (default: all): 2 min on two cores
    offload_tables.py --train STEP           # the training script that is recorded

The budget is 30 % of the way from the least memory of recomputation to the step's own. HEADROOM is the program
torch-headroom; its Python needs torch, transformers and torchvision. Weights are random.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

LINKS = {"PCIe 3": "12", "PCIe 4": "25", "PCIe 5": "53.1", "GH200": "170,416", "GB300": "193.5,211.5"}  # GB/s
SHARE = 0.3


def gpt2(batch, length):
    """GPT-2 small in float32 with autocast."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_positions=length, use_cache=False))

    def loss():
        words = torch.randint(0, 50257, (batch, length), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            return model(input_ids=words, labels=words).loss

    return model, loss


def vit():
    """ViT-L/14 in float32 with autocast, 64 images."""
    import torch
    from torchvision.models import VisionTransformer

    model = VisionTransformer(224, 14, 24, 16, 1024, 4096)

    def loss():
        images, labels = torch.randn(64, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (64,), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            return torch.nn.functional.cross_entropy(model(images), labels)

    return model, loss


def llama(batch, length, **sizes):
    """A Llama 3 in bfloat16."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(vocab_size=128256, num_attention_heads=32, num_key_value_heads=8,
                                         max_position_embeddings=length, use_cache=False, **sizes)).to(torch.bfloat16)

    def loss():
        words = torch.randint(0, 128256, (batch, length), device="cuda")
        return model(input_ids=words, labels=words).loss

    return model, loss


STEPS = {
    "gpt2": ("GPT-2 small, 16 × 1,024", lambda: gpt2(16, 1024)),
    "gpt2-long": ("GPT-2 small, 1 × 16,384", lambda: gpt2(1, 16384)),
    "vit-l": ("ViT-L/14, 64 images", vit),
    "llama-1b": ("Llama 1B, 4 × 2,048", lambda: llama(
        4, 2048, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, tie_word_embeddings=True)),
    "llama-8b-8": ("8 layers of Llama 8B, 1 × 8,192", lambda: llama(
        1, 8192, hidden_size=4096, intermediate_size=14336, num_hidden_layers=8, tie_word_embeddings=False)),
}


def train(name):
    import torch

    with torch.device("cuda"):
        model, loss = STEPS[name][1]()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(3):
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()


def plan(headroom, step, *options):
    done = subprocess.run([headroom, "plan", step, "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True)
    if not done.stdout:
        sys.exit(f"torch-headroom plan ended with exit code {done.returncode}")
    return json.loads(done.stdout)


def rows(headroom, name, folder):
    step = str(pathlib.Path(folder) / f"{name}.hrs")
    subprocess.run([headroom, "record", "--gpu", "h100-80gb", "--no-source-lines", "-o", step, __file__, "--train",
                    name], check=True, stdout=subprocess.DEVNULL)
    none = plan(headroom, step, "--budget", "1")
    least, own = none["least_budget_bytes"], none["baseline_peak_bytes"]
    budget = str(least + int(SHARE * (own - least)))
    alone = plan(headroom, step, "--budget", budget)
    cells = {"both": [], "offload alone": []}
    for link in LINKS.values():
        for kind, options in (("both", ()), ("offload alone", ("--no-recompute",))):
            found = plan(headroom, step, "--budget", budget, "--offload", "--host-bandwidth", link, *options)
            cells[kind].append(f"{found['recompute_ms'] + found['offload']['exposed_ms']:,.1f}"
                               f" ({found['offload']['moved_bytes'] / 1e9:.1f})")
    size = f"{own / 2**30:.1f} → {int(budget) / 2**30:.1f}"
    print(f"| {STEPS[name][0]} | {size} | {alone['step_ms']:.0f} ms | {alone['recompute_ms']:.1f} | both | "
          + " | ".join(cells["both"]) + " |")
    print("| | | | | offload alone | " + " | ".join(cells["offload alone"]) + " |", flush=True)


def main():
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(STEPS):
        sys.exit(f"offload_tables.py: expected the program torch-headroom, and any of the steps {', '.join(STEPS)}")
    print("| step | GiB: own → budget | forward, backward | recompute alone | plan | " + " | ".join(LINKS) + " |")
    print("|" + "---|" * (5 + len(LINKS)))
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or STEPS:
            rows(sys.argv[1], name, folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(sys.argv[2])
    else:
        main()
