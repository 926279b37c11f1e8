# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of `torch-headroom fit` for five models on a card of 24 and a card of 80 GB, without kept recordings: the
seconds of each table, the processor's seconds, and what the table names.

    fit_tables.py HEADROOM [MODEL ...]    # prints the tables of the models (default: all)
    fit_tables.py --train MODEL BATCH     # the training script that is recorded

HEADROOM is the program torch-headroom; its Python needs torch, transformers and torchvision. Weights are random.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time

CARDS = "rtx-4090-24gb,a100-80gb"


def gpt2(torch):
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False)), 50257, 1024


def llama(torch):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                         num_attention_heads=32, num_key_value_heads=8, tie_word_embeddings=True, use_cache=False)
    return LlamaForCausalLM(config).to(torch.bfloat16), 128256, 2048


def t5(torch):
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_decoder_layers=12, num_heads=12,
                      use_cache=False, decoder_start_token_id=0)
    return T5ForConditionalGeneration(config), 32128, 512


def resnet(torch):
    import torchvision

    return torchvision.models.resnet50(), 1000, None


def vit(torch):
    import torchvision

    return torchvision.models.vit_b_16(), 1000, None


MODELS = {"gpt2": gpt2, "llama-1b": llama, "resnet50": resnet, "vit-b": vit, "t5-base": t5}


def train(name, batch):
    import torch

    with torch.device("cuda"):
        model, classes, length = MODELS[name](torch)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(4):
        if length:
            words = torch.randint(0, classes, (batch, length), device="cuda")
            loss = model(input_ids=words, labels=words).loss
        else:
            images = torch.randn(batch, 3, 224, 224, device="cuda")
            labels = torch.randint(0, classes, (batch,), device="cuda")
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def used_seconds():
    """The processor's seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(headroom, name):
    """The document of `fit`, its seconds and the processor's."""
    with tempfile.TemporaryDirectory() as cache:
        begin, used = time.monotonic(), used_seconds()
        done = subprocess.run([headroom, "fit", __file__, "--gpu", CARDS, "--vary", "batch=1..", "--json", "--train",
                               name, "{batch}"], env=os.environ | {"XDG_CACHE_HOME": cache}, stdout=subprocess.PIPE)
        seconds = time.monotonic() - begin
    if done.returncode != 0:
        sys.exit(f"{name}: torch-headroom fit ended with exit code {done.returncode}")
    return json.loads(done.stdout), seconds, used_seconds() - used


def named(series):
    """The batches that a table names: the largest without a plan, the largest, and the fastest with its samples/s."""
    def row(index):
        return series["rows"][series[index]] if series[index] is not None else None

    batches = [row(index) and row(index)["batch"] for index in ("largest_without_plan", "largest", "fastest")]
    fastest = row("fastest")
    run = fastest and (fastest["plain"] if fastest["plain"]["runs"] else fastest["planned"])
    return f"{series['gpu']:<16}{batches[0]!s:>8}{batches[1]!s:>8}{batches[2]!s:>8}{run['samples_per_second']:>10.2f}"


def main():
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(MODELS):
        sys.exit(f"fit_tables.py: expected the program torch-headroom, and any of the models {', '.join(MODELS)}")
    for name in sys.argv[2:] or MODELS:
        document, seconds, used = table(sys.argv[1], name)
        print(f"{name}: {seconds:.1f} s, {used:.1f} s of the processor, {document['cache']['recorded']} recordings\n"
              f"{'card':<16}{'plain':>8}{'largest':>8}{'fastest':>8}{'samples/s':>10}")
        for series in document["series"]:
            print(named(series), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(sys.argv[2], int(sys.argv[3]))
    else:
        main()
