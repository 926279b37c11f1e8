# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Models whose plans applied_plan_test.py applies: those that people train, small or in their true size."""

import collections
import contextlib
import dataclasses

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import flex_attention


@dataclasses.dataclass
class Case:
    """How one model is trained. `make(full)` returns the model, its batch and a function of both that makes the loss."""

    package: str
    make: object
    optimizer: object = torch.optim.AdamW
    autocast: bool = False
    parts: int = 1  # forward and backward of so many equal batches before each optimizer step
    clip: bool = False  # gradients
    cpu: bool = True  # gradients are compared there
    engine_threads: bool = True  # backward runs in autograd's own thread, as by default

    def context(self, device):
        return torch.autocast(device, torch.bfloat16) if self.autocast else contextlib.nullcontext()


def _tokens(batch, length, count):
    return torch.randint(0, count, (batch, length))


def _labelled(model, batch):
    return model(input_ids=batch[0], labels=batch[-1]).loss


def _cross_entropy(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def _gpt2(full):
    from transformers import GPT2Config, GPT2LMHeadModel

    small = {"n_layer": 3, "n_embd": 64, "n_head": 4, "vocab_size": 128, "n_positions": 64}
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    model = GPT2LMHeadModel(GPT2Config(use_cache=False, **ids, **({} if full else small)))
    return model, (_tokens(8, 1024, 50257) if full else _tokens(4, 64, 128),), _labelled


def _bert(full):
    from transformers import BertConfig, BertForSequenceClassification

    small = {"num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 256, "num_attention_heads": 4,
             "vocab_size": 128, "max_position_embeddings": 64}
    model = BertForSequenceClassification(BertConfig(**({} if full else small)))
    tokens = _tokens(16, 512, 30522) if full else _tokens(4, 64, 128)
    return model, (tokens, torch.randint(0, 2, (len(tokens),))), _labelled


def _llama(full, use_cache=False, dtype=torch.bfloat16):
    from transformers import LlamaConfig, LlamaForCausalLM

    small = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
             "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 64}
    true = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
            "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": True}
    torch.set_default_dtype(dtype)
    model = LlamaForCausalLM(LlamaConfig(use_cache=use_cache, bos_token_id=0, eos_token_id=0, **(true if full else small)))
    torch.set_default_dtype(torch.float32)
    return model, (_tokens(1, 2048, 128256) if full else _tokens(4, 64, 128),), _labelled


def _mistral(full):
    """With what its library does by itself: a cache, for a window of the sequence; and with padding."""
    from transformers import MistralConfig, MistralForCausalLM

    small = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
             "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 64, "sliding_window": 16}
    true = {"hidden_size": 2048, "intermediate_size": 7168, "num_hidden_layers": 16, "num_attention_heads": 16,
            "sliding_window": 512}
    config = MistralConfig(bos_token_id=0, eos_token_id=0, attn_implementation="eager", **(true if full else small))
    model = MistralForCausalLM(config)
    tokens = _tokens(1, 2048, 32000) if full else _tokens(4, 64, 128)
    mask = torch.ones_like(tokens)
    mask[:, :5] = 0
    return model, (tokens, mask), _padded


def _padded(model, batch):
    return model(input_ids=batch[0], attention_mask=batch[1], labels=batch[0]).loss


def _t5(full):
    from transformers import T5Config, T5ForConditionalGeneration

    small = {"d_model": 64, "d_kv": 16, "d_ff": 256, "num_layers": 2, "num_heads": 4, "vocab_size": 128}
    model = T5ForConditionalGeneration(T5Config(use_cache=False, decoder_start_token_id=0, **({} if full else small)))
    tokens = _tokens(16, 512, 32128) if full else _tokens(4, 32, 128)
    return model, (tokens, tokens), _labelled


def _images(model, full, count=8, size=32, classes=10):
    images = torch.randn(16, 3, 224, 224) if full else torch.randn(count, 3, size, size)
    return model, (images, torch.randint(0, 1000 if full else classes, (len(images),))), _cross_entropy


def _resnet(full):
    import torchvision

    model = torchvision.models.resnet50() if full else torchvision.models.resnet18(num_classes=10)
    return _images(model, full, count=16, size=64)


def _vit(full):
    import torchvision

    if full:
        return _images(torchvision.models.vit_b_16(), full)
    model = torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=3, num_heads=4, hidden_dim=64, mlp_dim=256, dropout=0.1,
        attention_dropout=0.1, num_classes=10)
    return _images(model, full)


