# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a card refuses, the simulated one refuses in the same words: tensors on another device, other dtypes. What a
card takes, it takes."""

import importlib.util
import os
import pathlib
import re
import unittest

import support
from recorded_script import Recorded

torch = support.simulated("a100-80gb")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

_SCRIPTS = pathlib.Path(__file__).with_name("faults")
_SOURCES = pathlib.Path(__file__).resolve().parents[2]
CPU, CUDA = "cpu", "cuda"
TWO_DEVICES = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"


def rand(*sizes, device=CUDA, dtype=torch.float32):
    return torch.randn(sizes, device=device).to(dtype)


def zeros(*sizes, device=CUDA, dtype=torch.long):
    return torch.zeros(sizes, device=device, dtype=dtype)


def elsewhere(argument, method, device="cpu", common="cuda:0"):
    return (f"Expected all tensors to be on the same device, but got {argument} is on {device}, different from other "
            f"tensors on {common} (when checking argument in method wrapper_CUDA_{method})")


class Refused(unittest.TestCase):
    def refused(self, sentence, work, error=RuntimeError):
        with self.assertRaises(error) as caught:
            work()
        self.assertEqual(str(caught.exception).splitlines()[0], sentence)


class Devices(Refused):
    def test_products(self):
        x, w = rand(20, 100), rand(100, 100, device=CPU)
        self.refused(elsewhere("mat2", "mm"), lambda: x @ w)
        self.refused(elsewhere("mat2", "mm", "cuda:0", "cpu"), lambda: w @ x.T)
        self.refused(elsewhere("self", "mm_out_out", "cuda:0", "cpu"),
                     lambda: torch.mm(x, w.cuda(), out=torch.empty(20, 100)))
        self.refused(elsewhere("mat1", "addmm"), lambda: nn.Linear(100, 100, device=CUDA)(w))
        self.refused(elsewhere("mat1", "addmm", "cuda:0", "cpu"), lambda: nn.Linear(100, 100)(x))
        self.refused(elsewhere("mat1", "addmm", "cuda:0", "cpu"),
                     lambda: torch.addmm(rand(100, device=CPU), x, w.cuda()))
        self.refused(elsewhere("mat2", "bmm"), lambda: torch.bmm(rand(2, 3, 4), rand(2, 4, 5, device=CPU)))

    def test_modules(self):
        x = rand(20, 100)
        image = rand(2, 3, 8, 8)
        conv = nn.Conv2d(3, 4, 3)
        self.refused("Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
                     lambda: conv(image))
        self.refused("Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or "
                     "input should be a MKLDNN tensor and weight is a dense tensor",
                     lambda: nn.Conv2d(3, 4, 3).cuda()(image.cpu()))
        self.refused(elsewhere("weight", "_native_layer_norm"), lambda: nn.LayerNorm(100)(x))
        self.refused(elsewhere("weight", "_native_group_norm"), lambda: nn.GroupNorm(4, 100)(x))
        self.refused(elsewhere("weight", "_native_batch_norm"), lambda: nn.BatchNorm1d(100)(x))
        self.refused(elsewhere("weight", "_cudnn_batch_norm"), lambda: nn.BatchNorm2d(3)(image))
        self.refused(elsewhere("index", "_index_select"), lambda: nn.Embedding(10, 4).cuda()(zeros(3, device=CPU)))
        self.refused(elsewhere("index", "_index_select", "cuda:0", "cpu"), lambda: nn.Embedding(10, 4)(zeros(3)))
        self.refused("Input and parameter tensors are not at the same device, found input tensor at cuda:0 and "
                     "parameter tensor at cpu", lambda: nn.LSTM(100, 4)(x))
        q = rand(1, 2, 8, 16)
        self.refused("Expected query, key, and value to have the same device type, but got query.device: cuda:0 "
                     "key.device: cpu and value.device: cuda:0 instead.",
                     lambda: F.scaled_dot_product_attention(q, q.cpu(), q))

    def test_losses(self):
        x = rand(20, 100)
        self.refused(elsewhere("target", "nll_loss_forward"), lambda: F.cross_entropy(x, zeros(20, device=CPU)))
        for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.binary_cross_entropy_with_logits, F.kl_div):
            self.refused(TWO_DEVICES, lambda loss=loss: loss(x, rand(20, 100, device=CPU)))

    def test_other_ops(self):
        x, other = rand(20, 100), rand(20, 100, device=CPU)
        index, mask = zeros(20, 1, device=CPU), zeros(20, 100, device=CPU, dtype=torch.bool)
        self.refused(TWO_DEVICES, lambda: x + other)
        self.refused(TWO_DEVICES, lambda: x.mul_(other))
        self.refused(TWO_DEVICES, lambda: other.mul_(x))
        self.refused(TWO_DEVICES, lambda: torch.zeros(()).add_(x.sum()))
        self.refused(TWO_DEVICES, lambda: torch.add(x, x, out=other))
        self.refused(TWO_DEVICES, lambda: torch.where(mask, x, x))
        self.refused(TWO_DEVICES, lambda: torch._foreach_add([x], [other]))
        self.refused(TWO_DEVICES, lambda: x.index_put_((index[:, 0],), other))
        self.refused(elsewhere("tensors", "cat"), lambda: torch.cat([x, other]))
        self.refused(elsewhere("tensors", "cat"), lambda: torch.stack([x, other]))
        self.refused(elsewhere("tensors", "cat", "cuda:0", "cpu"), lambda: torch.cat([other, x]))
        self.refused(elsewhere("index", "gather"), lambda: x.gather(1, index))
        self.refused(elsewhere("index", "_index_select"), lambda: x.index_select(0, index[:, 0]))
        self.refused(elsewhere("index", "scatter_add"), lambda: x.scatter_add(1, index, x))
        self.refused(elsewhere("index", "scatter_add_"), lambda: x.scatter_add_(1, index, x))
        self.refused("expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",
                     lambda: x.masked_fill(mask, 0.0))
        square = rand(8, 8)
        self.refused(elsewhere("b", "out_linalg_lstsq_out"), lambda: torch.linalg.lstsq(square, rand(8, 2, device=CPU)))
        for name in "lengths", "offsets":
            self.refused(f"Expected data.get_device() == {name}_value.get_device() to be true, but got false.",
                         lambda name=name: torch.segment_reduce(square, "sum", **{name: torch.tensor([0, 8])}, axis=0,
                                                                unsafe=True))
        indices = "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
        self.refused(indices, lambda: other[zeros(2)])
        self.refused(indices, lambda: other.index_put_((zeros(2),), torch.tensor(1.0)))

    def test_generators(self):
        x, here, card = rand(20, 100), torch.Generator(), torch.Generator(CUDA)
        for work in (lambda: torch.randn(3, device=CUDA, generator=here), lambda: x.normal_(generator=here),
                     lambda: torch.multinomial(x.softmax(-1), 1, generator=here), lambda: x.exponential_(generator=here),
                     lambda: torch.randperm(8, device=CUDA, generator=here), lambda: torch.bernoulli(x, generator=here)):
            self.refused("Expected a 'cuda' device type for generator but found 'cpu'", work)
        self.refused("Expected a 'cpu' device type for generator but found 'cuda'",
                     lambda: torch.randn(3, generator=card))
        self.assertTrue(torch.randn(3, device=CUDA, generator=card).is_cuda)

    def test_what_a_card_takes(self):
        x, index = rand(20, 100), zeros(2, device=CPU)
        number = torch.tensor(2.0)
        for result in (x + number, number * x, x.mul_(number), x[index], x.masked_fill(x > 0, number),
                       torch.where(x > 0, x, number), torch.where(x > 0, number, x), x.clamp(max=2), torch.add(1, x),
                       torch._foreach_mul([x, x], number)[0], torch._foreach_div([x], [number])[0],
                       torch.lerp(x, x, 0.5)):
            self.assertEqual(result.device.type, "cuda")
        x[index] = 1.0
        x[index] = torch.tensor(3.0)
        x[0] = rand(100, device=CPU)
        x.copy_(rand(20, 100, device=CPU).pin_memory(), non_blocking=True)
        torch._foreach_copy_([x], [rand(20, 100, device=CPU)])
        x.fill_(number).index_fill_(0, index.cuda(), number).bernoulli_(torch.full((20, 100), 0.5))
        self.assertTrue(nn.utils.rnn.pack_padded_sequence(x[None], torch.tensor([20]), batch_first=True).data.is_cuda)
        for options in ({"fused": True}, {"foreach": True}, {"foreach": False}, {"capturable": True}):
            parameter = nn.Parameter(rand(4))
            parameter.grad = rand(4)
            optimizer = torch.optim.AdamW([parameter], lr=torch.tensor(0.1) if "fused" in options else 0.1, **options)
            optimizer.step()
            optimizer.step()


class Types(Refused):
    def test_products(self):
        x, half = rand(8, 8), rand(8, 8, dtype=torch.bfloat16)
        self.refused("expected mat1 and mat2 to have the same dtype, but got: float != c10::BFloat16", lambda: x @ half)
        self.refused("mat1 and mat2 must have the same dtype, but got BFloat16 and Float",
                     lambda: nn.Linear(8, 8).cuda()(half))
        self.refused("mat1 and mat2 must have the same dtype, but got Float and BFloat16",
                     lambda: nn.Linear(8, 8).cuda().bfloat16()(x))
        self.refused("self and mat2 must have the same dtype, but got Float and BFloat16",
                     lambda: torch.addmm(x[0], half, half))
        self.refused("Input dtypes must be the same, got: input float, batch1: c10::BFloat16, batch2: c10::BFloat16",
                     lambda: torch.baddbmm(x[None], half[None], half[None]))
        self.refused("dot : expected both vectors to have same dtype, but found Float and BFloat16",
                     lambda: torch.dot(x[0], half[0]))
        self.refused("expected scalar type Float but found BFloat16", lambda: torch.bmm(x[None], half[None]))
        self.refused("expected scalar type Float but found BFloat16", lambda: torch.mv(x, half[0]))
        self.refused('"addmm_cuda" not implemented for \'Long\'', lambda: zeros(4, 4) @ zeros(4, 4),
                     NotImplementedError)

    def test_modules(self):
        x, half = rand(8, 8), rand(8, 8, dtype=torch.bfloat16)
        image, weight = rand(1, 3, 8, 8), rand(4, 3, 3, 3, dtype=torch.float16)
        self.refused("Input type (torch.cuda.FloatTensor) and weight type (torch.cuda.HalfTensor) should be the same",
                     lambda: F.conv2d(image, weight))
        self.refused("Input type (float) and bias type (c10::BFloat16) should be the same",
                     lambda: F.conv2d(image, weight.float(), half[0, :4]))
        self.refused("Input type (c10::BFloat16) and bias type (float) should be the same",
                     lambda: nn.Conv1d(8, 4, 3).cuda()(half[None]))
        self.refused("RNN input dtype (torch.bfloat16) does not match weight dtype (torch.float32). Convert input: "
                     "input.to(torch.float32), or convert model: model.to(torch.bfloat16)",
                     lambda: nn.LSTM(8, 4).cuda()(half[None]), ValueError)
        self.refused("expected scalar type BFloat16 but found Float", lambda: nn.LayerNorm(8).cuda()(half))
        self.refused("expected scalar type Float but found BFloat16",
                     lambda: F.batch_norm(x, None, None, half[0], half[0], True))
        self.refused("expected scalar type BFloat16 but found Float", lambda: nn.GroupNorm(2, 8).cuda()(half))
        q = rand(1, 2, 8, 64)
        self.refused("Expected query, key, and value to have the same dtype, but got query.dtype: float key.dtype: "
                     "c10::BFloat16 and value.dtype: float instead.",
                     lambda: F.scaled_dot_product_attention(q, q.bfloat16(), q))
        self.refused("Index put requires the source and destination dtypes match, got Float for the destination and "
                     "BFloat16 for the source.", lambda: x.index_put_((zeros(1),), half), IndexError)
        self.refused('"nll_loss_forward_reduce_cuda_kernel_2d_index" not implemented for \'Int\'',
                     lambda: F.cross_entropy(x, zeros(8, dtype=torch.int32)), NotImplementedError)
        self.refused("expected scalar type Float but found BFloat16",
                     lambda: F.grid_sample(rand(1, 1, 4, 4), rand(1, 4, 4, 2).bfloat16(), align_corners=True))

    def normalised(self, x, weight=None, statistics=torch.float32, **options):
        """Batch normalisation with a gradient of its input; `weight` is a type."""
        x = x.detach().requires_grad_()
        parameter = None if weight is None else torch.ones(8, device=CUDA, dtype=weight, requires_grad=True)
        mean, var = torch.zeros(2, 8, device=CUDA, dtype=statistics)
        F.batch_norm(x, mean, var, parameter, parameter, True, **options).sum().backward()
        return x.grad

    def test_batch_normalisation(self):
        # Without a weight, and in half precision, cuDNN is not used.
        single, half, brain = torch.float32, torch.float16, torch.bfloat16
        x = rand(4, 8, 5)
        for statistics in half, brain:
            self.refused(f"Expected running_mean to have type Float but got {'Half' if statistics == half else 'BFloat16'}",
                         lambda statistics=statistics: self.normalised(x, statistics=statistics))
        self.refused("Expected running_mean to have type Half but got Float",
                     lambda: self.normalised(x.half(), weight=half))
        self.refused("Expected running_mean to have type Float but got Half",
                     lambda: self.normalised(x.bfloat16(), weight=single, statistics=half))
        self.refused("Expected weight to have type Float but got Half",
                     lambda: torch.ops.aten.native_batch_norm_backward(
                         x.bfloat16(), x.bfloat16(), x[0, :, 0].half(), None, None, x[0, :, 0], x[0, :, 0], True, 1e-5,
                         [True] * 3))
        self.refused("Expected weight to have type Float but got BFloat16",
                     lambda: F.batch_norm(x, None, None, x[0, :, 0].bfloat16(), None, True))
        self.refused("Expected tensor for argument #2 'weight' to have the same type as tensor for argument #4 "
                     "'running_mean'; but type torch.cuda.FloatTensor does not equal torch.cuda.HalfTensor (while "
                     "checking arguments for cudnn_batch_norm)",
                     lambda: self.normalised(x, weight=single, statistics=half))
        self.refused("Expected tensor for argument #1 'input' to have the same type as tensor for argument #2 "
                     "'weight'; but type torch.cuda.FloatTensor does not equal torch.cuda.HalfTensor (while checking "
                     "arguments for cudnn_batch_norm)", lambda: self.normalised(x, weight=half))

    def test_batch_normalisation_that_a_card_takes(self):
        x = rand(4, 8, 5)
        for dtype in torch.float16, torch.bfloat16:
            for weight in None, torch.float32:
                self.assertEqual(self.normalised(x.to(dtype), weight).dtype, dtype)
            self.assertEqual(self.normalised(x.to(dtype), dtype, dtype).dtype, dtype)
            for other in (rand(4, 8), rand(4, 8, 5, 6).to(memory_format=torch.channels_last)):
                # These kernels do not read the running statistics in backward.
                self.assertEqual(self.normalised(other, statistics=dtype).dtype, other.dtype)
            self.assertTrue(F.batch_norm(x.transpose(0, 2), None, None, torch.ones(8, device=CUDA, dtype=dtype), None,
                                         True).is_cuda)

    def test_other_ops(self):
        x, half = rand(8, 8), rand(8, 8, dtype=torch.bfloat16)
        self.refused("Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; "
                     "but got torch.cuda.FloatTensor instead (while checking arguments for embedding)",
                     lambda: F.embedding(rand(3), x))
        self.refused("index_add_(): self (Float) and source (BFloat16) must have the same scalar type",
                     lambda: x.index_add(0, zeros(1), half[:1]))
        self.refused("scatter(): Expected self.dtype to be equal to src.dtype",
                     lambda: x.scatter_add(0, zeros(8, 8), half))
        self.refused("expected dtype float for `end` but got dtype c10::BFloat16", lambda: torch.lerp(x, half, 0.5))
        self.refused("expected scalar type Float but found BFloat16", lambda: torch.cdist(x, half))
        self.refused('"cholesky_cusolver" not implemented for \'BFloat16\'', lambda: torch.linalg.cholesky(half),
                     NotImplementedError)
        self.refused('"max_pool2d_with_indices_out_cuda_frame" not implemented for \'Long\'',
                     lambda: F.max_pool2d(zeros(1, 1, 4, 4), 2), NotImplementedError)

    def test_what_a_card_takes(self):
        x, half = rand(8, 8), rand(8, 8, dtype=torch.bfloat16)
        for result in (x + half, torch.cat([x, half]), torch.where(x > 0, x, half), nn.BatchNorm1d(8).cuda()(half),
                       nn.BatchNorm2d(8).cuda()(half[None, :, None]), F.mse_loss(x, half),
                       F.binary_cross_entropy_with_logits(x, half), torch._foreach_add([x], [half])[0],
                       x.gather(0, zeros(1, 8, dtype=torch.int32)), x[zeros(2, dtype=torch.int32)],
                       F.embedding(zeros(2, dtype=torch.int32), x), F.nll_loss(x, zeros(8, dtype=torch.uint8))):
            self.assertTrue(result.is_cuda)


class Deterministic(unittest.TestCase):
    """Under torch.use_deterministic_algorithms(), kernels raise as in test_torch.py's test_nondeterministic_alert_*."""

    def setUp(self):
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)

    @staticmethod
    def image(*sizes):
        return rand(*sizes).requires_grad_()

    def raises(self, kernel, work):
        with self.assertRaisesRegex(RuntimeError, f"^{kernel} does not have a deterministic implementation"):
            work()

    def test_pooling_and_sampling(self):
        for kernel, module, sizes in (
                ("avg_pool3d_backward_cuda", nn.AvgPool3d(3), (2, 3, 3, 3)),
                ("adaptive_avg_pool2d_backward_cuda", nn.AdaptiveAvgPool2d(3), (2, 3, 3)),
                ("adaptive_avg_pool3d_backward_cuda", nn.AdaptiveAvgPool3d(3), (2, 3, 3, 3)),
                ("max_pool3d_with_indices_backward_cuda", nn.MaxPool3d(3), (2, 3, 3, 3)),
                ("adaptive_max_pool2d_backward_cuda", nn.AdaptiveMaxPool2d(3), (2, 3, 3)),
                ("fractional_max_pool2d_backward_cuda", nn.FractionalMaxPool2d(2, output_ratio=0.5), (2, 3, 3, 3)),
                ("upsample_linear1d_backward_out_cuda", nn.Upsample(12, mode="linear"), (1, 2, 4)),
                ("upsample_bicubic2d_backward_out_cuda", nn.Upsample(12, mode="bicubic"), (1, 2, 4, 4)),
                ("reflection_pad1d_backward_out_cuda", nn.ReflectionPad1d(1), (2, 3, 8))):
            with self.subTest(kernel):
                result = module(self.image(*sizes)).sum()
                self.raises(kernel, result.backward)
        sampled = F.grid_sample(self.image(1, 1, 2, 2), rand(1, 1, 1, 2), align_corners=False).sum()
        self.raises("grid_sampler_2d_backward_cuda", sampled.backward)

    def test_losses_and_counts(self):
        scores, labels = self.image(2, 3, 5, 5), zeros(2, 5, 5)
        self.raises("nll_loss2d_forward_out_cuda_template", lambda: F.cross_entropy(scores, labels))
        loss = F.ctc_loss(self.image(50, 3, 15), zeros(3, 30) + 1, [50] * 3, [30, 25, 20])
        self.raises("ctc_loss_backward_gpu", loss.backward)
        x = rand(10)
        self.raises("median CUDA with indices output", lambda: x.median(0))
        self.raises("_histc_cuda with floating point input", lambda: x.histc(min=0, max=3))
        self.raises("_bincount_cuda", lambda: zeros(10).bincount(x))
        self.raises("put_", lambda: x.put_(zeros(1), rand(1)))

    def test_what_is_deterministic(self):
        scores = self.image(8, 3)
        F.cross_entropy(scores, zeros(8)).backward()
        F.cross_entropy(self.image(2, 3, 5, 5), zeros(2, 5, 5), reduction="none")
        nn.AdaptiveAvgPool2d(1)(self.image(2, 3, 4, 4)).sum().backward()
        F.interpolate(self.image(1, 2, 4, 4), size=12, mode="bilinear").sum().backward()
        nn.MaxPool2d(2)(self.image(2, 3, 4, 4)).sum().backward()
        scores.median(), scores.cumsum(0), zeros(10).bincount()
        zeros(10).histc(min=0, max=3)

    def test_warnings(self):
        torch.use_deterministic_algorithms(True, warn_only=True)
        with self.assertWarnsRegex(UserWarning, "median CUDA with indices output does not have"):
            rand(10).median(0)


