# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands for transformer_engine_torch (torch_headroom/_kernels), signature by signature, as
extensions_test.py does. The library's half in Python is a package of a few lines here, which has what the compiled half asks
of it."""

import contextlib
import importlib
import os
import pathlib
import sys
import tempfile
import textwrap
import types
import unittest
import unittest.mock

import support

torch = support.simulated("h100-80gb")

from kernel_calls import allocated_by, flops_of, shapes  # noqa: E402
import torch_headroom  # noqa: E402
from torch_headroom._apply import recompute  # noqa: E402
from torch_headroom._kernels import transformer_engine  # noqa: E402

HALF = {"dtype": torch.bfloat16, "device": "cuda"}
BLOCK = 512  # what the smallest tensor takes
PROCESSORS = 132

PACKAGE = {
    "__init__": "",
    "common/__init__": """
        import os
        if "NVTE_PROJECT_BUILDING" not in os.environ:
            raise RuntimeError("there is no CUDA driver")
        def load_framework_extension(framework):
            raise FileNotFoundError(framework)
    """,
    "pytorch/__init__": """
        import enum
        DType = enum.IntEnum("DType", {"kBFloat16": 6, "kFloat8E4M3": 7})
    """,
    "pytorch/attention": """
        import torch
        import transformer_engine_torch as tex
        @torch.library.custom_op("te_attention::prepare", mutates_args=(), device_types="cuda")
        def prepare(x: torch.Tensor) -> torch.Tensor:
            return tex.fa_prepare_fwd(x)
    """,
    "pytorch/tensor/__init__": "",
    "pytorch/tensor/storage/__init__": "",
}
for _kind in ("Float8Tensor", "MXFP8Tensor", "Float8BlockwiseQTensor"):
    _name = {"Float8Tensor": "float8_tensor", "MXFP8Tensor": "mxfp8_tensor"}.get(_kind, "float8_blockwise_tensor")
    _made = """
        class {}:
            def __init__(self, quantizer, fp8_scale_inv=None, data_transpose=None, **named):
                self._quantizer, self._scale_inv, self._transpose = quantizer, fp8_scale_inv, data_transpose
                vars(self).update({{"_" + name: value for name, value in named.items()}})
    """
    PACKAGE[f"pytorch/tensor/{_name}"] = _made.format(_kind)
    PACKAGE[f"pytorch/tensor/storage/{_name}_storage"] = _made.format(f"{_kind}Storage")


def quantizer(kind, rows=True, columns=True, internal=False, **more):
    """What the library's quantizers have, under the name of one."""
    named = {"dtype": 7, "rowwise_usage": rows, "columnwise_usage": columns, "internal": internal,
             "optimize_for_gemm": False, **more}
    if kind == "Float8Quantizer":
        named |= {name: torch.ones(1, device="cuda") for name in ("scale", "amax")}
    return type(kind, (types.SimpleNamespace,), {})(**named)


FOLDER = tempfile.TemporaryDirectory()


