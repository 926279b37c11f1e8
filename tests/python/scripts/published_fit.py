# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trains as a row of tests/data/published/fit_rows.json says, with random weights:

    published_fit.py ROW [--batch N] [--seq N]

The models are those of the packages that the rows name. Qwen's first models, whose code is on the Hub alone, are
written here.
"""

import argparse
import json
import os
import pathlib

import torch
from torch import nn
from torch.nn import functional

_ROWS = pathlib.Path(__file__).parents[2] / "data" / "published" / "fit_rows.json"
_LLAMA = {"Llama-3.2-3B": (3072, 8192, 28, 24, 8, 128256, True), "Llama-3.1-8B": (4096, 14336, 32, 32, 8, 128256, False),
          "Llama-3-8B": (4096, 14336, 32, 32, 8, 128256, False), "Llama-2-7B": (4096, 11008, 32, 32, 32, 32000, False),
          "Mistral-7B-v0.1": (4096, 14336, 32, 32, 8, 32000, False)}
_QWEN = {"Qwen-1.8B": (2048, 24, 16, 5504), "Qwen-7B": (4096, 32, 32, 11008), "Qwen-14B": (5120, 40, 40, 13696)}


def llama(name, device="cuda"):
    from transformers import LlamaConfig, LlamaForCausalLM

    width, inner, layers, heads, groups, words, tied = _LLAMA[name]
    shape = LlamaConfig(vocab_size=words, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
                        num_attention_heads=heads, num_key_value_heads=groups, tie_word_embeddings=tied,
                        max_position_embeddings=131072, use_cache=False)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = LlamaForCausalLM(shape)
    torch.set_default_dtype(torch.float32)
    return model.train()


def tokens(words, batch, length):
    return torch.randint(0, words, (batch, length), device="cuda")


def loss_of_2024(model, ids):
    """The loss of transformers until late in 2024: float32 logits, and a copy of these without the last token."""
    logits = model(input_ids=ids).logits.float()
    shifted = logits[..., :-1, :].contiguous()
    return functional.cross_entropy(shifted.view(-1, shifted.shape[-1]), ids[..., 1:].flatten())


def timm_step(row, batch, length):
    """timm's benchmark.py --amp: autocast, nothing scaled. Where timm is missing, the same models of torchvision."""
    try:
        import timm

        model = timm.create_model(row["model"])
    except ImportError:
        import torchvision

        model = getattr(torchvision.models, row["model"])()
    model = model.cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, nesterov=True)
    images = torch.randn(batch, 3, 224, 224, device="cuda")

    def step():
        labels = torch.randint(0, 1000, (batch,), device="cuda")
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            output = model(images)
        functional.cross_entropy(output, labels).backward()
        optimizer.step()

    return step


def litgpt_step(row, batch, length):
    """litgpt finetune, as its configurations set it: one micro-batch of the longest texts."""
    import lightning
    from litgpt.utils import chunked_cross_entropy

    adapted = "lora" in row
    quantized = row.get("quantize")
    if quantized:
        from lightning.fabric.plugins import BitsandbytesPrecision

        fabric = lightning.Fabric(accelerator="cuda", devices=1, plugins=BitsandbytesPrecision(quantized, torch.bfloat16))
    else:
        fabric = lightning.Fabric(accelerator="cuda", devices=1, precision="bf16-true")
    if adapted:
        from litgpt.lora import GPT, Config, mark_only_lora_as_trainable

        # Its chunks of logits had no soft cap then.
        config = Config.from_name(row["model"], **row["lora"], final_logit_softcapping=None)
    else:
        from litgpt.model import GPT, Config

        config = Config.from_name(row["model"])
    with fabric.init_module(empty_init=False):
        model = GPT(config)
    if adapted:
        mark_only_lora_as_trainable(model)
    model = fabric.setup_module(model)
    if quantized:
        import bitsandbytes
        from bitsandbytes.autograd import _functions

        product = _functions.MatMul4Bit.forward

        def keeping(ctx, x, *others):
            """Keeps the product's input, as bitsandbytes 0.42 does."""
            ctx.input = x if any(ctx.needs_input_grad[:2]) else None
            return product(ctx, x, *others)

        _functions.MatMul4Bit.forward = staticmethod(keeping)
        optimizer = bitsandbytes.optim.PagedAdamW(model.parameters(), lr=2e-4)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    model.max_seq_length = length
    optimizer = fabric.setup_optimizers(optimizer)

    def step():
        for _ in range(2):  # of the micro-batches, all alike
            ids = tokens(config.vocab_size, batch, length)
            if adapted:
                logits = model(ids, lm_head_chunk_size=128)
                logits[-1] = logits[-1][..., :-1, :]
                loss = chunked_cross_entropy(logits, ids[..., 1:])
            else:
                loss = chunked_cross_entropy(model(ids)[..., :-1, :], ids[..., 1:])
            fabric.backward(loss / 2)
        optimizer.step()
        optimizer.zero_grad()

    return step


