# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model's arguments say of the size of its batch, and what they leave open."""

import unittest

import support

support.need("torch")

import torch  # noqa: E402
from torch_headroom._record.loop import sizes_of, sizes_with  # noqa: E402

IMAGES, TOKENS = torch.zeros(16, 3, 8, 8), torch.zeros(16, 54, dtype=torch.int64)


class Batch(unittest.TestCase):
    def test_is_the_size_that_most_arguments_begin_with(self):
        for arguments, sizes in (
            ((IMAGES,), (16, 0)),
            ((TOKENS,), (16, 54)),
            (({"input_ids": TOKENS, "attention_mask": torch.ones(16, 54), "labels": TOKENS},), (16, 54)),
            (({"positions": TOKENS[0], "input_ids": TOKENS, "attention_mask": TOKENS},), (16, 54)),
            (({"batch": {"image": IMAGES, "label": TOKENS[:, 0], "scale": torch.zeros(())}},), (16, 0)),
            ((IMAGES, TOKENS[:, 0], torch.zeros(16, 77, 768)), (16, 0)),
            ((TOKENS, torch.zeros(1, 1, 54, 54), TOKENS), (16, 54)),
            ((TOKENS[:1], TOKENS[:1]), (1, 54)),
            (([IMAGES, IMAGES[..., :4]],), (16, 0)),
            (([{"input_ids": TOKENS}, {"input_ids": TOKENS[:, :9]}],), (16, 0)),
        ):
            with self.subTest([tuple(t.shape) for t in arguments if isinstance(t, torch.Tensor)]):
                self.assertEqual(sizes_of(arguments), sizes)

    def test_is_left_open_without_a_single_answer(self):
        boxes = [{"boxes": torch.zeros(5, 4), "labels": torch.zeros(5)} for _ in range(4)]
        for arguments in (
            (),
            (torch.zeros(()),),
            (torch.zeros(100, 2), torch.zeros(50, 2)),
            (TOKENS[:1], TOKENS[:1], TOKENS[0]),
            ([torch.zeros(3, 8, 8) for _ in range(4)], boxes),
        ):
            self.assertEqual(sizes_of(arguments), (0, 0))

    def test_is_that_of_all_calls_of_a_step(self):
        step = sizes_of((TOKENS,))
        self.assertEqual(sizes_with(step, (TOKENS,)), (16, 54))
        self.assertEqual(sizes_with(step, (torch.zeros(()),)), (16, 54))
        self.assertEqual(sizes_with(step, (TOKENS[:, :9],)), (16, 0))
        self.assertEqual(sizes_with(step, (TOKENS[:9],)), (0, 0))
        self.assertEqual(sizes_with((0, 0), (TOKENS,)), (0, 0))
        # What another call made is no data: it may be any part of the batch.
        made = torch.ones(100, 3, requires_grad=True)
        self.assertEqual(sizes_with(step, (made * 2,)), (16, 54))
        self.assertEqual(sizes_with(step, (made,)), (0, 0))

    def test_a_sequence_is_one_of_texts(self):
        self.assertEqual(sizes_of((IMAGES, TOKENS)), (16, 0))
        self.assertEqual(sizes_of((TOKENS, TOKENS[:, :9])), (16, 0))
        self.assertEqual(sizes_of((TOKENS, TOKENS, TOKENS[:, :9])), (16, 54))


if __name__ == "__main__":
    unittest.main()
