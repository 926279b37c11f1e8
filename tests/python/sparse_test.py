# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sparse tensors in coordinate format: gradients of embeddings, their optimizers, products with dense matrices."""

import importlib.util
import pathlib
import re
import unittest

import support
from recorded_script import Recorded

torch = support.simulated("a100-80gb")

from torch import nn  # noqa: E402

ROWS, WIDTH = 100_000, 64
TABLE = 4 * ROWS * WIDTH


def indices(*values):
    return torch.tensor(values, device="cuda")


def adjacency(nodes):
    """A graph of a ring."""
    ends = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(1)])
    return torch.sparse_coo_tensor(ends.cuda(), torch.ones(nodes, device="cuda"), (nodes, nodes))


class Tensors(unittest.TestCase):
    def test_gradient_of_an_embedding(self):
        layer = nn.Embedding(ROWS, WIDTH, sparse=True).cuda()
        before = support.tensor_bytes()[0]
        layer(indices(3, 3, 5, 9)).sum().backward()
        gradient = layer.weight.grad
        self.assertTrue(gradient.is_sparse)
        self.assertEqual((gradient._nnz(), gradient.shape), (4, (ROWS, WIDTH)))
        self.assertLess(support.tensor_bytes()[0] - before, 16 * 1024)

    def test_coalesce_finds_the_distinct_rows(self):
        layer = nn.Embedding(ROWS, WIDTH, sparse=True).cuda()
        layer(indices(7, 3, 3, 5)).sum().backward()
        gradient = layer.weight.grad.coalesce()
        self.assertEqual(gradient.indices().tolist(), [[3, 5, 7]])
        self.assertEqual(gradient.values().shape, (3, WIDTH))
        self.assertTrue(gradient.is_coalesced())
        grid = torch.sparse_coo_tensor(indices([1, 0, 1], [2, 0, 2]), torch.ones(3, device="cuda"), (2, 3)).coalesce()
        self.assertEqual(grid.indices().tolist(), [[0, 1], [0, 2]])

    def test_unknown_rows_count_as_distinct_and_invented(self):
        layer = nn.Embedding(ROWS, WIDTH, sparse=True).cuda()
        layer(torch.randint(ROWS, (512,), device="cuda")).sum().backward()
        before = support.placeholder_values()
        self.assertEqual(layer.weight.grad.coalesce()._nnz(), 512)
        self.assertGreater(support.placeholder_values(), before)

    def test_gradients_add_up(self):
        layer = nn.Embedding(ROWS, WIDTH, sparse=True).cuda()
        for _ in range(3):
            layer(indices(1, 2)).sum().backward()
        self.assertEqual(layer.weight.grad._nnz(), 6)
        self.assertEqual((layer.weight.grad * 0.5)._nnz(), 6)
        layer.zero_grad(set_to_none=False)
        self.assertEqual(layer.weight.grad._nnz(), 0)

    def test_padding_and_bags(self):
        layer = nn.Embedding(ROWS, WIDTH, sparse=True, padding_idx=0).cuda()
        layer(indices(0, 4, 0, 6)).sum().backward()
        self.assertEqual(layer.weight.grad._nnz(), 2)
        for mode in ("sum", "mean"):
            bag = nn.EmbeddingBag(ROWS, WIDTH, sparse=True, mode=mode).cuda()
            bag(indices(1, 2, 2, 5), indices(0, 2)).sum().backward()
            self.assertTrue(bag.weight.grad.is_sparse)
            self.assertEqual(bag.weight.grad._nnz(), 4)

    def test_optimizers_never_make_a_dense_gradient(self):
        for kind, states in ((torch.optim.SGD, 0), (torch.optim.SparseAdam, 2), (torch.optim.Adagrad, 1)):
            layer = nn.Embedding(ROWS, WIDTH, sparse=True).cuda()
            optimizer = kind(layer.parameters(), lr=0.1)
            for step in range(3):
                layer(indices(3, 8, 8, 1)).sum().backward()
                if step:
                    torch.cuda.reset_peak_memory_stats()
                    before = support.tensor_bytes()[0]
                optimizer.step()
                if step:
                    self.assertLess(support.tensor_bytes()[1] - before, 64 * 1024, kind.__name__)
                optimizer.zero_grad()
            tables = sum(value.numel() * 4 for value in optimizer.state[layer.weight].values()
                         if torch.is_tensor(value) and value.numel() > 1)
            self.assertEqual(tables, states * TABLE)

    def test_dense_and_back(self):
        sparse = adjacency(100)
        self.assertEqual(sparse.to_dense().shape, (100, 100))
        self.assertEqual(torch.eye(3, device="cuda").to_sparse()._nnz(), 3)
        moved = torch.eye(3).to_sparse().cuda()
        self.assertEqual((moved.device.type, moved._nnz(), moved.indices().tolist()), ("cuda", 3, [[0, 1, 2]] * 2))
        self.assertEqual(moved.cpu()._nnz(), 3)

    def test_products(self):
        graph = adjacency(100)
        x = torch.randn(100, 8, device="cuda", requires_grad=True)
        result = torch.sparse.mm(graph, x)
        self.assertEqual(result.shape, (100, 8))
        result.sum().backward()
        self.assertEqual(x.grad.shape, (100, 8))
        self.assertEqual((graph @ x).shape, (100, 8))

    def test_what_is_refused(self):
        graph = adjacency(4)
        for work in (lambda: graph.to_sparse_csr() @ torch.ones(4, 4, device="cuda"),
                     lambda: torch.sparse.softmax(graph, 1), lambda: graph * graph):
            with self.assertRaisesRegex(Exception, "simulated device"):
                work()
        with self.assertRaisesRegex(RuntimeError, "expected 'self' to be a CUDA tensor, but got a CPU tensor"):
            torch.zeros(4, 4).add_(graph)
        self.assertEqual(torch.ones(2, device="cuda").sum().item(), 2)

    def test_every_kernel_of_cuda_alone_is_replaced(self):
        """Those that PyTorch registers for the CPU as well call dense ops only."""
        for module in ("torchgen", "yaml"):
            if importlib.util.find_spec(module) is None:
                self.skipTest(f"this Python has no {module}")
        from torchgen.gen import parse_native_yaml
        from torchgen.model import DispatchKey

        folder = pathlib.Path(torch.__file__).parents[1] / "torchgen/packaged/ATen/native"
        parsed = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
        cpu, cuda = (parsed.backend_indices[key] for key in (DispatchKey.SparseCPU, DispatchKey.SparseCUDA))
        for function in parsed.native_functions:
            if not cuda.has_kernel(function):
                continue
            shared = cpu.has_kernel(function) and cpu.get_kernel(function).kernel == cuda.get_kernel(function).kernel
            kernels = torch._C._dispatch_dump(f"aten::{function.func.name}")
            kernel = re.search(r"^SparseCUDA: (.*)$", kernels, re.MULTILINE)
            self.assertEqual("RegisterSparseCUDA" in kernel[1], shared, str(function.func.name))


