# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_headroom.export: the file opens with torch-headroom-record and records; bad input is refused in one sentence; and the step
that torch-headroom-record makes of the file is that of PyTorch running the same exported program, to the byte.

The argument is torch-headroom-record.
"""

import gc
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402
from torch_headroom._export import tied_weights  # noqa: E402
from torch import nn  # noqa: E402
from torch.export.passes import move_to_device_pass  # noqa: E402
from torch.nn import functional as F  # noqa: E402

_RECORD = sys.argv.pop(1)
_VOCABULARY, _WIDTH = 1000, 64


class Attention(nn.Module):
    """`mask`: none, one number a pair of tokens, or one a token, seen as a pair's by expanding."""

    def __init__(self, mask):
        super().__init__()
        self.mask = mask
        self.qkv = nn.Linear(_WIDTH, 3 * _WIDTH)
        self.out = nn.Linear(_WIDTH, _WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mask = None
        if self.mask == "pairs":
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        elif self.mask == "tokens":
            mask = (torch.arange(length, device=x.device) >= 0)[None, None, :, None].expand(batch, 1, length, length)
        y = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=0.1)
        return self.out(y.transpose(1, 2).flatten(2))


class Language(nn.Module):
    """Returns its loss, as the exported models that Headroom records with --loss output."""

    def __init__(self, mask=None):
        super().__init__()
        self.tokens = nn.Embedding(_VOCABULARY, _WIDTH)
        self.norm = nn.LayerNorm(_WIDTH)
        self.attention = Attention(mask)
        self.mlp = nn.Sequential(nn.Linear(_WIDTH, 4 * _WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * _WIDTH, _WIDTH))
        self.head = nn.Linear(_WIDTH, _VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, labels):
        x = self.tokens(tokens)
        x = x + self.attention(self.norm(x))
        x = x + self.mlp(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def language(mask=None):
    with torch.device("meta"):
        return Language(mask), (torch.zeros(8, 128, dtype=torch.int64), torch.zeros(8, 128, dtype=torch.int64))


def blocks(elements, size=4):
    return -(-elements * size // 512) * 512


class Exported(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "model.pt2"

    def tearDown(self):
        gc.collect()

    def record(self, *options):
        step = pathlib.Path(self.folder.name) / "step.hrs"
        command = [_RECORD, "record", self.path, "--gpu", "a100-80gb", "--json", "-o", step, *options]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)


class Files(Exported):
    def test_a_tied_weight_is_one(self):
        model, batch = language()
        self.assertEqual(torch_headroom.export(model, batch, self.path), self.path)
        phases = self.record("--loss", "output")["phases"]
        parameters = sum(blocks(p.numel()) for p in model.parameters())
        self.assertEqual(phases["start"]["parameter"], parameters)
        self.assertEqual(phases["start"]["optimizer"], 2 * parameters)
        self.assertEqual(phases["after_backward"]["gradient"], parameters)
        self.assertEqual(phases["start"]["input"], 2 * blocks(8 * 128, 8))

    def test_modules_have_their_names(self):
        model, batch = language()
        torch_headroom.export(model, batch, self.path)
        self.record("--loss", "output")
        contents = (pathlib.Path(self.folder.name) / "step.hrs").read_bytes()
        for name in (b"Language.attention.qkv", b"Language.mlp.3", b"LayerNorm", b"GELU"):
            self.assertIn(name, contents)

    def test_other_batches(self):
        model, batch = language()
        torch_headroom.export(model, batch, self.path, dynamic_batch=True)
        self.assertEqual(self.record("--loss", "output", "--batch", "24")["phases"]["start"]["input"], 6 * blocks(8 * 128, 8))

    def test_arguments_by_name_and_weights(self):
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(16, 16)

            def forward(self, x, *, scale):
                return self.layer(x) * scale

        torch_headroom.export(Scaled(), (torch.ones(4, 16),), str(self.path), kwargs={"scale": torch.ones(4, 16)}, dynamic_batch=True)
        phases = self.record("--batch", "16", "--optimizer", "sgd")["phases"]
        self.assertEqual(phases["start"]["input"], 2 * blocks(16 * 16))
        self.assertEqual(phases["start"]["parameter"], blocks(16 * 16) + blocks(16))

    def test_without_a_simulated_card(self):
        program = "import torch_headroom, torch; torch_headroom.export(torch.nn.Linear(4, 4), (torch.ones(2, 4),), 'model.pt2')"
        result = subprocess.run([sys.executable, "-c", program], cwd=self.folder.name, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.record()["phases"]["start"]["parameter"], 2 * 512)


class Refused(Exported):
    def refused(self, sentence, *arguments, **named):
        with self.assertRaises(torch_headroom.HeadroomError) as caught:
            torch_headroom.export(*arguments, **named)
        message = str(caught.exception)
        self.assertIn(sentence, message)
        self.assertNotIn("\n", message)
        self.assertEqual(list(pathlib.Path(self.folder.name).glob("*.pt2")), [])

    def test_paths(self):
        model, batch = nn.Linear(4, 4), (torch.ones(2, 4),)
        self.refused("has to end in .pt2", model, batch, self.path.with_suffix(".pt"))
        self.refused("create the folder first", model, batch, self.path.parent / "nowhere" / "model.pt2")

    def test_arguments(self):
        model = nn.Linear(4, 4)
        self.refused("write (x,) for a single argument", model, torch.ones(2, 4), self.path)
        self.refused("kwargs is a dict", model, (), self.path, kwargs=[torch.ones(2, 4)])
        self.refused("expected a torch.nn.Module", model.forward, (torch.ones(2, 4),), self.path)
        self.refused("torch.export cannot export Linear", model, (torch.ones(2, 5),), self.path)
        self.refused("torch.export cannot export Linear", model, (), self.path)

    def test_dynamic_batches(self):
        model = nn.Linear(4, 4)
        self.refused("needs an argument that is a tensor", model, (), self.path, dynamic_batch=True)
        self.refused("a batch of at least 2", model, (torch.ones(1, 4),), self.path, dynamic_batch=True)

    def test_a_model_that_depends_on_values(self):
        class Branches(nn.Module):
            def forward(self, x):
                return x * 2 if x.sum() > 0 else x

        self.refused("torch.export cannot export Branches", Branches(), (torch.ones(2, 4),), self.path)


class Choice(nn.Module):
    """Looks up which of its results count: a mask of the model's own, as long as `kept`."""

    def __init__(self, kept):
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.register_buffer("mask", torch.arange(64, device="cpu") % (64 // kept) == 0)

    def forward(self, x):
        return self.linear(x)[:, self.mask.nonzero().squeeze(1)].exp().sum()


class OwnValues(Exported):
    """Sizes that follow from values of the model itself are true."""

    def check(self, save, *options):
        saved = {}
        for kept in (16, 32):
            save(Choice(kept))
            recorded = self.record("--loss", "output", *options)
            self.assertEqual(recorded["invented_values"], 0)
            saved[kept] = recorded["phases"]["after_forward"]["activation"]
        self.assertEqual(saved[32] - saved[16], blocks(1024 * 16))  # of what exp() made

    def test_of_an_exported_program(self):
        self.check(lambda model: torch_headroom.export(model, (torch.zeros(1024, 64),), self.path))

    def test_of_torchscript(self):
        self.path = self.path.with_suffix(".pt")
        self.check(lambda model: torch.jit.script(model).save(self.path), "--input", "x=1024x64")


class Programs(Exported):
    """PyTorch runs the exported program on the simulated card, torch-headroom-record runs it from the file."""

    def by_python(self, model, batch):
        module = move_to_device_pass(torch.export.load(self.path), "cuda").module()
        for first, *others in tied_weights(model):  # a file without weights does not say what is one tensor
            for name in others:
                owner, _, parameter = name.rpartition(".")
                setattr(module.get_submodule(owner), parameter, module.get_parameter(first))
        gc.collect()  # the program, which holds copies of its arguments
        batch = [torch.empty_like(tensor, device="cuda") for tensor in batch]
        optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, foreach=True)
        with torch_headroom.record(pathlib.Path(self.folder.name) / "python.hrs") as recording:
            recording.inputs(*batch)
            for _ in range(2):
                loss = module(*batch)
                loss.backward()
                del loss
                optimizer.step()
                optimizer.zero_grad()
                recording.step()
        return recording.summary

    def compare(self, model, batch):
        torch_headroom.export(model, batch, self.path)
        recorded = self.record("--loss", "output", "--optimizer", "adam", "--lifetimes", "graph")
        summary = self.by_python(model, batch)
        self.assertEqual(recorded["peak_bytes"], summary["peak_bytes"])
        self.assertEqual(recorded["phases"], summary["phases"])
        return recorded["peak_bytes"]

    def test_attention_without_a_mask(self):
        self.compare(*language())

    def test_attention_with_a_mask(self):
        self.compare(*language("pairs"))

    def test_a_mask_that_is_expanded(self):
        # Its last stride is 0, which only the math kernel takes on CUDA (check_last_dim_stride_equals_1_dense of
        # aten/src/ATen/native/transformers/sdp_utils_cpp.h): scores and their dropout are saved for backward.
        scores = 8 * 4 * 128 * 128
        self.assertGreater(self.compare(*language("tokens")), self.compare(*language("pairs")) + 2 * blocks(scores))

    def test_bert(self):
        # Called in Python it finds that nothing is masked and passes no mask; while it is exported it cannot look, and
        # passes an expanded one.
        support.skip_without("transformers")
        from transformers import BertConfig, BertForSequenceClassification

        class Loss(nn.Module):
            def __init__(self):
                super().__init__()
                self.model = BertForSequenceClassification(BertConfig(num_hidden_layers=2))

            def forward(self, tokens, labels):
                return self.model(input_ids=tokens, labels=labels).loss

        with torch.device("meta"):
            model, batch = Loss(), (torch.zeros(4, 128, dtype=torch.int64), torch.zeros(4, dtype=torch.int64))
        self.compare(model.train(), batch)


if __name__ == "__main__":
    unittest.main()