def peft_step(row, batch, length):
    """PEFT's method_comparison/MetaMathQA/run.py."""
    import peft

    model = llama(row["model"])
    adapter = dict(row["adapter"])
    kind = peft.mapping.PEFT_TYPE_TO_CONFIG_MAPPING[peft.PeftType[adapter.pop("peft_type")]]
    model = peft.get_peft_model(model, kind(task_type="CAUSAL_LM", **adapter),
                                autocast_adapter_dtype=row.get("autocast_adapter_dtype", True))
    if row.get("optimizer") == "lora-fa":
        from peft.optimizers import create_lorafa_optimizer

        optimizer = create_lorafa_optimizer(model, r=32, lora_alpha=64, lr=1e-4, weight_decay=0.1)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1)

    # run.py measures the plain model first. On the way back PEFT asks for gradients of all adapters: LoRA-FA's frozen
    # half has gradients from here on.
    with model.disable_adapter():
        pass
    outputs = None

    def step():
        nonlocal outputs  # of the step before, too: the loop keeps the logits until the next forward has ended
        ids = tokens(128256, batch, length)
        optimizer.zero_grad()
        outputs = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids.clone(),
                        num_items_in_batch=ids.numel())
        outputs.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


class QwenNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x) * self.weight


class QwenBlock(nn.Module):
    """A block of Qwen's first models: one product for query, key and value, and a gate."""

    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = QwenNorm(width), QwenNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width, bias=False)})
        self.mlp = nn.ModuleDict({"w1": nn.Linear(width, inner, bias=False), "w2": nn.Linear(width, inner, bias=False),
                                  "c_proj": nn.Linear(inner, width, bias=False)})

    def rotated(self, x, cosine, sine):
        wide = x.float()
        first, second = wide.chunk(2, -1)
        return (wide * cosine + torch.cat((-second, first), -1) * sine).type_as(x)

    def forward(self, x, cosine, sine):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1)
                   for part in self.attn["c_attn"](self.ln_1(x)).split(width, -1))
        q, k = self.rotated(q, cosine, sine), self.rotated(k, cosine, sine)
        mixed = functional.scaled_dot_product_attention(*(part.transpose(1, 2) for part in (q, k, v)), is_causal=True)
        x = x + self.attn["c_proj"](mixed.transpose(1, 2).reshape(batch, length, width))
        normed = self.ln_2(x)
        gated = self.mlp["w1"](normed) * functional.silu(self.mlp["w2"](normed))
        return x + self.mlp["c_proj"](gated)


