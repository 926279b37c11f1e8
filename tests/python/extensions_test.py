# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands for extension modules with kernels of their own (torch_headroom/_kernels), signature by signature: sizes
and element types as their sources say, which are named there. Expected bytes are written out here."""

import importlib
import pathlib
import sys
import tempfile
import unittest

import support

torch = support.simulated("a100-80gb")

import torch_headroom  # noqa: E402
from kernel_calls import allocated_by, flops_of, shapes  # noqa: E402
from torch_headroom import _remarks as remarks  # noqa: E402
from torch_headroom._kernels import attention, launches  # noqa: E402

# The halves in Python, of which only it matters that they are there.
PACKAGES = pathlib.Path(tempfile.mkdtemp())
for package in ("flash_attn", "flash_attn_3", "mamba_ssm", "causal_conv1d", "apex"):
    (PACKAGES / package).mkdir()
    (PACKAGES / package / "__init__.py").touch()
(PACKAGES / "xformers").mkdir()
(PACKAGES / "xformers" / "_cpp_lib.py").write_text("_built_with_cuda = False")  # its library does not load here
HALF = {"dtype": torch.bfloat16, "device": "cuda"}


class Extensions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(PACKAGES))
        importlib.invalidate_caches()

    @classmethod
    def tearDownClass(cls):
        sys.path.remove(str(PACKAGES))


class Xformers(Extensions):
    def test_it_calls_pytorch_s_attention_as_if_its_library_had_loaded(self):
        from xformers import _cpp_lib

        said = lambda: any("xformers" in sentence for sentence in remarks.of_step())
        self.assertFalse(said(), "imported, but not called")
        self.assertTrue(_cpp_lib._built_with_cuda)
        self.assertTrue(said())


class FlashAttention(Extensions):
    B, S, H, G, D = 2, 1000, 8, 2, 64  # batch, length, heads, heads of keys, width

    def setUp(self):
        import flash_attn_2_cuda

        self.kernels = flash_attn_2_cuda
        self.q = torch.empty(self.B, self.S, self.H, self.D, **HALF)
        self.k, self.v = (torch.empty(self.B, self.S, self.G, self.D, **HALF) for _ in range(2))

    def forward(self, causal=True, dropout=0.0, keeps=False, left=-1):
        return self.kernels.fwd(self.q, self.k, self.v, None, None, dropout, 0.125, causal, left, -1, 0.0, keeps, None)

    def backward(self, deterministic=False):
        out, lse, _, state = self.forward()
        return self.kernels.bwd(self.q, self.q, self.k, self.v, out, lse, None, None, None, None, 0.0, 0.125, True, -1, -1, 0.0,
                                deterministic, None, state)

    def test_forward(self):
        results, kept, peak = allocated_by(self.forward)
        self.assertEqual(shapes(results), [((2, 1000, 8, 64), "bfloat16"), ((2, 8, 1000), "float32"), ((0,), "bfloat16"),
                                           ((2,), "int64")])
        out, lse, state = 2 * 1000 * 8 * 64 * 2, 125 * 512, 512
        self.assertEqual((kept, peak), (out + lse + state, out + lse + state))

    def test_probabilities_are_kept_in_whole_blocks(self):
        results, _, _ = allocated_by(lambda: self.forward(keeps=True, dropout=0.1))
        self.assertEqual(shapes(results)[2], ((2, 8, 1024, 1024), "bfloat16"))

    def test_few_queries_split_the_keys(self):
        # 8 blocks of queries for 216 halves of multiprocessors, and 32 blocks of keys: 16 parts of two blocks fill as much as any.
        q = torch.empty(1, 64, 8, 128, **HALF)
        k = torch.empty(1, 4096, 8, 128, **HALF)
        call = lambda: self.kernels.fwd(q, k, k, None, None, 0.0, 0.1, False, -1, -1, 0.0, False, None)  # noqa: E731
        _, kept, peak = allocated_by(call)
        splits = (peak - kept) / (8 * 64 * 4 + 8 * 64 * 128 * 4)
        self.assertEqual(splits, 16)

    def test_backward(self):
        results, kept, peak = allocated_by(self.backward)
        self.assertEqual(shapes(results), [((2, 1000, 8, 64), "bfloat16"), ((2, 1000, 2, 64), "bfloat16"),
                                           ((2, 1000, 2, 64), "bfloat16"), ((2, 8, 1024), "float32")])
        query, key, lse, delta = 2048000, 512000, 64000, 65536
        dq_sum, expanded = 2 * 1024 * 8 * 64 * 4, 2 * query
        self.assertEqual(kept, query + 2 * key + delta)
        self.assertEqual(peak, (query + lse + 512) + (query + 2 * key + delta) + dq_sum + expanded)

    def test_backward_that_is_deterministic_sums_in_parts(self):
        _, kept, peak = allocated_by(lambda: self.backward(deterministic=True))
        _, _, ordinary = allocated_by(self.backward)
        self.assertEqual(peak - ordinary, (7 - 1) * 2 * 1024 * 8 * 64 * 4)  # 108 multiprocessors over 16 heads

    def test_sequences_of_different_length(self):
        ends = torch.tensor([0, 100, 1000], dtype=torch.int32, device="cuda")
        q, k = torch.empty(1000, 8, 64, **HALF), torch.empty(1000, 2, 64, **HALF)
        options = (900, 900, 0.0, 0.1, False, True, -1, -1, 0.0)
        forward = lambda: self.kernels.varlen_fwd(  # noqa: E731
            q, k, k, None, ends, ends, None, None, None, None, *options, False, None, 0)
        out, lse, _, state = forward()
        self.assertEqual(shapes([lse]), [((8, 1000), "float32")])
        backward = lambda: self.kernels.varlen_bwd(  # noqa: E731
            q, q, k, k, out, lse, None, None, None, ends, ends, None, *options, False, None, state)
        self.assertEqual(shapes(backward())[3], ((8, 1256), "float32"))
        before = support.placeholder_values()
        met = 100 * 101 // 2 + 900 * 901 // 2
        self.assertEqual(flops_of(forward), ("flash_attn_2_cuda.varlen_fwd", 4 * 8 * 64 * met))
        self.assertEqual(flops_of(backward)[1], 10 * 8 * 64 * met)
        self.assertEqual(support.placeholder_values(), before)

    def test_flops(self):
        self.assertEqual(flops_of(lambda: self.forward(causal=False)), ("flash_attn_2_cuda.fwd", 4 * 16 * 64 * 1000 * 1000))
        self.assertEqual(flops_of(self.forward)[1], 4 * 16 * 64 * 1000 * 1001 // 2)
        self.assertEqual(flops_of(lambda: self.forward(left=9))[1], 4 * 16 * 64 * (1000 * 10 - 45))
        self.assertEqual(attention.pairs(2, 5, -1, 0), 4 + 5)  # the last query meets the last key

    def test_what_the_kernels_refuse(self):
        self.q = self.q.float()
        with self.assertRaisesRegex(RuntimeError, "float16 and bfloat16"):
            self.forward()
        with self.assertRaisesRegex(torch_headroom.HeadroomError, "torch_headroom.opaque"):
            self.kernels.fwd_kvcache
        self.assertFalse(hasattr(self.kernels, "fwd_kvcache"))


class FlashAttention3(Extensions):
    def test_forward_and_backward(self):
        import flash_attn_3._C  # noqa: F401

        ops = torch.ops.flash_attn_3
        q, k = torch.empty(2, 1000, 8, 128, **HALF), torch.empty(2, 1000, 2, 128, **HALF)
        results, kept, peak = allocated_by(lambda: ops.fwd(q, k, k, is_causal=True, num_splits=1))
        self.assertEqual(shapes(results), [((2, 1000, 8, 128), "bfloat16"), ((2, 8, 1000), "float32"), None, None])
        # On an A100 the scheduler of a causal mask has a semaphore, and two vectors of four numbers.
        self.assertEqual(peak - kept, 512)
        out, lse = results[:2]
        results, kept, peak = allocated_by(lambda: ops.bwd(q, q, k, k, out, lse, is_causal=True))
        self.assertEqual(shapes(results[:2]), [((2, 8, 1024), "float32")] * 2)
        query, key, floats = 4096000, 1024000, 65536
        sums = 2 * 8 * 1024 * 128 * 4 + 2 * (2 * 2 * 1024 * 128 * 4)
        self.assertEqual(peak, query + 2 * key + 2 * floats + sums + 1024)  # the semaphore: 16 × 2 × 8 numbers
        self.assertEqual(kept, 2 * floats + sums)


class Mamba(Extensions):
    def test_selective_scan(self):
        import selective_scan_cuda

        batch, channels, length, state = 2, 256, 5000, 16
        u, delta, z = (torch.empty(batch, channels, length, **HALF) for _ in range(3))
        a = torch.empty(channels, state, device="cuda")
        b, c = (torch.empty(batch, 1, state, length, **HALF) for _ in range(2))
        d, bias = (torch.empty(channels, device="cuda") for _ in range(2))
        forward = lambda: selective_scan_cuda.fwd(u, delta, a, b, c, d, z, bias, True)  # noqa: E731
        results, kept, peak = allocated_by(forward)
        rows = ((2, 256, 5000), "bfloat16")
        self.assertEqual(shapes(results), [rows, ((2, 256, 3, 32), "float32"), rows])
        self.assertEqual((kept, peak), (2 * 5120000 + 196608,) * 2)
        out, x, _ = results
        backward = lambda: selective_scan_cuda.bwd(u, delta, a, b, c, d, z, bias, u, x, out, None, True, False)  # noqa: E731
        results, kept, peak = allocated_by(backward)
        self.assertEqual(shapes(results), [rows, rows, ((256, 16), "float32"), ((2, 1, 16, 5000), "bfloat16"),
                                           ((2, 1, 16, 5000), "bfloat16"), ((256,), "float32"), ((256,), "float32"), rows])
        # The gradients of B and C are summed in float32 first.
        self.assertEqual(peak - kept, 2 * 2 * 16 * 5000 * 4)
        self.assertEqual(flops_of(forward), ("selective_scan_cuda.fwd", 9 * batch * channels * length * state))

    def test_causal_convolution(self):
        import causal_conv1d_cuda as kernels

        x, weight, bias = torch.empty(2, 256, 1000, **HALF), torch.empty(256, 4, **HALF), torch.empty(256, **HALF)
        _, kept, peak = allocated_by(lambda: kernels.causal_conv1d_fwd(x, weight, bias, None, None, x, None, True))
        self.assertEqual((kept, peak), (0, 0))
        sums = torch.zeros(256, 4, device="cuda"), torch.zeros(256, device="cuda")
        backward = lambda: kernels.causal_conv1d_bwd(  # noqa: E731
            x, weight, bias, x, None, None, None, torch.empty_like(x), *sums, None, True)
        self.assertEqual(allocated_by(backward)[2], 1024000)
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        self.assertGreater(allocated_by(backward)[2], 1024000)


class Apex(Extensions):
    def test_lists_of_tensors(self):
        import amp_C

        lists = [[torch.ones(8, device="cuda")] * 2 for _ in range(4)]
        flag = torch.zeros(1, dtype=torch.int32, device="cuda")
        amp_C.multi_tensor_adam(65536, flag, lists, 1e-3, 0.9, 0.999, 1e-8, 1, 1, True, 0.0)
        norm, each = amp_C.multi_tensor_l2norm(65536, flag, [lists[0]], True)
        self.assertEqual(shapes([norm, each]), [((1,), "float32"), ((2,), "float32")])

    def test_layer_norm(self):
        import fused_layer_norm_cuda as kernels

        x, weight, bias = torch.empty(64, 128, **HALF), torch.empty(128, **HALF), torch.empty(128, **HALF)
        forward = kernels.forward_affine(x, (128,), weight, bias, 1e-5)
        row = ((64,), "float32")
        self.assertEqual(shapes(forward), [((64, 128), "bfloat16"), row, row])
        backward = kernels.backward_affine(x, *forward[1:], x, (128,), weight, bias, 1e-5, False)
        self.assertEqual(shapes(backward), [((64, 128), "bfloat16"), ((128,), "bfloat16"), ((128,), "bfloat16")])
        out, invvar = kernels.rms_forward_affine_mixed_dtypes(x, (128,), weight.float(), 1e-5)
        self.assertEqual(shapes([out, invvar]), [((64, 128), "float32"), row])
        gradient = kernels.rms_backward(x, invvar, x, (128,), 1e-5, False)
        self.assertEqual(shapes([gradient]), [((64, 128), "bfloat16")])


class NotInstalled(unittest.TestCase):
    def test_absent_libraries_stay_absent(self):
        with self.assertRaises(ImportError):
            importlib.import_module("xformers_of_nobody")
        with self.assertRaises(ImportError):
            import transformer_engine_torch  # noqa: F401
        with self.assertRaisesRegex(ImportError, "flash-attn 3 before version 3.0 launches own CUDA kernels"):
            import flash_attn_3_cuda  # noqa: F401


class OwnKernels(unittest.TestCase):
    def setUp(self):
        self.x = torch.ones(64, 64, device="cuda")
        launches.counts.clear()

    def test_a_function(self):
        @torch_headroom.opaque(results=lambda x, scale: torch.empty_like(x, dtype=torch.half), flops=lambda x, scale: x.numel())
        def kernel(x, scale):
            raise AssertionError("there is no GPU")

        out = kernel(self.x, scale=2)
        self.assertEqual(shapes([out]), [((64, 64), "float16")])
        self.assertEqual({how for (name, how) in launches.counts if name.endswith("kernel")}, {launches.FLOPS})

    def test_what_it_mutates_is_forgotten(self):
        @torch_headroom.opaque(mutates=["out"])
        def kernel(x, out):
            raise AssertionError("there is no GPU")

        known = torch.ones(2, device="cuda")
        kernel(known, self.x)
        before = support.placeholder_values()
        known.sum().item()
        self.assertEqual(support.placeholder_values(), before)
        self.x.sum().item()
        self.assertGreater(support.placeholder_values(), before)

    def test_an_extension_module(self):
        torch_headroom.opaque("kernels_of_mine.forward", results=lambda x: (x.new_empty(3), None), reads=lambda x: [x[:1]])
        import kernels_of_mine

        self.assertEqual(shapes(kernels_of_mine.forward(self.x)), [((3,), "float32"), None])
        with self.assertRaisesRegex(torch_headroom.HeadroomError, "kernels_of_mine.backward"):
            kernels_of_mine.backward(self.x)

    def test_an_op(self):
        library = torch.library.Library("opaque_test", "DEF")
        library.define("twice(Tensor x, Tensor(a!) scratch) -> Tensor")
        torch_headroom.opaque("opaque_test::twice", results=lambda x, scratch: torch.empty_like(x), mutates=["scratch"], flops=7)
        out = torch.ops.opaque_test.twice(self.x, torch.empty(3, device="cuda"))
        self.assertEqual(shapes([out]), [((64, 64), "float32")])
        self.assertEqual(launches.counts["opaque_test::twice", launches.FLOPS], 1)
        library._destroy()

    def test_names_of_nothing(self):
        with self.assertRaisesRegex(torch_headroom.HeadroomError, "expected module.function"):
            torch_headroom.opaque("kernel", results=torch.empty_like)
        with self.assertRaisesRegex(torch_headroom.HeadroomError, "there is no op opaque_test::none"):
            torch_headroom.opaque("opaque_test::none", results=torch.empty_like)


if __name__ == "__main__":
    unittest.main()