class Extensions(unittest.TestCase):
    """Kernels of other libraries, and Triton's."""

    def test_tensors_on_the_cpu(self):
        from torch_headroom._kernels import launches

        with self.assertRaisesRegex(RuntimeError, "Expected all tensors to be on the same device.*cuda:0 and cpu"):
            launches.launch("kernel", [rand(2)], [rand(2, device=CPU)], how=launches.TABLE)
        launches.launch("kernel", [rand(2), rand(2, device=CPU).pin_memory()], [rand(2)], how=launches.TABLE)

    def test_dtypes_of_flash_attention(self):
        from torch_headroom._kernels import attention

        q = rand(1, 8, 2, 64, dtype=torch.bfloat16)
        with self.assertRaisesRegex(RuntimeError, "query and key must have the same dtype"):
            attention.fa2_fwd(q, q.half(), q, None, None, 0.0, 1.0, False, -1, -1, 0.0, False)


class Autocast(unittest.TestCase):
    def test_recurrent_networks_run_in_float16(self):
        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            network = kind(8, 4, num_layers=2).cuda()
            with torch.autocast("cuda", torch.bfloat16):
                result, _ = network(rand(3, 2, 8))
            self.assertEqual(result.dtype, torch.float16)
            result.float().sum().backward()
            self.assertEqual(network.weight_ih_l0.grad.dtype, torch.float32)


