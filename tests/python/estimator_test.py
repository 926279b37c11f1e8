# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PyTorch's own estimators on the simulated card: the card's rates, as PyTorch tells them on it."""

import importlib.util
import unittest

import support

torch = support.simulated("a100-80gb")

from torch._inductor.utils import get_device_tflops, get_gpu_dram_gbps  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.distributed._tools.runtime_estimator import RuntimeEstimator  # noqa: E402
from torch.testing._internal.distributed._tensor.common_dtensor import ModelArgs, Transformer  # noqa: E402


class Rates(unittest.TestCase):
    def test_of_a_card_that_the_table_does_not_name(self):
        # Triton's formulas count in units of 1e15: 108 multiprocessors of 4 parts at 1410 MHz.
        self.assertAlmostEqual(get_device_tflops(torch.bfloat16), 108 * 4 * 1410 * 512 * 1e-9)
        self.assertAlmostEqual(get_device_tflops(torch.float32), 108 * 4 * 1410 * 32 * 1e-9)
        self.assertAlmostEqual(get_gpu_dram_gbps(), 2039.04)
        with self.assertRaises(AssertionError):
            get_device_tflops(torch.float64)

    @unittest.skipIf(importlib.util.find_spec("triton") is None, "this Python has no Triton")
    def test_tritons_own_formulas_agree(self):
        from torch._utils_internal import max_clock_rate
        from triton.testing import get_max_simd_tflops, get_max_tensorcore_tflops

        self.assertEqual(max_clock_rate(), 1410)
        self.assertAlmostEqual(get_max_simd_tflops(torch.float32, 1410), get_device_tflops(torch.float32))
        self.assertAlmostEqual(get_max_tensorcore_tflops(torch.float16, 1410), get_device_tflops(torch.float16))

    def test_the_step_of_pytorchs_own_test(self):
        """PyTorch's test_sac_ilp.py says that its step takes 97.97 ms of computation on an A100."""
        with FakeTensorMode():
            with torch.device("cuda"):
                model = Transformer(ModelArgs(n_layers=4, n_heads=12, vocab_size=8192, max_seq_len=1024, dim=768,
                                              dropout_p=0.1))
            tokens = torch.randint(0, 8192, (8, 1024), device="cuda")
            estimator = RuntimeEstimator()
            with estimator(estimate_mode_type="operator-level-cost-model"):
                model(tokens).sum().backward()
        self.assertAlmostEqual(estimator.total_runtime / 97.97, 1, delta=0.25)


if __name__ == "__main__":
    unittest.main()
