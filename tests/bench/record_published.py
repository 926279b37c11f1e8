# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records the training steps of which others published how long they took, on the cards that they had.

record_published.py tests/data/published/training_steps.json FOLDER [PREFIX ...]: a step file for each row whose id
begins so (default: all). Needs torchvision, timm and transformers. tests/bench/bench_times.cpp reads the folder.
"""

import json
import os
import re
import sys
from pathlib import Path

import torch_headroom

CARDS = {
    "A100": "a100-40gb",
    "A100-SXM4 40GB": "a100-40gb",
    "A100-PCIe 40GB": "a100-40gb",
    "A100-SXM 80GB": "a100-80gb",
    "A100-SXM4 80GB": "a100-80gb",
    "A100 (Lambda cloud; 40GB SXM likely)": "a100-40gb",
    "H100-SXM5 80GB": "h100-80gb",
    "H200-SXM 141GB": "h200-141gb",
    "A100-PCIe 80GB": "a100-80gb",
    "V100-SXM2 16GB": "v100-32gb",
    "V100-PCIe 32GB": "v100-32gb",
    "L4": "l4-24gb",
    "V100-SXM2 32GB": "v100-32gb",
    "RTX 3090": "rtx-3090-24gb",
}


def train(torch, model, inputs, loss_of, optimizer, amp=None, channels_last=False, scaler=True, set_to_none=True):
    """A function that runs one training step. `set_to_none`: of zero_grad(); before torch 2.0 it was False."""
    if channels_last:
        model.to(memory_format=torch.channels_last)
    model.train()
    scale = torch.amp.GradScaler("cuda", enabled=amp == torch.float16 and scaler)

    def step():
        batch = inputs()
        if channels_last:
            batch = [t.to(memory_format=torch.channels_last) if t.dim() == 4 else t for t in batch]
        model.zero_grad(set_to_none=set_to_none)
        with torch.autocast("cuda", dtype=amp or torch.float16, enabled=amp is not None):
            loss = loss_of(model, *batch)
        scale.scale(loss).backward()
        if optimizer is not None:
            scale.step(optimizer)
            scale.update()

    return step


def images(torch, batch, size, dtype=None):
    def inputs():
        x = torch.randn(batch, 3, size, size)
        return [(x.to(dtype) if dtype else x).to("cuda"), torch.randint(0, 1000, (batch,)).to("cuda")]

    return inputs


def prefetched(torch, batch, size):
    """DeepLearningExamples' PrefetchedWrapper: pinned batches are copied on a stream of their own, one ahead."""
    stream = torch.cuda.Stream()

    def load():
        with torch.cuda.stream(stream):
            return [t.pin_memory().to("cuda", non_blocking=True)
                    for t in (torch.randn(batch, 3, size, size), torch.randint(0, 1000, (batch,)))]

    following = load()

    def inputs():
        nonlocal following
        torch.cuda.current_stream().wait_stream(stream)
        batch, following = following, load()
        return batch

    return inputs


def classify(model, x, y):
    import torch

    out = model(x)
    out = out[0] if isinstance(out, (tuple, list)) else getattr(out, "logits", out)
    return torch.nn.functional.cross_entropy(out.float(), y)


def torchvision_row(torch, row):
    import torchvision

    config = row["config"]
    name = config["model"].split()[1]
    half = config["dtype"].startswith("fp16")
    model = getattr(torchvision.models, name)()
    model = (model.half() if half else model).cuda()
    torch.backends.cudnn.benchmark = True
    inputs = images(torch, config["batch_per_gpu"], config["image"], torch.half if half else None)
    return train(torch, model, inputs, classify, None, set_to_none=False)


def timm_row(torch, row):
    import timm

    config = row["config"]
    names = {"convnext_nano_hnf": "convnext_nano_ols"}
    name = config["model"].split()[1]
    model = timm.create_model(names.get(name, name)).cuda()
    batch, size = config["batch_per_gpu"], config["image"]

    def inputs():
        return [torch.randn(batch, 3, size, size, device="cuda"), torch.randint(0, 1000, (batch,), device="cuda")]

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    # benchmark.py casts nothing and scales nothing: autocast alone.
    return train(torch, model, inputs, classify, optimizer, amp=torch.float16,
                 channels_last=config["memory_format"] == "nhwc", scaler=False)