def _encoder(full):
    """Its attention multiplies turned inputs, which are not contiguous."""
    width, length = (768, 512) if full else (64, 32)
    layers = [torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True) for _ in range(12 if full else 3)]
    model = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(length * width, 10))
    return model, (torch.randn(8, length, width), torch.randint(0, 10, (8,))), _cross_entropy


class _Flexible(torch.nn.Module):
    """flex_attention() that is not compiled: an operator of higher order. Its forward takes the gradients of score_mod,
    and autograd's thread frees a block of 512 bytes of those whenever the thread gets Python's lock: before the next ops
    or after them, on a card as here. In one thread the block is freed at one place."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv, self.out = torch.nn.LayerNorm(width), *(torch.nn.Linear(width, n * width) for n in (3, 1))
        self.wide = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))

    def forward(self, x):
        query, key, value = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        y = flex_attention(query, key, value, score_mod=lambda score, batch, head, i, j: score + (i - j))
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.wide(x)


def _flexible(full):
    width, length = (768, 512) if full else (64, 128)
    layers = [_Flexible(width) for _ in range(3)]
    model = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(length * width, 10))
    return model, (torch.randn(4, length, width), torch.randint(0, 10, (4,))), _cross_entropy


class _Casting(torch.nn.Module):
    """Casts weights itself, as transformers' Mamba: under autocast as well, which does not keep these casts."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.inner = torch.nn.LayerNorm(width), torch.nn.Linear(width, 2 * width)
        self.shift, self.decay = torch.nn.Parameter(torch.randn(2 * width)), torch.nn.Parameter(torch.rand(2 * width))
        self.out = torch.nn.Linear(2 * width, width)

    def forward(self, x):
        h = self.inner(self.norm(x))
        h = F.softplus(h + self.shift.to(h.dtype)) * self.decay.type_as(h).sigmoid()
        return x + self.out(h.float().cumsum(1).to(h.dtype))


def _casting(full):
    width, length = (1024, 512) if full else (64, 128)
    model = torch.nn.Sequential(*map(_Casting, [width] * 3), torch.nn.Flatten(), torch.nn.Linear(length * width, 10))
    return model, (torch.randn(8, length, width), torch.randint(0, 10, (8,))), _cross_entropy


class _Repeated(torch.nn.Module):
    """Calls each of its layers several times, so that the gradients of a weight's cast are added in an order."""

    def __init__(self, width):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True) for _ in range(2))
        self.head = torch.nn.Linear(width, 10)

    def forward(self, x):
        for _ in range(3):
            for layer in self.layers:
                x = layer(x)
        return self.head(x.mean(1))


def _repeated(full):
    width, length = (768, 512) if full else (64, 32)
    return _Repeated(width), (torch.randn(8, length, width), torch.randint(0, 10, (8,))), _cross_entropy


@dataclasses.dataclass
class _Graph:
    """As PyTorch Geometric's Data."""

    nodes: torch.Tensor
    edges: torch.Tensor
    before: torch.Tensor
    unread: torch.Tensor
    turn: int = 0