# CUDA has no kernel for these dtypes of these ops, but the simulated card takes them. Not all samples of einsum are
# products.
_ACCEPTED = {"einsum", "igamma", "igammac", "angle", "histc", "native_dropout_backward",
             "scatter_reduce_prod", "scatter_reduce_amin", "scatter_reduce_amax"}


class OfTheCpuAlone(Refused):
    def test_histograms(self):
        x, edges = rand(20, 2), [torch.linspace(-3, 3, 5)] * 2
        works = {"_histogramdd_from_bin_tensors": lambda: torch.histogramdd(x, [edge.cuda() for edge in edges]),
                 "_histogramdd_bin_edges": lambda: torch.histogramdd(x, [5, 5]),
                 "histogram.bin_ct": lambda: torch.histogram(x, 5)}
        works_of_both = {"_histogramdd_from_bin_tensors": lambda: torch.histogramdd(x.cpu(), [x[:, 0], x[:, 1]])}
        for name, work in (*works.items(), *works_of_both.items()):
            self.refused(f"Could not run 'aten::{name}' with arguments from the 'CUDA' backend: PyTorch has the operator "
                         "for the CPU alone. Give the operator tensors on the CPU, as by tensor.cpu().", work,
                         NotImplementedError)
        torch.histogramdd(x.cpu(), edges)
        self.assertEqual(torch.histc(x, 5).device, x.device)

    def test_the_list(self):
        """PyTorch's own list of kernels, for the ops that programs call."""
        if importlib.util.find_spec("torchgen") is None or importlib.util.find_spec("yaml") is None:
            self.skipTest("this Python has no torchgen, or no yaml")
        import yaml

        functions = yaml.safe_load((pathlib.Path(torch.__file__).parents[1] / "torchgen/packaged/ATen/native"
                                    / "native_functions.yaml").read_text(encoding="utf-8"))
        kernels = {entry["func"].partition("(")[0]: ", ".join(entry.get("dispatch", {})) for entry in functions}
        source = (_SOURCES / "core/device/unsupported.cpp").read_text(encoding="utf-8")
        listed = re.findall(r'"([\w.]+)"', source[source.index('"_add_relu.Tensor"'):source.index("&refuseOnCard>")])
        self.assertGreater(len(listed), 10)
        for name in listed:
            self.assertIn("CPU", kernels[name])
            self.assertNotRegex(kernels[name], "CUDA|Composite", name)