def imagenet_row(torch, row):
    """NVIDIA's DeepLearningExamples and Lambda's benchmark."""
    import timm
    import torchvision

    config = row["config"]
    name = config["model"]
    batch, size = config["batch_per_gpu"], config.get("image", 224)
    if name.startswith("resnet50"):
        model = torchvision.models.resnet50()
    else:
        model = timm.create_model({"resnext101_32x4d": "resnext101_32x4d", "se_resnext101_32x4d": "seresnext101_32x4d",
                                   "efficientnet-b0": "efficientnet_b0", "efficientnet-b4": "efficientnet_b4"}[name])
    model = model.cuda()
    torch.backends.cudnn.benchmark = True
    if config["opt"].startswith("SGD"):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    else:
        optimizer = torch.optim.RMSprop(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    if config["dtype"] == "TF32":
        torch.backends.cuda.matmul.allow_tf32 = True
    amp = torch.float16 if config["dtype"].startswith("AMP") else None
    return train(torch, model, prefetched(torch, batch, size), classify, optimizer, amp=amp,
                 channels_last=config["memory_format"] == "nhwc")


def bert_row(torch, row):
    """BERT pretraining of NVIDIA's DeepLearningExamples: one micro step, without the optimizer's."""
    from transformers import BertConfig, BertForPreTraining

    config = row["config"]
    shape = BertConfig(vocab_size=config["vocab"], hidden_size=config["d"], num_hidden_layers=config["layers"],
                       num_attention_heads=config["heads"], intermediate_size=config["ffn"])
    shape._attn_implementation = "eager"
    model = BertForPreTraining(shape).cuda()
    if config["dtype"] == "TF32":
        torch.backends.cuda.matmul.allow_tf32 = True
    batch, length = config["micro_batch"], config["seq"]

    def inputs():
        ids = torch.randint(0, 30000, (batch, length), device="cuda")
        masked = torch.arange(0, batch * length, length // 20, device="cuda")[:20 * batch]
        return [ids, torch.ones_like(ids), masked, ids.flatten()[masked], torch.zeros_like(ids[:, 0])]

    def loss_of(model, ids, mask, masked, labels, following):
        """`dense_sequence_output`, as its run_pretraining.py sets it: words are predicted for the 20 masked ones."""
        hidden, pooled = model.bert(input_ids=ids, attention_mask=mask, return_dict=False)
        words, pair = model.cls(hidden.flatten(0, 1).index_select(0, masked), pooled)
        return torch.nn.functional.cross_entropy(words, labels) + torch.nn.functional.cross_entropy(pair, following)

    amp = torch.float16 if config["dtype"].startswith("AMP") else None
    return train(torch, model, inputs, loss_of, None, amp=amp)


def neusight_row(torch, row):
    """NeuSight's training in float32: attention of single ops, no optimizer, a loss beside the model."""
    from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel, OPTConfig, OPTForCausalLM

    config = row["config"]
    width, layers, heads, length = (config[name] for name in ("d", "layers", "heads", "seq"))
    if config["model"] == "BERT large":
        kind, shape = BertForPreTraining, BertConfig(hidden_size=width, num_hidden_layers=layers,
                                                     num_attention_heads=heads, intermediate_size=config["ffn"])
    elif config["model"] == "OPT":
        kind, shape = OPTForCausalLM, OPTConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
                                                ffn_dim=config["ffn"], word_embed_proj_dim=width)
    else:
        kind, shape = GPT2LMHeadModel, GPT2Config(n_embd=width, n_layer=layers, n_head=heads, n_positions=length)
    shape._attn_implementation = "eager"
    with torch.device("cuda"):
        model = kind(shape)
    ids = torch.ones(config["batch_per_gpu"], length, dtype=torch.int64, device="cuda")

    def loss_of(model, ids):
        logits = model(ids)["prediction_logits" if kind is BertForPreTraining else "logits"]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())

    return train(torch, model, lambda: [ids], loss_of, None)


def vit_row(torch, row):
    """rasbt/pytorch-memory-optim: ViT-L/16 on images of CIFAR-10."""
    import torchvision

    config = row["config"]
    model = torchvision.models.vit_l_16()
    model.heads.head = torch.nn.Linear(1024, 10)
    pure = config["dtype"] == "bf16"
    model = (model.to(torch.bfloat16) if pure else model).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-5)

    def inputs():
        x = torch.randn(config["batch_per_gpu"], 3, 224, 224).to("cuda")
        return [x.to(torch.bfloat16) if pure else x, torch.randint(0, 10, (config["batch_per_gpu"],)).to("cuda")]

    amp = torch.float16 if config["dtype"].startswith("AMP") else None
    return train(torch, model, inputs, classify, optimizer, amp=amp)


def classifier_row(torch, row):
    """Hugging Face's guide of 2022: BERT large, four micro-batches of one, recomputed."""
    from transformers import BertConfig, BertForSequenceClassification

    amp = row["config"]["dtype"].startswith("AMP")
    shape = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    shape._attn_implementation = "eager"
    model = BertForSequenceClassification(shape).cuda()
    model.gradient_checkpointing_enable()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, foreach=False)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)

    def step():
        for _ in range(4):
            ids = torch.randint(100, 30000, (1, 512)).to("cuda")
            label = torch.zeros(1, dtype=torch.long).to("cuda")
            with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
                loss = model(input_ids=ids, labels=label).loss
            scaler.scale(loss / 4).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        scaler.step(optimizer)
        scaler.update()
        model.zero_grad(set_to_none=False)

    return step


BUILDERS = [("vit-", vit_row), ("hf-", classifier_row), ("timm-nchw-", timm_row),
            ("ryu-", torchvision_row), ("timm3090-", timm_row), ("dle-rnxt", imagenet_row), ("dle-sernxt", imagenet_row),
            ("dle-efficientnet", imagenet_row), ("lam-rn50", imagenet_row),  ("dle-bert", bert_row),
            ("neusight-", neusight_row)]



def main():
    rows = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(sys.argv[2])
    prefixes = sys.argv[3:] or [""]
    for row in rows:
        builder = next((b for p, b in BUILDERS if row["id"].startswith(p)), None)
        wanted = any(row["id"].startswith(p) for p in prefixes)
        if builder is None or not wanted or row["gpus"] != 1 or not row.get("step_time_s"):
            continue
        file = folder / (re.sub(r"[^\w.-]+", "_", row["id"].strip()) + ".hrs")
        if file.exists():
            continue
        # A simulated card is chosen once in a process.
        child = os.fork()
        if child == 0:
            try:
                torch_headroom.simulate(CARDS[row["gpu"]])
                import torch

                step = builder(torch, row)
                with torch_headroom.record(str(file)) as recording:
                    for _ in range(2):
                        step()
                        recording.step()
                print(row["id"], flush=True)
            except Exception as error:
                print(row["id"], type(error).__name__, str(error)[:300], file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
