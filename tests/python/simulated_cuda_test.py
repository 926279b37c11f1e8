# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`cuda` on the simulated GPU behaves as PyTorch's documentation says of CUDA, without a GPU."""

import contextlib
import copy
import functools
import importlib.util
import inspect
import io
import os
import re
import tempfile
import threading
import unittest
import unittest.mock
import warnings
from pathlib import Path

import support

torch = support.simulated("h100-80gb")

import torch_headroom  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import (  # noqa: E402
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from torch_headroom import _remarks as remarks  # noqa: E402

GIB = 1 << 30


def network():
    return nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.1), nn.GELU(), nn.Linear(64, 64)).cuda()


class Tensors(unittest.TestCase):
    def test_device_of_tensors(self):
        tensor = torch.zeros(3, 4, device="cuda")
        self.assertEqual(tensor.device, torch.device("cuda:0"))
        self.assertTrue(tensor.is_cuda)
        self.assertEqual(tensor.type(), "torch.cuda.FloatTensor")
        self.assertEqual((torch.randn(4, 5).cuda() @ torch.randn(5, 2).to("cuda")).shape, (4, 2))
        self.assertEqual(torch.arange(10, device="cuda").shape, (10,))

    def test_parameters_stay_what_they_are_when_moved(self):
        model = nn.Linear(4, 4)
        weight = model.weight
        model.cuda()
        self.assertIs(model.weight, weight)
        self.assertIsInstance(weight, nn.Parameter)
        self.assertTrue(weight.is_leaf)
        self.assertTrue(weight.is_cuda)
        model(torch.ones(2, 4, device="cuda")).sum().backward()
        self.assertEqual(weight.grad.device, torch.device("cuda:0"))

    def test_the_accelerator_is_cuda(self):
        self.assertTrue(torch.cuda.is_available())
        self.assertEqual(torch.cuda.device_count(), 1)
        self.assertEqual(torch.accelerator.current_accelerator().type, "cuda")
        self.assertIs(torch.get_device_module("cuda"), torch.cuda)

    def test_properties_are_those_of_the_card(self):
        properties = torch.cuda.get_device_properties(0)
        self.assertEqual(properties.name, torch.cuda.get_device_name())
        self.assertIn("H100", properties.name)
        self.assertEqual(torch.cuda.get_device_capability(), (9, 0))
        self.assertEqual(properties.multi_processor_count, 132)
        self.assertEqual(torch.cuda.mem_get_info()[1], properties.total_memory)
        self.assertTrue(torch.cuda.is_bf16_supported())

    def test_every_property(self):
        properties = torch.cuda.get_device_properties()
        self.assertEqual((properties.clock_rate, properties.memory_clock_rate), (1_980_000, 2_619_000))
        self.assertEqual((properties.memory_bus_width, properties.L2_cache_size), (5120, 50 << 20))
        self.assertEqual(properties.shared_memory_per_block, 48 << 10)
        self.assertEqual(properties.shared_memory_per_block_optin, 227 << 10)
        self.assertEqual((len(properties.uuid.bytes), len(str(properties.uuid))), (16, 36))
        # Those of the class in this version of torch, where its stub says them.
        stub = Path(torch._C.__file__).with_name("_C") / "__init__.pyi"
        names = re.search(r"class _CudaDeviceProperties:\n((?:    \w+: .*\n)+)", stub.read_text())
        for name in re.findall(r"    (\w+):", names[1]):
            self.assertTrue(hasattr(properties, name), name)
        self.assertIn(torch.float16, torch.accelerator.get_device_capability()["supported_dtypes"])

    def test_default_device(self):
        torch.set_default_device("cuda")
        try:
            self.assertTrue(torch.zeros(2).is_cuda)
            self.assertTrue(nn.Linear(2, 2).weight.is_cuda)
        finally:
            torch.set_default_device("cpu")
        with torch.device("cuda"):
            self.assertTrue(torch.empty(2).is_cuda)

    def test_copies(self):
        model = network()
        copied = copy.deepcopy(model)
        self.assertTrue(all(parameter.is_cuda for parameter in copied.parameters()))
        self.assertTrue(torch.cuda.FloatTensor(3).is_cuda)
        image = torch.randn(2, 3, 8, 8, device="cuda").to(memory_format=torch.channels_last)
        self.assertTrue(nn.Conv2d(3, 8, 3).cuda()(image).is_contiguous(memory_format=torch.channels_last))

    def test_saving_and_loading(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state.pt"
            torch.save(network().state_dict(), path)
            state = torch.load(path, map_location="cuda")
            self.assertTrue(all(tensor.is_cuda for tensor in state.values()))

    def test_singular_vectors_are_laid_out_as_cusolver_does(self):
        # In row-major order, so that the first rows are a view of all.
        for matrix in (torch.randn(64, 32, device="cuda"), torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda")):
            for whole in (False, True):
                left, values, right = torch.linalg.svd(matrix, full_matrices=whole)
                self.assertEqual(left.stride(0), 1)
                self.assertTrue(right.is_contiguous())
                expected = torch.linalg.svd(matrix.cpu(), full_matrices=whole)
                self.assertEqual([part.shape for part in (left, values, right)], [part.shape for part in expected])
        self.assertEqual(right[:1].contiguous().data_ptr(), right.data_ptr())
        self.assertEqual(torch.linalg.svdvals(matrix).shape, (2,))

    def test_views_of_normal_tensors_in_inference_mode_are_normal(self):
        weight = nn.Parameter(torch.randn(4, 4, device="cuda"))
        with torch.inference_mode():
            self.assertFalse(weight[:2].is_inference())
            self.assertTrue((weight * 2)[:2].is_inference())
        self.assertTrue((weight[:2] * 2).requires_grad)

    def test_fake_tensors_are_left_alone(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        before = torch.cuda.memory_allocated()
        with FakeTensorMode():
            product = torch.randn(3, 3, device="cuda") @ torch.randn(3, 3, device="cuda")
            self.assertEqual(product.device.type, "cuda")
        self.assertEqual(torch.cuda.memory_allocated(), before)


class Values(unittest.TestCase):
    """Small tensors keep the values that follow from what the program made; the rest is invented."""

    def test_small_tensors_are_true(self):
        numbers = torch.tensor([3, 5], device="cuda")
        self.assertEqual(numbers.tolist(), [3, 5])
        self.assertEqual(numbers.sum().item(), 8)
        self.assertEqual(numbers.max().item(), 5)
        self.assertTrue((numbers > 4).any().item())
        self.assertEqual((numbers * 2 + 1).cpu().tolist(), [7, 11])
        self.assertTrue(torch.equal(numbers, torch.tensor([3, 5], device="cuda")))
        self.assertFalse(torch.equal(numbers, torch.tensor([3, 6], device="cuda")))

    def test_changes_in_place_and_in_views(self):
        numbers = torch.zeros(4, device="cuda")
        numbers[1:3] += 2
        numbers.view(2, 2)[0].mul_(5)
        self.assertEqual(numbers.tolist(), [0, 10, 2, 0])
        numbers.fill_(7)
        numbers[0] = 1
        self.assertEqual(numbers.tolist(), [1, 7, 7, 7])
        torch._foreach_add_([numbers, numbers[1]], 1)
        self.assertEqual(numbers.tolist(), [2, 9, 8, 8])

    def test_sizes_that_follow_from_true_values(self):
        numbers = torch.tensor([3, 0, 5], device="cuda")
        self.assertEqual(torch.nonzero(numbers).tolist(), [[0], [2]])
        self.assertEqual(numbers[numbers > 2].tolist(), [3, 5])
        self.assertEqual(torch.unique(torch.tensor([1, 1, 2], device="cuda")).tolist(), [1, 2])

    def test_masks_lengths_and_labels_of_a_batch_are_true(self):
        before = support.placeholder_values()
        lengths = torch.tensor([512, 7, 300])
        mask = (torch.arange(512) < lengths[:, None]).cuda()
        states = torch.randn(3, 512, 64, device="cuda", requires_grad=True)
        self.assertEqual(mask.sum(1).tolist(), lengths.tolist())
        self.assertEqual(torch.nonzero(mask).stride(), (1, 819))
        selected = states[mask]
        self.assertEqual(selected.shape, (819, 64))
        self.assertEqual(states.masked_select(mask[:, :, None]).shape, (819 * 64,))
        selected.sum().backward()
        self.assertEqual(states.grad.shape, states.shape)
        repeated = torch.repeat_interleave(states[:, 0], lengths.cuda(), dim=0)
        self.assertEqual(repeated.shape, (819, 64))
        labels = torch.arange(4096).remainder(10).cuda()
        self.assertEqual(labels.unique().tolist(), list(range(10)))
        self.assertEqual(torch.bincount(labels).shape, (10,))
        labels[labels == 3] = -100
        self.assertEqual((labels != -100).sum().item(), 3686)
        self.assertEqual(support.placeholder_values(), before)

    def test_tensors_filled_like_unknown_ones_are_true(self):
        scores = torch.randn(8, 4, device="cuda")
        chosen = torch.zeros_like(scores, dtype=torch.bool)
        chosen[2:5, 1] = True
        self.assertEqual(scores[chosen].shape, (3,))
        self.assertEqual(torch.full_like(scores, 3, dtype=torch.int64).sum().item(), 96)
        self.assertEqual(torch.ones_like(scores.T).sum().item(), 32)
        on_cpu = torch.ones_like(scores, device="cpu")
        self.assertEqual((on_cpu.device.type, on_cpu.sum().item()), ("cpu", 32))
        there = torch.full_like(torch.zeros(2, 3), 7, device="cuda")
        self.assertEqual((there.device.type, there[1].tolist()), ("cuda", [7, 7, 7]))

    def test_one_number_expanded_to_a_large_tensor_is_not_computed_with(self):
        many = torch.ones((), device="cuda").expand(10**12)
        before = support.placeholder_values()
        many.sum().item()  # the CPU would take minutes
        self.assertEqual(support.placeholder_values() - before, 1)
        self.assertEqual(many[7].item(), 1)
        self.assertEqual(support.placeholder_values() - before, 1)

    def test_boxes_are_true(self):
        support.skip_without("torchvision")
        from torchvision.ops import nms

        corners = torch.rand(500, 2)
        boxes, scores = torch.cat((corners, corners + torch.rand(500, 2)), dim=1), torch.rand(500)
        kept = nms(boxes.cuda(), scores.cuda(), 0.5)
        self.assertTrue(torch.equal(kept.cpu(), nms(boxes, scores, 0.5)))

    def test_a_copy_of_the_data_is_its_own(self):
        batch = torch.arange(2048).pin_memory()
        copied = batch.cuda(non_blocking=True)
        batch.zero_()
        self.assertEqual(copied[-1].item(), 2047)
        copied += torch.randint(0, 9, (2048,), device="cuda")
        before = support.placeholder_values()
        copied.max().item()
        self.assertEqual(support.placeholder_values(), before + 1)

    def test_random_numbers_are_unknown_and_counted(self):
        random = torch.randn(4, device="cuda")
        before = support.placeholder_values()
        random.sum().item()
        self.assertEqual(support.placeholder_values(), before + 1)
        numbers = torch.ones(4, device="cuda")
        numbers.add_(random)
        copy = numbers.cpu()
        self.assertEqual(support.placeholder_values(), before + 1)
        self.assertEqual(copy.tolist(), copy.tolist())
        self.assertEqual(support.placeholder_values(), before + 2)
        numbers.zero_()
        self.assertEqual(numbers.tolist(), [0, 0, 0, 0])
        self.assertEqual(support.placeholder_values(), before + 2)

    def test_what_is_known_goes_to_the_host_and_back(self):
        random = torch.randn(4, device="cuda")
        partly = torch.arange(4.0).cuda()
        partly[1] = random[0]
        chosen = random.topk(1).indices
        mask = torch.ones_like(torch.randn(1 << 21, device="cuda"), dtype=torch.bool)
        before = support.placeholder_values()
        for host in (torch.empty(8, pin_memory=True), torch.empty(8)):
            host[2:6].copy_(random, non_blocking=True)
            back, whole = host[2:6].cuda(), host.cuda()
            host[2:6].copy_(partly, non_blocking=True)
            partly = host[2:6].cuda()
        chosen, mask = chosen.cpu().cuda(), mask.cpu().cuda()
        self.assertEqual(partly[2:].tolist(), [2, 3])
        self.assertTrue(mask.all())
        self.assertEqual(support.placeholder_values(), before)
        for unknown in (back, whole, partly[1], chosen, host[3]):
            unknown.sum().item()
            before += 1
            self.assertEqual(support.placeholder_values(), before)
        self.assertEqual(host[2:6].cuda().tolist(), [0, 0, 2, 3])  # what the program has read is known
        host[2:6].copy_(random)
        host.fill_(7)
        self.assertEqual(host.cuda().tolist(), [7] * 8)
        self.assertEqual(support.placeholder_values(), before)

    def test_large_tensors_have_no_values(self):
        before = support.placeholder_values()
        self.assertEqual(torch.ones(16385, device="cuda").cpu().tolist(), [0.0] * 16385)
        self.assertEqual(torch.ones(524289, dtype=torch.long, device="cuda")[0].item(), 1)
        self.assertEqual(support.placeholder_values(), before + 2)

    def test_masks_of_unknown_values_select_everything(self):
        tensor = torch.randn(8, 64, device="cuda")
        before = support.placeholder_values()
        self.assertEqual(torch.nonzero(tensor > 0).shape, (512, 2))
        self.assertEqual(tensor[tensor > 0].shape, (512,))
        self.assertGreater(support.placeholder_values(), before)

    def test_what_is_filled_element_by_element_is_true(self):
        before = support.placeholder_values()
        shapes = torch.empty((2, 2), dtype=torch.long, device="cuda")
        for level, (height, width) in enumerate(((8, 6), (4, 3))):
            shapes[level, 0] = height
            shapes[level, 1] = width
        self.assertEqual(shapes.prod(1).tolist(), [48, 12])
        lengths = torch.randn(9, device="cuda").new_empty(3)
        for i in range(3):
            lengths[i] = i + 0.5
        self.assertEqual(lengths.sum().item(), 4.5)
        self.assertEqual(support.placeholder_values(), before)

    def test_unknown_choices_go_round(self):
        # Each row the next elements, so that all are chosen equally often.
        scores = torch.randn(1024, 8, device="cuda")
        before = support.placeholder_values()
        chosen = scores.topk(2).indices
        self.assertEqual(support.placeholder_values(), before)
        self.assertEqual(chosen[:3].tolist(), [[0, 1], [2, 3], [4, 5]])
        self.assertEqual(torch.bincount(chosen.flatten()).tolist(), [256] * 8)
        self.assertEqual(scores.topk(3, dim=0).indices[:, :2].tolist(), [[0, 3], [1, 4], [2, 5]])
        self.assertEqual(scores.sort(descending=True).indices[5].tolist(), list(range(8)))
        self.assertEqual(scores.argmax(1)[:10].tolist(), [0, 1, 2, 3, 4, 5, 6, 7, 0, 1])
        self.assertEqual(scores.argmin().item(), 0)
        self.assertEqual(scores.max(1, keepdim=True).indices[:3].tolist(), [[0], [1], [2]])
        self.assertEqual(torch.multinomial(scores.softmax(1), 3)[1].tolist(), [3, 4, 5])
        known = torch.tensor([3.0, 9.0, 5.0]).cuda()
        self.assertEqual(known.topk(2).indices.tolist(), [1, 2])
        # They count where the program reads them or a size follows from them, until they are overwritten.
        before = support.placeholder_values()
        self.assertEqual((chosen == 3).any(1).nonzero().shape, (256, 1))
        self.assertEqual(support.placeholder_values(), before + 1)
        chosen.zero_()
        self.assertEqual(chosen.sum().item(), 0)
        self.assertEqual(support.placeholder_values(), before + 1)

    def test_experts_of_a_mixture_get_as_many_tokens_each(self):
        tokens = torch.randn(512, 16, device="cuda", requires_grad=True)
        router = torch.nn.Linear(16, 4, device="cuda")
        experts = [torch.nn.Linear(16, 16, device="cuda") for _ in range(4)]
        weights, chosen = router(tokens).softmax(-1).topk(2)
        seen, result = [], torch.zeros_like(tokens)
        for number, expert in enumerate(experts):
            token, place = torch.where(chosen == number)
            seen.append(len(token))
            result.index_add_(0, token, expert(tokens[token]) * weights[token, place, None])
        result.sum().backward()
        self.assertEqual(seen, [256] * 4)
        counts = torch.zeros(512, 4, device="cuda").scatter(1, chosen, 1).sum(0).long().tolist()
        self.assertEqual([len(part) for part in tokens.repeat(2, 1).split(counts)], [256] * 4)

    def test_no_op_reaches_a_real_gpu(self):
        # ldexp is made of other ops, but for whole exponents, where it calls CUDA's kernel past the dispatcher.
        exponents = torch.ones(8, dtype=torch.int32, device="cuda")
        self.assertEqual(torch.ldexp(torch.randn(4, 8, device="cuda"), exponents).shape, (4, 8))
        # A mask may be filled with a number from the CPU.
        scores = torch.randn(4, 8, device="cuda")
        self.assertEqual(scores.masked_fill(scores > 0, torch.tensor(-1.0)).shape, (4, 8))

    def test_unknown_numbers_are_finite(self):
        loss = torch.nn.Linear(50000, 1, device="cuda")(torch.randn(4, 50000, device="cuda")).mean()
        hidden = torch.randn(300, 1000, device="cuda", dtype=torch.float16)
        large = torch.randn(2000, 3000, device="cuda")
        for unknown in (loss, hidden, large):
            self.assertTrue(torch.isfinite(unknown).all())
            self.assertFalse(torch.isnan(unknown).any())
            self.assertTrue((~torch.isnan(unknown)).all())
            self.assertFalse(torch.isinf(unknown).any())
            self.assertFalse((unknown != unknown).any())
            self.assertTrue((unknown == unknown).all())
        before = support.placeholder_values()
        if not torch.isfinite(loss):
            self.fail("a script would give up here")
        self.assertEqual(support.placeholder_values(), before + 2)  # it equals itself, and is not infinite
        tracker = torch.zeros(1, dtype=torch.bool, device="cuda")
        tracker.logical_or_((~torch.isfinite(large) | torch.isnan(large)).any())
        self.assertFalse(tracker)
        answer = torch.isinf(large)
        answer[:5] = large[:5] > 0  # what is written to is known no more
        self.assertTrue(answer.any().item() in (True, False) and support.placeholder_values() > before + 6)
        # Known ones are what they are.
        known = torch.tensor([1.0, float("inf"), float("nan")]).cuda()
        self.assertEqual(torch.isfinite(known).tolist(), [True, False, False])

    def test_loss_scale_is_true(self):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda", init_scale=1024.0, growth_interval=2)
        self.assertEqual(scaler.get_scale(), 1024.0)
        for _ in range(2):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(torch.randn(4, 64, device="cuda")).sum()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        self.assertEqual(scaler.get_scale(), 2048.0)


class Autograd(unittest.TestCase):
    def test_checkpoints_with_random_state(self):
        model, batch = network(), torch.randn(4, 64, device="cuda", requires_grad=True)
        for reentrant in (False, True):
            checkpoint(model, batch, use_reentrant=reentrant, preserve_rng_state=True).sum().backward()
        self.assertEqual(batch.grad.shape, (4, 64))

    def test_selective_checkpoints_see_ops(self):
        seen = []

        def policy(context, op, *arguments, **named):
            seen.append((context.is_recompute, op))
            saved = op == torch.ops.aten.addmm.default
            return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        batch = torch.randn(4, 64, device="cuda", requires_grad=True)
        checkpoint(network(), batch, use_reentrant=False, context_fn=contexts).sum().backward()
        products = [recomputed for recomputed, op in seen if op == torch.ops.aten.addmm.default]
        self.assertEqual(products.count(False), 2)

    def test_autocast(self):
        layer = nn.Linear(64, 64).cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            self.assertEqual(layer(torch.randn(4, 64, device="cuda")).dtype, torch.bfloat16)

    def test_attention_takes_the_kernel_that_is_asked_for(self):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        query = torch.randn(2, 4, 128, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        expected = {
            SDPBackend.FLASH_ATTENTION: "ScaledDotProductFlashAttentionBackward0",
            SDPBackend.EFFICIENT_ATTENTION: "ScaledDotProductEfficientAttentionBackward0",
            SDPBackend.CUDNN_ATTENTION: "ScaledDotProductCudnnAttentionBackward0",
        }
        for backend, node in expected.items():
            with sdpa_kernel(backend):
                output = F.scaled_dot_product_attention(query, query, query, is_causal=True)
                self.assertEqual(type(output.grad_fn).__name__, node)
        with sdpa_kernel(SDPBackend.MATH):
            output = F.scaled_dot_product_attention(query, query, query, is_causal=True)
            self.assertNotIn("ScaledDotProduct", type(output.grad_fn).__name__)
        with torch.inference_mode():
            self.assertEqual(F.scaled_dot_product_attention(query, query, query).shape, query.shape)

    def test_what_attention_can_use(self):
        from torch.backends import cuda

        def can_use(dtype, mask=None, size=64):
            query = torch.randn(2, 4, 128, size, device="cuda", dtype=dtype)
            parameters = cuda.SDPAParams(query, query, query, mask, 0.0, False, False)
            return [answer(parameters) for answer in (cuda.can_use_flash_attention, cuda.can_use_efficient_attention,
                                                      cuda.can_use_cudnn_attention)]

        self.assertEqual(can_use(torch.bfloat16), [True, True, True])
        self.assertEqual(can_use(torch.float32), [False, True, False])
        self.assertEqual(can_use(torch.float16, torch.zeros(128, 128, device="cuda")), [False, True, True])
        self.assertEqual(can_use(torch.bfloat16, size=256), [True, True, False])

    def test_sequences_of_different_length(self):
        parts = [torch.randn(length, 64, device="cuda", dtype=torch.bfloat16) for length in (64, 40, 17)]
        linear = torch.nn.Linear(64, 64).to("cuda", torch.bfloat16)
        x = linear(torch.nested.as_nested_tensor(parts, layout=torch.jagged)).unflatten(-1, (1, 64)).transpose(1, 2)
        y = F.scaled_dot_product_attention(x, x, x).transpose(1, 2).flatten(-2)
        padded = y.to_padded_tensor(0.0)
        self.assertEqual(padded.shape, (3, 64, 64))
        padded.float().sum().backward()
        self.assertEqual(linear.weight.grad.shape, (64, 64))

    def test_layers(self):
        def run(layer, *inputs):
            outputs = layer.cuda()(*(tensor.cuda() for tensor in inputs))
            output = outputs[0] if isinstance(outputs, tuple) else outputs
            output.sum().backward()
            return output.shape

        self.assertEqual(run(nn.LSTM(16, 32, 2), torch.randn(5, 3, 16)), (5, 3, 32))
        volume = nn.Sequential(nn.Conv3d(3, 4, 3), nn.BatchNorm3d(4), nn.ReLU(), nn.AdaptiveAvgPool3d(1))
        self.assertEqual(run(volume, torch.randn(2, 3, 8, 8, 8)), (2, 4, 1, 1, 1))
        encoder = nn.TransformerEncoderLayer(64, 4, batch_first=True)
        self.assertEqual(run(encoder, torch.randn(2, 10, 64)), (2, 10, 64))
        with torch.no_grad():
            self.assertEqual(encoder.eval()(torch.randn(2, 10, 64, device="cuda")).shape, (2, 10, 64))

    def test_recurrent_weights_are_in_a_single_buffer(self):
        """As cuDNN wants: no forward copies the weights."""
        for dtype in (torch.float32, torch.float16):
            layer = nn.LSTM(64, 128, 2).cuda().to(dtype)
            self.assertEqual(len({weight.untyped_storage().data_ptr() for weight in layer.parameters()}), 1)
            before = torch.cuda.memory_allocated()
            output, _ = layer(torch.randn(5, 3, 64, device="cuda", dtype=dtype))
            kept = torch.cuda.memory_allocated() - before
            self.assertLess(kept, sum(weight.nbytes for weight in layer.parameters()))
        output, _ = nn.LSTM(64, 128).cuda().bfloat16()(torch.randn(5, 3, 64, device="cuda", dtype=torch.bfloat16))
        self.assertIn("CudnnRnn", type(output.grad_fn).__name__)

    def test_ctc_loss(self):
        scores = torch.randn(50, 2, 20, device="cuda", requires_grad=True)
        targets = torch.ones(2, 5, dtype=torch.long, device="cuda")
        lengths = torch.tensor([50, 50]), torch.tensor([5, 5])
        F.ctc_loss(scores.log_softmax(2), targets, *lengths).backward()
        self.assertEqual(scores.grad.shape, scores.shape)

    def test_optimizers(self):
        for optimizer, options in (
            (torch.optim.Adam, {}),
            (torch.optim.AdamW, {"fused": True}),
            (torch.optim.Adam, {"capturable": True}),
            (torch.optim.SGD, {"momentum": 0.9}),
            (torch.optim.SGD, {"momentum": 0.9, "fused": True}),
            (torch.optim.Adagrad, {}),
            (torch.optim.RMSprop, {}),
            (torch.optim.NAdam, {}),
        ):
            with self.subTest(optimizer=optimizer.__name__, **options):
                model = network()
                stepper = optimizer(model.parameters(), lr=1e-3, **options)
                model(torch.randn(2, 64, device="cuda")).sum().backward()
                stepper.step()

    def test_functional_transforms(self):
        from torch.func import grad, vmap

        batch = torch.randn(4, 64, device="cuda")
        self.assertEqual(vmap(lambda row: (row * row).sum())(batch).shape, (4,))
        self.assertTrue(grad(lambda tensor: (tensor * tensor).sum())(batch).is_cuda)


class Runtime(unittest.TestCase):
    def test_generators(self):
        generator = torch.Generator(device="cuda")
        generator.manual_seed(3)
        self.assertEqual(generator.initial_seed(), 3)
        self.assertEqual(torch.randn(3, device="cuda", generator=generator).shape, (3,))
        torch.cuda.manual_seed(11)
        state = torch.cuda.get_rng_state()
        self.assertEqual(state.numel(), 16)
        with torch.random.fork_rng(devices=[0]):
            torch.cuda.manual_seed_all(1)
            self.assertEqual(torch.cuda.initial_seed(), 1)
        self.assertEqual(torch.cuda.initial_seed(), 11)
        torch.cuda.set_rng_state(state)

    def test_generators_share_a_state_as_graphs_ask_them_to(self):
        generator, other = torch.cuda.default_generators[0], torch.Generator(device="cuda")
        self.assertEqual(generator.clone_state().device, torch.device("cuda:0"))
        before = generator.graphsafe_get_state()
        generator.graphsafe_set_state(other.manual_seed(5))
        self.assertEqual(generator.initial_seed(), 5)
        other.manual_seed(6)
        self.assertEqual(generator.initial_seed(), 6)
        generator.graphsafe_set_state(before)
        self.assertNotEqual(generator.initial_seed(), 6)

    def test_pinned_memory(self):
        pinned = torch.arange(4.0).pin_memory()
        self.assertTrue(pinned.is_pinned())
        self.assertEqual(pinned.tolist(), [0, 1, 2, 3])
        self.assertTrue(pinned[2:].is_pinned())
        self.assertFalse(torch.empty(4).is_pinned())
        self.assertTrue(torch.empty(3, pin_memory=True).is_pinned())

    def test_loader_with_workers_and_pinned_memory(self):
        data = torch.utils.data.TensorDataset(torch.arange(64.0).view(16, 4), torch.arange(16))
        loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=1, pin_memory=True)
        batches = [(inputs.cuda(non_blocking=True), labels) for inputs, labels in loader if inputs.is_pinned()]
        self.assertEqual(len(batches), 2)
        self.assertEqual(batches[1][0].cpu().tolist(), data.tensors[0][8:].tolist())

    def test_threads(self):
        model, found = network(), []
        worker = threading.Thread(target=lambda: found.append(model(torch.ones(2, 64, device="cuda")).device))
        worker.start()
        worker.join()
        self.assertEqual(found, [torch.device("cuda:0")])

    def test_streams_and_events(self):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        side = torch.cuda.Stream()
        start.record()
        with torch.cuda.stream(side):
            self.assertEqual(torch.cuda.current_stream(), side)
            tensor = torch.ones(4).cuda(non_blocking=True)
        self.assertEqual(torch.cuda.current_stream(), torch.cuda.default_stream())
        torch.cuda.current_stream().wait_stream(side)
        tensor.record_stream(torch.cuda.current_stream())
        end.record()
        torch.cuda.synchronize()
        self.assertGreaterEqual(start.elapsed_time(end), 0.0)
        self.assertTrue(end.query())
        self.assertEqual([thing._as_parameter_.value for thing in (side, end)], [side.cuda_stream, end.cuda_event])

    def test_device_objects(self):
        with torch.cuda.device(0) as _:
            device = torch.cuda.device(0)
        self.assertEqual(torch.cuda.get_device_properties(device).name, torch.cuda.get_device_name())
        self.assertEqual(torch.cuda.get_device_capability(device), (9, 0))
        torch.cuda.synchronize(device)
        self.assertEqual(torch.cuda.Stream(device=device).device, torch.device("cuda:0"))

    def test_priorities(self):
        self.assertEqual(torch.cuda.Stream.priority_range(), (0, -3))
        for asked, given in ((0, 0), (-1, -1), (-3, -3), (-100, -3), (100, 0)):
            self.assertEqual(torch.cuda.Stream(priority=asked).priority, given)
        self.assertEqual(torch.cuda.current_stream().priority, 0)

    def test_streams_of_other_libraries(self):
        own = torch.cuda.Stream()
        self.assertEqual(torch.cuda.ExternalStream(own.cuda_stream), own)
        handle = 0x7F001234
        stream = torch.cuda.ExternalStream(handle)
        self.assertEqual((stream.cuda_stream, stream.priority), (handle, 0))
        self.assertEqual(torch.cuda.ExternalStream(handle, device="cuda:0"), stream)
        self.assertNotIn(stream, (own, torch.cuda.ExternalStream(handle + 8), torch.cuda.default_stream()))
        with torch.cuda.stream(stream):
            self.assertEqual(torch.cuda.current_stream().cuda_stream, handle)
            torch.ones(2, device="cuda")
        stream.synchronize()
        self.assertEqual(torch.cuda.get_stream_from_external(handle).cuda_stream, handle)

    def test_memory_of_other_libraries(self):
        before = torch.cuda.memory_allocated()
        address = torch.cuda.caching_allocator_alloc(1 << 20)
        other = torch.cuda.caching_allocator_alloc(100, stream=torch.cuda.Stream())
        self.assertNotEqual(address, other)
        self.assertEqual(torch.cuda.memory_allocated() - before, (1 << 20) + 512)
        torch.cuda.caching_allocator_delete(address)
        torch.cuda.caching_allocator_delete(other)
        self.assertEqual(torch.cuda.memory_allocated(), before)
        self.assertIsInstance(torch.cuda.current_blas_handle(), int)
        with self.assertRaisesRegex(torch.OutOfMemoryError, "more than 1EB"):
            torch.empty(2**40, 2**22, dtype=torch.uint8, device="cuda")

    def test_registered_memory_is_pinned(self):
        tensor = torch.zeros(1000)
        self.assertFalse(tensor.is_pinned())
        runtime = torch.cuda.cudart()
        self.assertEqual(runtime.cudaHostRegister(tensor.data_ptr(), tensor.nbytes, 0), 0)
        self.assertTrue(tensor.is_pinned())
        runtime.cudaHostUnregister(tensor.data_ptr())
        self.assertFalse(tensor.is_pinned())

    def test_the_profilers_of_cuda(self):
        torch.cuda.profiler.start()
        with torch.cuda.profiler.profile():
            torch.ones(2, device="cuda")
        torch.cuda.profiler.stop()
        torch.cuda.check_error(torch.cuda.cudart().cudaProfilerStart())
        handle = torch.cuda.nvtx.range_start("range")
        torch.cuda.nvtx.range_end(handle)

    def test_questions_whether_work_is_done(self):
        remarks.begin()
        event = torch.cuda.Event()
        self.assertTrue(event.query())  # nothing was recorded
        event.record()
        event.synchronize()
        self.assertTrue(event.query())
        event.record()
        torch.cuda.synchronize()
        self.assertTrue(event.query())
        self.assertNotIn("query", "\n".join(remarks.of_step()))
        event.record()
        self.assertTrue(event.query())  # a card may still work here
        self.assertTrue(torch.cuda.current_stream().query())
        self.assertRegex("\n".join(remarks.of_step()),
                         r"asked 2 times, first at .*simulated_cuda_test.py:\d+ whether work of the card is done")
        remarks.begin()

    def test_ops_of_synchronized_batch_normalization(self):
        half = torch.randn(4, 8, 6, 6, device="cuda", dtype=torch.float16).to(memory_format=torch.channels_last)
        one, rows = torch.ones(8, device="cuda"), torch.ones(2, 8, device="cuda")
        numbers = torch.ones(2, device="cuda", dtype=torch.int32)
        for name, results, sizes, types in (
            ("stats", torch.batch_norm_stats(half, 1e-5), [(8,)] * 2, [torch.float32] * 2),
            ("gather", torch.batch_norm_gather_stats_with_counts(half, rows, rows, one, one, 0.1, 1e-5, rows[:, 0]),
             [(8,)] * 2, [torch.float32] * 2),
            ("elements", [torch.batch_norm_elemt(half, one, one, one, one, 1e-5)], [half.shape], [torch.float16]),
            ("reduce", torch.batch_norm_backward_reduce(half, half, one, one, one, True, True, True), [(8,)] * 4,
             [torch.float32] * 4),
            ("backward", [torch.batch_norm_backward_elemt(half, half, one, one, one, one, one, numbers)], [half.shape],
             [torch.float16]),
        ):
            with self.subTest(op=name):
                self.assertEqual([tuple(result.shape) for result in results], [tuple(size) for size in sizes])
                self.assertEqual([result.dtype for result in results], types)
                if results[0].dim() == 4:
                    self.assertEqual(results[0].stride(), half.stride())

    def test_raw_streams(self):
        from torch._C import _cuda_getCurrentRawStream as raw

        self.assertEqual(raw(0), torch.cuda.current_stream().cuda_stream)
        with torch.cuda.stream(torch.cuda.Stream()) as _:
            self.assertEqual(raw(0), torch.cuda.current_stream().cuda_stream)

    @unittest.skipIf(importlib.util.find_spec("triton"), "torch.compile works: compile_test.py")
    def test_compile_runs_eagerly_without_triton(self):
        with contextlib.redirect_stderr(io.StringIO()) as told:
            compiled = torch.compile(lambda tensor: tensor * 2)
            self.assertEqual(told.getvalue(), "")  # libraries do so with what is never called
            for _ in range(2):
                self.assertEqual(compiled(torch.ones(2, device="cuda")).tolist(), [2, 2])
        self.assertEqual(told.getvalue().count("torch.compile is left out"), 1)

    def test_products_with_another_type_of_result(self):
        half = functools.partial(torch.ones, device="cuda", dtype=torch.bfloat16)
        wanted = {"out_dtype": torch.float32}
        for product, tensors, sizes in (
            (torch.mm, (half(4, 8), half(8, 3)), (4, 3)),
            (torch.bmm, (half(2, 4, 8), half(2, 8, 3)), (2, 4, 3)),
            (torch.addmm, (torch.ones(4, 3, device="cuda"), half(4, 8), half(8, 3)), (4, 3)),
            (torch.baddbmm, (torch.ones(2, 4, 3, device="cuda"), half(2, 4, 8), half(2, 8, 3)), (2, 4, 3)),
        ):
            with self.subTest(product=product):
                result = product(*tensors, **wanted)
                self.assertEqual((tuple(result.shape), result.dtype), (sizes, torch.float32))
                out = torch.empty(sizes, device="cuda")
                before = torch.cuda.memory_allocated()
                self.assertIs(product(*tensors, **wanted, out=out), out)
                self.assertEqual(torch.cuda.memory_allocated(), before)
                with self.assertRaisesRegex(RuntimeError, "out_dtype"):
                    product(*tensors, **wanted, out=half(*sizes))

    def test_profiler(self):
        from torch.profiler import ProfilerActivity, profile

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
                network()(torch.ones(2, 64, device="cuda")).sum().backward()
        self.assertGreater(len(profiler.events()), 0)


class Memory(unittest.TestCase):
    def test_bytes_are_those_of_the_allocator(self):
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        tensor = torch.empty(1000, device="cuda")
        self.assertEqual(torch.cuda.memory_allocated() - before, 4096)
        del tensor
        self.assertEqual(torch.cuda.memory_allocated(), before)
        self.assertEqual(torch.cuda.max_memory_allocated() - before, 4096)
        self.assertIn("Allocated memory", torch.cuda.memory_summary())

    def test_out_of_memory_is_that_of_the_card(self):
        before = torch.cuda.memory_allocated()
        ooms = torch.cuda.memory_stats()["num_ooms"]
        with self.assertRaisesRegex(
            torch.OutOfMemoryError,
            r"CUDA out of memory. Tried to allocate 200.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which "
            r"78.\d\d GiB is free.",
        ):
            torch.empty(200 * GIB, dtype=torch.uint8, device="cuda")
        self.assertEqual(torch.cuda.memory_stats()["num_ooms"], ooms + 1)
        self.assertEqual(torch.cuda.memory_allocated(), before)
        # The whole card, in the large segments of the caching allocator, and not one more.
        torch.cuda.empty_cache()
        segment = 2 << 20
        rest = torch.empty(torch.cuda.mem_get_info()[0] // segment * segment, dtype=torch.uint8, device="cuda")
        with self.assertRaises(torch.OutOfMemoryError):
            torch.empty(10 * segment, dtype=torch.uint8, device="cuda")
        del rest
        self.assertEqual(torch.cuda.memory_allocated(), before)

    def test_reserved_memory_follows_the_caching_allocator(self):
        torch.cuda.empty_cache()
        reserved = torch.cuda.memory_reserved()
        tensor = torch.empty(33 << 20, dtype=torch.uint8, device="cuda")
        self.assertEqual(torch.cuda.memory_reserved() - reserved, 34 << 20)
        del tensor
        self.assertEqual(torch.cuda.memory_reserved() - reserved, 34 << 20)
        torch.cuda.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved(), reserved)

    def test_training_goes_on_after_out_of_memory(self):
        model = network()

        def step(batch):
            model(torch.zeros(batch, 64, device="cuda")).sum().backward()

        step(8)
        torch.cuda.reset_peak_memory_stats()
        step(8)
        peak, live = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
        with self.assertRaises(torch.OutOfMemoryError):
            step(200_000_000)
        self.assertEqual(torch.cuda.memory_allocated(), live)
        torch.cuda.reset_peak_memory_stats()
        step(8)
        self.assertEqual(torch.cuda.max_memory_allocated(), peak)

    def test_share_of_the_memory(self):
        torch.cuda.set_per_process_memory_fraction(0.5)
        try:
            with self.assertRaises(torch.OutOfMemoryError):
                torch.empty(60 * GIB, dtype=torch.uint8, device="cuda")
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        self.assertEqual(torch.empty(60 * GIB, dtype=torch.uint8, device="cuda").numel(), 60 * GIB)

    def test_storages_that_change_their_size(self):
        before = torch.cuda.memory_allocated()
        tensor = torch.empty(1024, device="cuda")
        tensor.untyped_storage().resize_(0)
        self.assertEqual(torch.cuda.memory_allocated(), before)
        tensor.untyped_storage().resize_(8192)
        self.assertEqual(torch.cuda.memory_allocated(), before + 8192)
        torch.ops.inductor.resize_storage_bytes_(tensor, 0)  # as graphs of compiled programs do
        self.assertEqual(torch.cuda.memory_allocated(), before)


class Refusals(unittest.TestCase):
    """What cannot be simulated is refused in a sentence, and the process goes on."""

    def refused(self, work, *words):
        with self.assertRaises(Exception) as caught:
            work()
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertEqual(torch.ones(2, device="cuda").sum().item(), 2)

    def test_other_gpus(self):
        self.refused(lambda: torch.zeros(2, device="cuda:1"), "cuda:0", "cuda:1")
        self.refused(lambda: torch.zeros(2).to("cuda:1"), "cuda:1")
        self.refused(lambda: torch.cuda.set_device(1), "cuda:1")
        self.refused(lambda: torch.cuda.get_device_properties(1), "cuda:1")

    def test_quantized_and_nested_tensors(self):
        self.refused(lambda: torch.quantize_per_tensor(torch.ones(4).cuda(), 0.1, 0, torch.qint8), "quantized")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.refused(lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device="cuda") * 2, "nested")

    def test_sensors_and_counters_of_the_driver(self):
        self.refused(torch.cuda.utilization, "sensor")
        self.refused(torch.cuda.device_memory_used, "sensor")
        self.refused(torch.cuda.host_memory_stats, "host_memory_stats", "pinned memory")

    def test_what_only_a_driver_does(self):
        from torch.cuda import gds, green_contexts, nccl

        tensor = torch.ones(2, device="cuda")
        self.refused(lambda: green_contexts.GreenContext.create(1), "GreenContext", "multiprocessors")
        self.refused(lambda: nccl.all_reduce([tensor]), "torch.cuda.nccl.all_reduce", "several GPUs")
        self.refused(lambda: nccl.broadcast([tensor]), "torch.cuda.nccl.broadcast")
        self.refused(lambda: importlib.import_module("torch.cuda._sanitizer"), "torch.cuda._sanitizer", "kernels")
        self.refused(lambda: gds.gds_register_buffer(tensor.untyped_storage()), "gds", "cuFile")
        self.refused(lambda: torch.cuda._compile_kernel("void f() {}", "f"), "_compile_kernel", "machine code")
        self.refused(lambda: torch.cuda.caching_allocator_enable(False), "caching_allocator_enable")
        self.refused(torch.cuda.tunable.get_rotating_buffer_size, "rotating_buffer_size")

    def test_kernels_compiled_at_run_time(self):
        double = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T x) { return x + x; }")
        self.refused(lambda: double(torch.ones(2, device="cuda")), "twice", "jiterator")

    def test_allocators_of_the_program(self):
        memory = torch.cuda.memory
        self.refused(lambda: memory.CUDAPluggableAllocator("alloc.so", "malloc", "free"), "CUDAPluggableAllocator")
        self.refused(lambda: memory.change_current_allocator(None), "CUDAPluggableAllocator")
        self.refused(lambda: torch.cuda.MemPool(object()), "CUDAPluggableAllocator")


class Everything(unittest.TestCase):
    """No function of these modules that can be called without arguments ends in a driver's error."""

    _MODULES = ("cuda", "cuda.memory", "cuda.nvtx", "cuda.random", "cuda.tunable", "cuda.graphs", "cuda.nccl",
                "cuda.profiler", "cuda.streams", "accelerator", "accelerator.memory", "backends.cuda", "backends.cudnn")
    _OF_OTHERS = re.compile("amdsmi|nvml|flamegraph|usage|_check_tuning")  # libraries of AMD, a download

    def test_functions(self):
        folder = tempfile.TemporaryDirectory()  # for what some write into the present one
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        functions = {}
        for name in self._MODULES:
            module = importlib.import_module(f"torch.{name}")
            for key in {*dir(module), *getattr(module, "__all__", ())}:
                function = getattr(module, key, None)
                module_of_function = getattr(function, "__module__", None) or ""
                if callable(function) and not inspect.isclass(function) and module_of_function.startswith("torch"):
                    functions.setdefault(function, f"torch.{name}.{key}")
        called = 0
        for function, name in functions.items():
            try:
                parameters = inspect.signature(function).parameters.values()
            except ValueError:  # a constant of C++
                continue
            needed = [p for p in parameters
                      if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
            if needed or self._OF_OTHERS.search(name) or name.endswith((".seed", ".seed_all", "._dump_snapshot")):
                continue
            called += 1
            with self.subTest(function=name), warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                try:
                    function()
                except torch_headroom.HeadroomError:
                    pass  # refused by name
        self.addCleanup(torch.cuda.memory._record_memory_history, None)
        self.addCleanup(torch.cuda.tunable.enable, False)
        self.addCleanup(torch.cuda.tunable.record_untuned_enable, False)
        self.assertGreater(called, 100)


class KernelsOfLibraries(unittest.TestCase):
    def test_what_stands_for_a_kernel_for_cuda_elsewhere_does_not_run(self):
        library = torch.library.Library("simulated_cuda_test", "DEF")
        self.addCleanup(library._destroy)
        library.define("twice(Tensor x) -> Tensor")
        with unittest.mock.patch("torch_headroom._kernels.opaque._has_libraries", return_value=True):
            library.impl("twice", lambda x: self.fail("there is no GPU"), "CUDA")
        library.impl("twice", lambda x: self.fail("it allocates more"), "CompositeExplicitAutograd")
        torch.library.register_fake("simulated_cuda_test::twice", torch.empty_like, lib=library)
        before, _ = support.tensor_bytes()
        x = torch.ops.simulated_cuda_test.twice(torch.ones(1 << 20, device="cuda"))
        self.assertEqual(support.tensor_bytes()[0] - before, x.nbytes)


class ManagedMemory(unittest.TestCase):
    def test_paged_tensors_are_not_on_the_card(self):
        support.skip_without("bitsandbytes")
        import bitsandbytes

        weight = nn.Parameter(torch.randn(1000, 1000, device="cuda"))
        optimizer = bitsandbytes.optim.PagedAdamW32bit([weight])
        weight.grad = torch.ones_like(weight)
        before, _ = support.tensor_bytes()
        optimizer.step()
        self.assertLess(support.tensor_bytes()[0] - before, weight.nbytes)
        self.assertIn("8,000,000 bytes are managed memory", "\n".join(remarks.of_step()))
        del optimizer.state[weight], optimizer
        bitsandbytes.functional.GlobalPageManager.get_instance().paged_tensors.clear()
        self.assertNotIn("managed memory", "\n".join(remarks.of_step()))


if __name__ == "__main__":
    unittest.main()