class _Neighbours(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.own, self.others = torch.nn.Linear(width, 2 * width), torch.nn.Linear(width, 2 * width)
        self.join = torch.nn.Sequential(torch.nn.GELU(), torch.nn.Linear(2 * width, width))

    def forward(self, graph, sums):
        source, target = graph.edges
        sums.append(torch.zeros_like(graph.nodes).index_add(0, target, graph.nodes[source]))
        own = self.own(graph.nodes)
        nodes = self.join(own + self.others(sums[-1] + sums[0])) + graph.nodes.mean()
        if graph.turn == 2:
            nodes = nodes * graph.before
        return _Graph(nodes, graph.edges, nodes.relu(), own * 2, graph.turn + 1)


class _GraphNet(torch.nn.Module):
    """Its layers are given objects; the last one is the first again, which then reads more."""

    def __init__(self, width):
        super().__init__()
        self.embed = torch.nn.Linear(16, width)
        self.layers = torch.nn.ModuleList(_Neighbours(width) for _ in range(2))
        self.head = torch.nn.Linear(width, 10)

    def forward(self, nodes, edges):
        nodes = self.embed(nodes)
        graph, sums = _Graph(nodes, edges, nodes.exp(), nodes.sin()), collections.deque([nodes.cos()], 2)
        for layer in (*self.layers, self.layers[0]):
            graph = layer(graph, sums)
        return self.head(graph.nodes)


def _graph_loss(model, batch):
    nodes, edges, labels = batch
    return F.cross_entropy(model(nodes, edges.remainder(len(nodes))), labels)  # a part of the nodes is a graph, too


def _graph(full):
    nodes, edges = (100_000, 1_000_000) if full else (200, 800)
    batch = torch.randn(nodes, 16), torch.randint(0, nodes, (2, edges)), torch.randint(0, 10, (nodes,))
    return _GraphNet(256 if full else 64), batch, _graph_loss


class _Recurrent(torch.nn.Module):
    """Keeps its state from step to step in attributes (truncated backpropagation through time), and the means of its
    last inputs in a list."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.cell = torch.nn.LayerNorm(width), torch.nn.LSTM(width, width, batch_first=True)
        self.wide = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Dropout(0.1),
                                        torch.nn.Linear(4 * width, width))
        self.state, self.map, self.means = None, None, [torch.zeros(width), torch.zeros(width)]

    def forward(self, x):
        state = self.state
        y, state = self.cell(self.norm(x), state)
        self.state = tuple(part.detach() for part in state)
        self.means = [self.means[-1], x.detach().mean((0, 1))]
        self.map = self.wide(y).sigmoid()
        return x + self.map * sum(self.means)


def _recurrent(full):
    width, batch, length = (1024, 64, 128) if full else (64, 8, 32)
    layers = [_Recurrent(width) for _ in range(3)]
    model = torch.nn.Sequential(torch.nn.Embedding(1000, width), *layers, torch.nn.Linear(width, 1000))

    def loss_of(model, batch):
        return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[0].flatten())

    return model, (_tokens(batch, length, 1000),), loss_of


class _Low(torch.Tensor):
    """As torchao's float8: a matrix of float32 that is kept in bfloat16, and products of two."""

    @staticmethod
    def __new__(cls, low):
        return torch.Tensor._make_wrapper_subclass(
            cls, low.shape, strides=low.stride(), dtype=torch.float32, device=low.device)

    def __init__(self, low):
        self.low = low

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        result = op(*(value.low if isinstance(value, cls) else value for value in args), **(kwargs or {}))
        return result.float() if op is torch.ops.aten.mm.default else cls(result)


class _LowProduct(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(x, weight)
        return torch.mm(_Low(x.bfloat16()), _Low(weight.bfloat16()).t())

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        gradient = _Low(gradient.bfloat16())
        return torch.mm(gradient, _Low(weight.bfloat16())), torch.mm(gradient.t(), _Low(x.bfloat16()))


class _LowLayer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.dropout = torch.nn.LayerNorm(width), torch.nn.Dropout(0.1)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        wide = F.gelu(_LowProduct.apply(self.norm(x), self.up.weight) + self.up.bias)
        return x + self.dropout(_LowProduct.apply(wide, self.down.weight))


def _subclass(full):
    """Its products run inside of a tensor subclass."""
    width, rows = (1024, 8192) if full else (64, 2048)
    model = torch.nn.Sequential(*map(_LowLayer, [width] * 3), torch.nn.Linear(width, 10))
    return model, (torch.randn(rows, width), torch.randint(0, 10, (rows,))), _cross_entropy


CASES = {
    "gpt2": Case("transformers", _gpt2, clip=True),
    "gpt2_autocast_accumulated": Case("transformers", _gpt2, autocast=True, parts=2),
    "bert": Case("transformers", _bert),
    "llama_bfloat16": Case("transformers", _llama),
    "llama_float32": Case("transformers", lambda full: _llama(full, dtype=torch.float32)),
    "llama_with_cache": Case("transformers", lambda full: _llama(full, use_cache=True)),
    "mistral_with_cache": Case("transformers", _mistral),
    "t5": Case("transformers", _t5),
    "encoder": Case("torch", _encoder),
    "encoder_autocast": Case("torch", _encoder, autocast=True),
    "flexible": Case("torch", _flexible, cpu=False, engine_threads=False),
    "casting": Case("torch", _casting),
    "casting_autocast": Case("torch", _casting, autocast=True),
    "repeated_autocast": Case("torch", _repeated, autocast=True),
    "resnet": Case("torchvision", _resnet, optimizer=lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)),
    "vit": Case("torchvision", _vit),
    "graph": Case("torch", _graph),
    "recurrent": Case("torch", _recurrent, cpu=False),
    "subclass": Case("torch", _subclass),
}