class Samples(unittest.TestCase):
    def test_dtypes_that_cuda_has_no_kernel_for(self):
        """PyTorch's op samples say which dtypes each device takes."""
        os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "cpu"
        try:
            from torch.testing._internal.common_methods_invocations import op_db
        except ImportError as error:
            self.skipTest(f"PyTorch's op samples cannot be imported: {error}")
        from torch.utils._pytree import tree_map_only

        refused, accepted = 0, set()
        for op in op_db:
            for dtype in (torch.int64, torch.bool, torch.bfloat16, torch.float16, torch.float32):
                if dtype not in op.supported_dtypes("cpu") or dtype in op.supported_dtypes("cuda"):
                    continue
                sample = next(iter(op.sample_inputs("cpu", dtype)))
                arguments = tree_map_only(torch.Tensor, torch.Tensor.cuda, (sample.input, sample.args, sample.kwargs))
                try:
                    op(arguments[0], *arguments[1], **arguments[2])
                    accepted.add(op.formatted_name)
                except (RuntimeError, NotImplementedError):
                    refused += 1
        self.assertEqual(accepted - _ACCEPTED, set())
        self.assertGreater(refused, 20)


class Scripts(Recorded):
    def test_tensors_left_on_the_cpu(self):
        for kind, sentence in (("teacher", elsewhere("mat1", "addmm", "cuda:0", "cpu")),
                               ("labels", elsewhere("target", "nll_loss_forward")),
                               ("embedding", elsewhere("index", "_index_select", "cuda:0", "cpu"))):
            result = self.run_script(_SCRIPTS / "left_on_cpu.py", "--gpu", "a100-80gb", arguments=(kind,))
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(f"RuntimeError: {sentence}", result.stderr)
            self.assertIn("left_on_cpu.py", result.stderr)

    def test_recurrent_networks_under_autocast(self):
        for kind in ("LSTM", "GRU", "RNN"):
            result = self.run_script(_SCRIPTS / "rnn_autocast.py", "--gpu", "a100-80gb", arguments=(kind,))
            self.assertEqual(result.returncode, 0, result.stderr)