_SCRIPT = """
    import torch
    from torch import nn
    tables = nn.ModuleList(nn.Embedding(50_000, 32, sparse=True) for _ in range(4)).cuda()
    top = nn.Linear(128, 1).cuda()
    sparse = torch.optim.SparseAdam(tables.parameters())
    dense = torch.optim.Adam(top.parameters())
    for _ in range(3):
        rows = torch.randint(50_000, (4, 256)).cuda()
        loss = top(torch.cat([table(row) for table, row in zip(tables, rows)], 1)).mean()
        loss.backward()
        for optimizer in (sparse, dense):
            optimizer.step()
            optimizer.zero_grad()
"""


class Step(Recorded):
    def test_a_recommender(self):
        said = self.recorded(_SCRIPT)
        phases = said["phases"]
        table = 4 * 50_000 * 32
        self.assertGreaterEqual(phases["start"]["parameter"], 4 * table)
        self.assertGreaterEqual(phases["start"]["optimizer"], 8 * table)
        # Values of 256 rows for each table; their indices are the program's input.
        self.assertGreaterEqual(phases["after_backward"]["gradient"], 4 * 4 * 256 * 32)
        self.assertLess(phases["after_backward"]["gradient"], 4 * 4 * 256 * 32 + 64 * 1024)
        self.assertEqual(said["fallbacks"], [])


if __name__ == "__main__":
    unittest.main()