class Qwen(nn.Module):
    def __init__(self, width, layers, heads, inner):
        super().__init__()
        self.wte = nn.Embedding(151936, width)
        self.h = nn.ModuleList(QwenBlock(width, heads, inner) for _ in range(layers))
        self.ln_f = QwenNorm(width)
        self.lm_head = nn.Linear(width, 151936, bias=False)
        self.rotary = width // heads

    def forward(self, ids):
        angles = torch.outer(torch.arange(ids.shape[1], device=ids.device, dtype=torch.float32),
                             torch.ones(self.rotary // 2, device=ids.device))
        angles = torch.cat((angles, angles), -1)[None, :, None, :]
        cosine, sine = angles.cos(), angles.sin()
        x = self.wte(ids)
        x.requires_grad_()  # enable_input_require_grads()
        for block in self.h:
            x = torch.utils.checkpoint.checkpoint(block, x, cosine, sine, use_reentrant=True)
        logits = self.lm_head(self.ln_f(x))
        loss = functional.cross_entropy(logits[:, :-1].contiguous().flatten(0, 1), ids[:, 1:].contiguous().flatten())
        return loss, logits


class Lora(nn.Module):
    """A linear layer with an adapter, as PEFT computed one in 2023: in float32."""

    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        self.a = nn.Linear(base.in_features, rank, bias=False, dtype=torch.float32)
        self.b = nn.Linear(rank, base.out_features, bias=False, dtype=torch.float32)
        self.dropout = nn.Dropout(0.05)

    def forward(self, x):
        result = self.base(x)
        result = result + self.b(self.a(self.dropout(x.to(self.a.weight.dtype)))) * 0.25
        return result


def qwen_step(row, batch, length):
    """finetune.py of QwenLM/Qwen with --use_lora --gradient_checkpointing --bf16, texts padded to the length."""
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Qwen(*_QWEN[row["model"]]).requires_grad_(False)
        for module in list(model.modules()):
            for name, layer in list(module.named_children()):
                if isinstance(layer, nn.Linear) and layer is not model.lm_head and not isinstance(module, Lora):
                    setattr(module, name, Lora(layer, 64)) if not isinstance(module, nn.ModuleDict) else module.update(
                        {name: Lora(layer, 64)})
    torch.set_default_dtype(torch.float32)
    if row["method"] == "LoRA+emb":  # PEFT trains copies of the embedding and the output layer
        import copy

        kept = model.wte, model.lm_head
        model.wte, model.lm_head = copy.deepcopy(model.wte).requires_grad_(), copy.deepcopy(model.lm_head).requires_grad_()
        model.__dict__["kept"] = kept
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=3e-4, weight_decay=0.1, foreach=True)

    def step():
        for _ in range(2):  # of the 8 micro-batches, all alike
            ids = tokens(151936, batch, length)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss, logits = model(ids)
            logits.float()  # accelerate's convert_outputs_to_fp32
            del logits
            (loss / 8).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        model.zero_grad()

    return step


def torchao_step(row, batch, length):
    """torchao's benchmarks: ViT-H under autocast, compiled; Llama 2 7B in bfloat16, checkpoints in each block."""
    settings = {"lr": 1e-4, "weight_decay": 0}
    if "bnb" in row["method"]:
        from bitsandbytes.optim import AdamW8bit as AdamW
    elif "ao8" in row["method"]:
        from torchao.optim import AdamW8bit as AdamW
    elif "aofp8" in row["method"]:
        from torchao.optim import AdamWFp8 as AdamW
    else:
        from torch.optim import AdamW

        settings["fused"] = True
    if row["model"] == "Llama-2-7B":
        model = llama(row["model"])
        model.gradient_checkpointing_enable()
        optimizer = AdamW(model.parameters(), **settings)

        def loss_of():
            ids = tokens(32000, batch, length)
            return functional.cross_entropy(model(input_ids=ids).logits.float().flatten(0, 1), ids.flatten())
    else:
        import timm

        with torch.device("cuda"):
            model = timm.create_model(row["model"], num_classes=45)
        model.train().compile(fullgraph=True)
        optimizer = AdamW(model.parameters(), **settings)

        def loss_of():
            images, labels = torch.randn(batch, 3, 224, 224), torch.randint(0, 45, (batch,))
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return functional.cross_entropy(model(images.cuda()), labels.cuda())

    def step():
        loss_of().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def titan_step(row, batch, length):
    """torchtitan's Qwen3 1.7B: forward and backward in bfloat16, each block compiled; attention is SDPA, not flex."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    shape = Qwen3Config(vocab_size=151936, hidden_size=2048, intermediate_size=6144, num_hidden_layers=28,
                        num_attention_heads=16, num_key_value_heads=8, head_dim=128, tie_word_embeddings=True,
                        use_cache=False)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Qwen3ForCausalLM(shape).train()
    torch.set_default_dtype(torch.float32)
    for layer in model.model.layers:
        layer.compile()

    def step():
        ids = tokens(151936, batch, length)
        model.zero_grad()
        functional.cross_entropy(model(input_ids=ids).logits.flatten(0, 1).float(), ids.flatten()).backward()

    return step


def liger_step(row, batch, length):
    """Liger's example: transformers' Llama 3 8B in bfloat16 under FSDP1, a checkpoint around each block."""
    import functools

    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    torch.distributed.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if row["liger"]:
        from liger_kernel.transformers import apply_liger_kernel_to_llama

        apply_liger_kernel_to_llama()
    model = llama(row["model"], "meta")
    model.gradient_checkpointing_enable()
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer})
    model = FullyShardedDataParallel(
        model, auto_wrap_policy=policy, use_orig_params=True, device_id=torch.cuda.current_device(),
        param_init_fn=lambda module: module.to_empty(device="cuda", recurse=False))
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-6)

    def step():
        ids = tokens(128256, batch, length)
        if row["liger"]:
            loss = model(input_ids=ids, labels=ids).loss
        else:
            loss = loss_of_2024(model, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("row")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--seq", type=int)
    asked = parser.parse_args()
    row = next(row for row in json.loads(_ROWS.read_text()) if row["id"] == asked.row)
    step = globals()[row["script"] + "_step"](row, asked.batch or row["batch"], asked.seq or row.get("seq"))
    for _ in range(3):
        step()


if __name__ == "__main__":
    main()