class Lists(unittest.TestCase):
    """Facts of the installed PyTorch."""

    def test_checks_of_the_yaml(self):
        for module in ("torchgen", "yaml"):
            if importlib.util.find_spec(module) is None:
                self.skipTest(f"this Python has no {module}")
        from torchgen.gen import parse_native_yaml
        from torchgen.model import DeviceCheckType, DispatchKey

        if not torch.__version__.startswith("2.11."):
            self.skipTest("the lists are those of torch 2.11")
        folder = pathlib.Path(torch.__file__).parents[1] / "torchgen/packaged/ATen/native"
        parsed = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
        cuda = parsed.backend_indices[DispatchKey.CUDA]
        text = (folder / "native_functions.yaml").read_text(encoding="utf-8")
        by_iterator = {re.match(r"[\w.]+", entry)[0] for entry in text.split("\n- func: ")[1:]
                       if "device_check: NoCheck   # TensorIterator" in entry}
        expected = {"structured": set(), "other": set(), "iterator": set()}
        for function in parsed.native_functions:
            name = str(function.func.name)
            structured = function.structured or function.structured_delegate is not None
            if name.startswith("_test") or not (structured or cuda.has_kernel(function)):
                continue
            if name in by_iterator:
                expected["iterator"].add(name)
            elif function.device_check != DeviceCheckType.NoCheck:
                expected["structured" if structured else "other"].add(name)
        source = (_SOURCES / "core/device/argument_checks.cpp").read_text(encoding="utf-8")
        lists = re.findall(r'(\w+)Ops = R"ops\((.*?)\)ops"', source, re.DOTALL)
        listed = {kind: set(names.split()) for kind, names in lists}
        apart = set(" ".join(re.findall(r'(?:indexed|masked|unchecked)Ops = "(.*?)"', source)).split())
        self.assertEqual(listed["structured"], expected["structured"])
        self.assertEqual(listed["other"], expected["other"])
        self.assertEqual(listed["iterator"] | apart, expected["iterator"])
        self.assertFalse(listed["iterator"] & apart)

    def test_no_kernel_of_cuda_is_left(self):
        """A kernel that launches on the card would end in an error of the driver."""
        launching = re.compile(r"Register(|Quantized|NestedTensor|SparseCsr)CUDA\w*\.cpp|\.cu:|/cudnn/|/native/cuda/")
        keys = ("CUDA", "AutogradCUDA", "AutocastCUDA", "SparseCUDA", "SparseCsrCUDA", "QuantizedCUDA",
                "NestedTensorCUDA")
        left = []
        for op in torch._C._dispatch_get_all_op_names():
            for line in torch._C._dispatch_dump(op).splitlines():
                key, _, rest = line.partition(": ")
                if key in keys and launching.search(rest):
                    left.append(f"{op} at {line}")
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main()