def setUpModule():
    for name, text in PACKAGE.items():
        path = pathlib.Path(FOLDER.name, "transformer_engine", f"{name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    sys.path.insert(0, FOLDER.name)
    pathlib.Path(FOLDER.name, "transformer_engine", "libtransformer_engine.so").touch()
    TransformerEngine.tex = importlib.import_module("transformer_engine_torch")


def tearDownModule():
    sys.path.remove(FOLDER.name)
    FOLDER.cleanup()


class TransformerEngine(unittest.TestCase):
    tex = None


class Import(TransformerEngine):
    def test_the_half_in_python_is_imported_without_a_driver(self):
        common = importlib.import_module("transformer_engine.common")
        self.assertNotIn("NVTE_PROJECT_BUILDING", os.environ)
        common.load_framework_extension("torch")
        with self.assertRaises(FileNotFoundError):
            common.load_framework_extension("jax")

    def test_what_is_not_known_is_refused_where_it_is_called(self):
        with self.assertRaisesRegex(torch_headroom.HeadroomError, "transformer_engine_torch.ep_dispatch"):
            self.tex.ep_dispatch
        with self.assertRaisesRegex(torch_headroom.HeadroomError, "ub_overlap"):
            self.tex.CommOverlapHelper()
        with self.assertRaisesRegex(torch_headroom.HeadroomError, "NVFP4Quantizer is not among"):
            self.tex.quantize(torch.empty(32, 32, **HALF), quantizer("NVFP4Quantizer"))

    def test_numbers_of_enumerations(self):
        self.assertEqual(self.tex.DType.kFloat8E5M2, 8)
        self.assertEqual(self.tex.NVTE_QKV_Layout.NVTE_THD_THD_THD, 14)
        self.assertEqual(self.tex.NVTE_QKV_Format.NVTE_BHSD, 7)
        self.assertEqual(self.tex.NVTE_Mask_Type.NVTE_PADDING_CAUSAL_BOTTOM_RIGHT_MASK, 5)


class Products(TransformerEngine):
    def setUp(self):
        self.workspace = torch.empty(1024, dtype=torch.uint8, device="cuda")
        self.weight, self.x = torch.empty(512, 256, **HALF), torch.empty(2, 100, 256, **HALF)

    def gemm(self, a, transposed_a, b, transposed_b, bias=None, out=None, grad=False, gelu=False, into=None,
             accumulate=False):
        return self.tex.generic_gemm(a, transposed_a, b, transposed_b, into, out, 6, bias, 6, gelu, None, grad,
                                     self.workspace, 1024, accumulate, False)

    def test_forward_and_backward_of_a_linear_layer(self):
        bias = torch.empty(512, **HALF)
        forward = lambda: self.gemm(self.weight, True, self.x, False, bias)  # noqa: E731
        results, kept, peak = allocated_by(forward)
        self.assertEqual(shapes(results), [((2, 100, 512), "bfloat16"), None, None, None])
        self.assertEqual((kept, peak), (2 * 100 * 512 * 2,) * 2)
        self.assertEqual(flops_of(forward), ("transformer_engine_torch.generic_gemm", 2 * 200 * 256 * 512))
        dy = results[0]
        results = self.gemm(self.x, False, dy, True, bias, grad=True)
        self.assertEqual(shapes(results), [((512, 256), "bfloat16"), ((512,), "bfloat16"), None, None])
        self.assertEqual(shapes(self.gemm(self.weight, False, dy, False))[0], ((2, 100, 256), "bfloat16"))

    def test_what_it_writes_into(self):
        main_grad = torch.zeros(512, 256, device="cuda")
        dy = torch.empty(2, 100, 512, **HALF)
        results, kept, _ = allocated_by(lambda: self.gemm(self.x, False, dy, True, into=main_grad, accumulate=True))
        self.assertIs(results[0], main_grad)
        self.assertEqual(kept, 0)

    def test_several_at_once(self):
        splits = self.x.view(200, 256).split([50, 150])
        outs = list(torch.empty(200, 512, **HALF).split([50, 150]))
        biases = [torch.empty(512, **HALF) for _ in splits]
        weights = [self.weight] * 2
        none = [torch.empty(0, **HALF)] * 2
        call = lambda: self.tex.te_general_grouped_gemm(  # noqa: E731
            weights, True, splits, False, outs, 6, [50, 150], biases, 6, True, none, False, [self.workspace], 1024, False, False,
            0)
        results, kept, peak = allocated_by(call)
        self.assertEqual((results, kept, peak), (biases, 0, 0))
        self.assertEqual(flops_of(call), ("transformer_engine_torch.te_general_grouped_gemm", 2 * 200 * 256 * 512))

    def test_gelu_in_its_epilogue_keeps_its_input(self):
        results = self.gemm(self.weight, True, self.x, False, gelu=True)
        self.assertEqual(shapes(results)[2], ((2, 100, 512), "bfloat16"))

    def test_activations(self):
        x = torch.empty(200, 512, **HALF)
        self.assertEqual(self.tex.swiglu(x, None).shape, (200, 256))
        self.assertEqual(self.tex.dswiglu(x[:, :256], x, None).shape, (200, 512))
        self.assertEqual(self.tex.gelu(x, None).shape, (200, 512))
        bias, dx = self.tex.dbias_dgelu(x, x, None)
        self.assertEqual((bias.shape, dx.shape), ((512,), (200, 512)))
        bias, same = self.tex.bgrad_quantize(x, None)
        self.assertEqual((bias.shape, same is x), ((512,), True))
        scores = torch.empty(16, 200, 200, **HALF)
        self.assertEqual(self.tex.scaled_upper_triang_masked_softmax_forward(scores, 1.0).shape, scores.shape)


class Norms(TransformerEngine):
    def test_layer_norm(self):
        x, weight = torch.empty(4, 100, 4096, **HALF), torch.empty(4096, **HALF)
        forward = lambda: self.tex.layernorm_fwd(x, weight, weight, 1e-5, None, None, 6, 0, False)  # noqa: E731
        (out, mean, deviation), kept, peak = allocated_by(forward)
        self.assertEqual(shapes([out, mean, deviation]), [((4, 100, 4096), "bfloat16"), *[((400,), "float32")] * 2])
        self.assertEqual(peak - kept, BLOCK)  # a workspace of one byte
        flat = x.view(400, 4096)
        backward = lambda: self.tex.layernorm_bwd(flat, flat, mean, deviation, weight, 0, False)  # noqa: E731
        results, kept, peak = allocated_by(backward)
        self.assertEqual(shapes(results), [((400, 4096), "bfloat16"), *[((4096,), "bfloat16")] * 2])
        # Each of two blocks on a multiprocessor sums the gradients of weight and bias.
        self.assertEqual(peak - kept, 2 * (2 * PROCESSORS * 4096 * 4))

    def test_two_blocks_of_a_row_tell_each_other_what_they_found(self):
        x, weight, row = torch.empty(64, 8192, **HALF), torch.empty(8192, **HALF), torch.empty(64, device="cuda")
        _, kept, peak = allocated_by(lambda: self.tex.layernorm_bwd(x, x, row, row, weight, 0, False))
        blocks = PROCESSORS  # two on each multiprocessor, two to a row
        self.assertEqual(peak - kept, 8 * blocks + 32 * blocks + 2 * blocks * 8192 * 4 + -(40 * blocks) % BLOCK)

    def test_rms_norm_of_a_width_that_no_kernel_is_tuned_for(self):
        x, weight, row = torch.empty(64, 1000, **HALF), torch.empty(1000, **HALF), torch.empty(64, device="cuda")
        results, kept, peak = allocated_by(lambda: self.tex.rmsnorm_bwd(x, x, row, weight, 0, False))
        self.assertEqual(shapes(results), [((64, 1000), "bfloat16"), ((1000,), "bfloat16")])
        self.assertEqual(peak - kept, 16 * 1000 * 4)  # a block for each four rows
        out, none, deviation = self.tex.rmsnorm_fwd(x, weight, 1e-5, None, None, 6, 0, False)
        self.assertEqual(shapes([out, none, deviation]), [((64, 1000), "bfloat16"), None, ((64,), "float32")])


class Attention(TransformerEngine):
    B, S, H, G, D = 2, 1000, 8, 8, 64  # batch, length, heads, heads of keys, width

    def parameters(self, **more):
        tex = self.tex
        named = {"is_training": True, "deterministic": False, "return_max_logit": False,
                 "attn_mask_type": tex.NVTE_Mask_Type.NVTE_CAUSAL_MASK, "bias_type": tex.NVTE_Bias_Type.NVTE_NO_BIAS,
                 "window_size_left": -1, "window_size_right": 0, "dropout": 0.0, "qkv_dtype": tex.DType.kBFloat16,
                 "softmax_type": tex.NVTE_Softmax_Type.NVTE_VANILLA_SOFTMAX,
                 "qkv_layout": tex.NVTE_QKV_Layout.NVTE_BSHD_BSHD_BSHD, "num_attn_heads": 8, "num_gqa_groups": 8,
                 "head_dim_qk": 64, "head_dim_v": 64, "max_seqlen_q": 1000, "max_seqlen_kv": 1000}
        return types.SimpleNamespace(**(named | more))

    def test_backend(self):
        choose, backends = self.tex.get_fused_attn_backend, self.tex.NVTE_Fused_Attn_Backend
        self.assertEqual(choose(self.parameters()), (backends.NVTE_F16_arbitrary_seqlen, ""))
        backend, reason = choose(self.parameters(head_dim_qk=60))
        self.assertEqual(backend, backends.NVTE_No_Backend)
        self.assertIn("60 and 64", reason)
        self.assertEqual(choose(self.parameters(qkv_dtype=self.tex.DType.kFloat8E4M3))[0], backends.NVTE_No_Backend)

    def run_both(self, q, k, v, layout, layout_format, ends, mask="CAUSAL_MASK"):
        """Returns allocated_by() of the forward and of the backward, and the flops of both."""
        tex = self.tex
        masks, layouts, formats = tex.NVTE_Mask_Type, tex.NVTE_QKV_Layout, tex.NVTE_QKV_Format
        layout, form = layouts[f"NVTE_{layout}"], formats[f"NVTE_{layout_format}"]
        rest = (tex.NVTE_Bias_Type.NVTE_NO_BIAS, masks[f"NVTE_{mask}"], tex.NVTE_Softmax_Type.NVTE_VANILLA_SOFTMAX, (-1, 0),
                True)
        none = formats.NVTE_QKV_Format_NOT_SET
        forward = lambda: tex.fused_attn_fwd(  # noqa: E731
            self.S, self.S, True, 0.125, 0.0, True, layout, form, none, *rest, ends, ends, q, k, v, torch.bfloat16, None,
            None, None, None, None, None, None, None, None, 16, False, False)
        first = allocated_by(forward)
        out, *aux = first[0]
        backward = lambda: tex.fused_attn_bwd(  # noqa: E731
            self.S, self.S, 0.125, 0.0, True, layout, form, form, layout, none, none, *rest, False, ends, ends, q, k, v, out,
            out, torch.bfloat16, aux, None, None, None, None, None, False)
        return first, allocated_by(backward), flops_of(forward), flops_of(backward)

    def test_forward_and_backward(self):
        q, k, v = (torch.empty(self.B, self.S, self.H, self.D, **HALF) for _ in range(3))
        ends = torch.tensor([0, 1000, 2000], dtype=torch.int32, device="cuda")
        first, second, *work = self.run_both(q, k, v, "BSHD_BSHD_BSHD", "BSHD", ends)
        results, kept, peak = first
        self.assertEqual(shapes(results), [((2, 1000, 8, 64), "bfloat16"), ((2, 8, 1000, 1), "float32"), ((2,), "int64")])
        self.assertEqual(peak - kept, BLOCK)
        results, kept, peak = second
        self.assertEqual(shapes(results), [((2, 1000, 8, 64), "bfloat16")] * 3 + [None, None])
        # The sums of dO * O, and dQ in float32.
        self.assertEqual(peak - kept, 4 * 2 * 1000 * 8 * (1 + 64))
        pairs = 2 * 8 * 1000 * 1001 // 2
        self.assertEqual(work, [("transformer_engine_torch.fused_attn_fwd", 4 * 64 * pairs),
                                ("transformer_engine_torch.fused_attn_bwd", 10 * 64 * pairs)])

    def test_gradients_are_parts_of_one_tensor_as_what_they_are_of(self):
        ends = torch.tensor([0, 1000, 2000], dtype=torch.int32, device="cuda")
        for layout, shape, dimension in (("SBH3D", (self.S, self.B, self.H, 3, self.D), 3),
                                         ("SB3HD", (self.S, self.B, 3, self.H, self.D), 2)):
            q, k, v = torch.empty(shape, **HALF).unbind(dimension)
            _, (results, _, _), *_ = self.run_both(q, k, v, layout, "SBHD", ends)
            self.assertEqual({gradient.untyped_storage().nbytes() for gradient in results[:3]}, {3 * 2 * 1000 * 8 * 64 * 2})
            self.assertEqual([gradient.stride() for gradient in results[:3]], [tensor.stride() for tensor in (q, k, v)])

    def test_sequences_of_different_length(self):
        q, k, v = (torch.empty(1500, self.H, self.D, **HALF) for _ in range(3))
        ends = torch.tensor([0, 500, 1500], dtype=torch.int32, device="cuda")
        first, second, work, _ = self.run_both(q, k, v, "THD_THD_THD", "THD", ends, "PADDING_CAUSAL_MASK")
        self.assertEqual(shapes(first[0])[1], ((1500, 8, 1), "float32"))
        self.assertEqual(work[1], 4 * 64 * 8 * (500 * 501 + 1000 * 1001) // 2)
        # cuDNN plans for 32 sequences of 2048 tokens: lengths of both, and five lists of offsets.
        plan = 4 * 2048 * 8 * (1 + 64) + 2 * 32 * 4 + 5 * 272
        self.assertEqual(second[2] - second[1], plan + -plan % BLOCK)

    def test_ops_that_its_half_in_python_defines_run_though_it_has_libraries(self):
        prepare = importlib.import_module("transformer_engine.pytorch.attention").prepare
        x = torch.empty(100, 2, 8, 3 * 64, **HALF)
        self.assertEqual(prepare(x).shape, (3, 2, 100, 8, 3 * 64))
        self.assertEqual(flops_of(lambda: prepare(x))[0], "transformer_engine_torch.fa_prepare_fwd")

    def test_attention_of_float8_is_refused(self):
        with self.assertRaisesRegex(torch_headroom.HeadroomError, "fp8_dpa"):
            self.tex.fused_attn_bwd(*[None] * 28, quantizer("Float8Quantizer"), None, None, False)


class Quantized(TransformerEngine):
    ROWS, COLUMNS = 256, 512
    SIZE = ROWS * COLUMNS

    def setUp(self):
        self.x = torch.empty(self.ROWS, self.COLUMNS, **HALF)

    def taken(self, made):
        return made[1], made[2] - made[1]

    def test_delayed_scaling_has_a_transposed_copy(self):
        out, kept, peak = allocated_by(lambda: self.tex.quantize(self.x, quantizer("Float8Quantizer")))
        self.assertEqual(shapes([out._data, out._transpose, out._scale_inv]),
                         [((256, 512), "uint8"), ((512, 256), "uint8"), ((1,), "float32")])
        self.assertEqual(kept, 2 * self.SIZE + BLOCK + 2 * BLOCK)  # the quantizer, which it holds, has two numbers
        out = self.tex.quantize(self.x, quantizer("Float8Quantizer", columns=False, internal=True))
        self.assertEqual((type(out).__name__, out._transpose), ("Float8TensorStorage", None))

    def test_current_scaling_finds_its_scale_first(self):
        given = quantizer("Float8CurrentScalingQuantizer")
        made = allocated_by(lambda: self.tex.quantize(self.x, given))
        self.assertEqual(self.taken(made), (2 * self.SIZE + BLOCK, BLOCK))
        # A kernel that computes what is quantized writes a tensor that is not.
        made = allocated_by(lambda: self.tex.gelu(self.x, given))
        self.assertEqual(self.taken(made), (2 * self.SIZE + BLOCK, 2 * self.SIZE + 2 * BLOCK))

    def test_scales_of_blocks(self):
        out, kept, _ = allocated_by(lambda: self.tex.quantize(self.x, quantizer("MXFP8Quantizer")))
        self.assertEqual(shapes([out._rowwise_scale_inv, out._columnwise_scale_inv]),
                         [((256, 16), "uint8"), ((8, 512), "uint8")])
        self.assertEqual(kept, 2 * self.SIZE + 2 * self.SIZE // 32)
        given = quantizer("Float8BlockQuantizer", block_scaling_dim=1)
        out, _, _ = allocated_by(lambda: self.tex.quantize(self.x, given))
        self.assertEqual(shapes([out._rowwise_data, out._columnwise_data, out._rowwise_scale_inv, out._columnwise_scale_inv]),
                         [((256, 512), "uint8"), ((512, 256), "uint8"), ((4, 256), "float32"), ((2, 512), "float32")])
        given.block_scaling_dim = 2
        out = self.tex.quantize(self.x, given)
        self.assertEqual(shapes([out._rowwise_scale_inv, out._columnwise_scale_inv]),
                         [((2, 4), "float32"), ((4, 4), "float32")])

    def test_a_product_reads_one_half_as_float8(self):
        made = self.tex.quantize(self.x, quantizer("Float8Quantizer"))
        for rowwise, half in ((True, made._data), (False, made._transpose)):
            data, scale = transformer_engine._operand(made, rowwise)
            self.assertEqual((data.dtype, data.data_ptr()), (torch.float8_e4m3fn, half.data_ptr()))
            self.assertIs(scale, made._scale_inv)

    def test_gradient_of_a_bias(self):
        given = quantizer("Float8Quantizer")
        (bias, out), kept, peak = allocated_by(lambda: self.tex.bgrad_quantize(self.x, given))
        self.assertEqual((bias.shape, tuple(out._data.shape)), ((512,), (256, 512)))
        # Tiles of 32 rows keep the most multiprocessors busy: each makes a row of sums in float32.
        self.assertEqual(peak - kept, 256 // 32 * 512 * 4)


class Recomputation(unittest.TestCase):
    def entered(self, enabled, delayed):
        """Returns what a recomputation enters of the library's context, whose state in the forward is given."""
        seen = []

        @contextlib.contextmanager
        def autocast(**named):
            seen.append(named)
            yield

        recipe = types.SimpleNamespace(delayed=lambda: delayed)
        state = types.SimpleNamespace(is_fp8_enabled=lambda: enabled, get_fp8_recipe=lambda: recipe,
                                      get_fp8_group=lambda: "group")
        library = types.SimpleNamespace(FP8GlobalStateManager=state, autocast=autocast)
        with unittest.mock.patch.dict(sys.modules, {"transformer_engine.pytorch.quantization": library}):
            recomputing = recompute.Recomputing(contextlib.nullcontext())
        for _ in range(2):  # a graph that is kept is recomputed twice
            with recomputing:
                pass
        return seen, recipe

    def test_the_library_s_context_is_that_of_the_forward(self):
        seen, recipe = self.entered(enabled=True, delayed=False)
        self.assertEqual(seen, [{"recipe": recipe, "amax_reduction_group": "group"}] * 2)
        self.assertEqual(self.entered(enabled=False, delayed=False)[0], [])
        self.assertEqual(self.entered(enabled=True, delayed=True)[0], [])


class Optimizers(TransformerEngine):
    def test_lists_of_tensors(self):
        lists = [[torch.ones(8, device="cuda")] * 2 for _ in range(4)]
        flag = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.tex.multi_tensor_adam(65536, flag, lists, 1e-3, 0.9, 0.999, 1e-8, 1, 1, 1, 0.0)
        norm, each = self.tex.multi_tensor_l2norm(65536, flag, [lists[0]], True)
        self.assertEqual(shapes([norm, each]), [((1,), "float32"), ((2,), "float32")])


if __name__ == "__main__":
    unittest.main()
