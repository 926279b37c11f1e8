# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trainings of known libraries as people write them, recorded for the planner's tests and benchmarks:

    python -m torch_headroom.record --gpu h100-80gb -o t5_base.hrs make_steps.py t5_base

The files that are kept do not say where they were recorded.
"""
import sys

import torch


def t5_base():
    """transformers' T5: 12 encoder and 12 decoder blocks, 8 of 512 tokens to 128."""
    from transformers import T5Config, T5ForConditionalGeneration

    model = T5ForConditionalGeneration(T5Config(
        d_model=768, d_ff=3072, num_layers=12, num_heads=12, vocab_size=32128, decoder_start_token_id=0))
    return model, lambda: model(input_ids=torch.randint(0, 32128, (8, 512), device="cuda"),
                                labels=torch.randint(0, 32128, (8, 128), device="cuda")).loss


def swin_t():
    """torchvision's Swin-T, 64 of 224²."""
    from torchvision.models import swin_t as create

    model = create()
    return model, lambda: torch.nn.functional.cross_entropy(
        model(torch.randn(64, 3, 224, 224, device="cuda")), torch.randint(0, 1000, (64,), device="cuda"))


def efficientnet_b0():
    """torchvision's EfficientNet-B0, 256 of 224², autocast to bfloat16."""
    from torchvision.models import efficientnet_b0 as create

    model = create()

    def loss():
        images, labels = torch.randn(256, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (256,), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            return torch.nn.functional.cross_entropy(model(images), labels)

    return model, loss


def llama_1b_lora():
    """PEFT's LoRA with dropout on all linear layers of transformers' Llama, the size of 3.2 1B in bfloat16, 4 of 1024."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_default_dtype(torch.bfloat16)
    model = get_peft_model(
        LlamaForCausalLM(LlamaConfig(
            vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
            num_key_value_heads=8, tie_word_embeddings=True, use_cache=False)),
        LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, task_type="CAUSAL_LM", target_modules=[
            "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]))

    def loss():
        ids = torch.randint(0, 128256, (4, 1024), device="cuda")
        return model(input_ids=ids, labels=ids).loss

    return model, loss


def gpt2_accumulated():
    """transformers' GPT-2 with 3 layers, 3 micro-batches of 8 × 1024."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=3, use_cache=False))

    def loss():
        ids = torch.randint(0, 50257, (8, 1024), device="cuda")
        return model(input_ids=ids, labels=ids).loss / 3

    return model, loss, 3


model, loss, *micro_batches = globals()[sys.argv[1]]()
model.to("cuda").train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
for step in range(3):
    optimizer.zero_grad()
    for _ in range(*micro_batches or [1]):
        loss().backward()
    optimizer.step()
