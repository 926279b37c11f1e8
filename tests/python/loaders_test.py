# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the recorder does with a script's data loaders. `--longest-batch N` of the recorder and of `torch-headroom fit`:
the step is that of the longest batch, which the output names. Larger batches after the recorded step. `--evaluation`.

    loaders_test.py HEADROOM
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

import support

support.need("torch")

from recorded_script import fork_servers  # noqa: E402

HEADROOM = sys.argv.pop(1)
_GPU = "t4-16gb"
_SCRIPT = """
    import sys, torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset
    lengths = [7 + 3 * (i % 11) for i in range(45)]
    lengths[19] = 96  # the longest
    lengths[44] = 80  # alone in the last batch of four
    class Texts(Dataset):
        def __len__(self):
            return len(lengths)
        def __getitem__(self, index):
            return torch.full((lengths[index],), index)
    class Stream(IterableDataset):
        def __iter__(self):
            at = 0
            while at < len(lengths) or "endless" in sys.argv:
                yield torch.full((lengths[at % len(lengths)],), at % len(lengths))
                at += 1
    def padded(texts):
        return {"ids": torch.nn.utils.rnn.pad_sequence(texts, batch_first=True), "count": len(texts)}
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(64, 64), torch.nn.Linear(64, 256), torch.nn.Tanh()).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    def ahead(batches):
        batches = iter(batches)
        batch = next(batches)
        for following in batches:
            yield batch
            batch = following
        yield batch
    def train(batches, accumulate=1):
        for at, batch in enumerate(batches):
            model(batch.pop("ids").cuda()).square().mean().backward()
            if at % accumulate == accumulate - 1:
                optimizer.step()
                optimizer.zero_grad()
"""


class Loaders(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def started(self, *command):
        return subprocess.run([*map(str, command)], cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env=os.environ | fork_servers(_GPU) | {"XDG_CACHE_HOME": str(self.folder / "cache")})

    def script(self, *lines):
        path = self.folder / "train.py"
        path.write_text(textwrap.dedent(_SCRIPT) + "\n".join(lines) + "\n")
        return path

    def recorded(self, line, *arguments, most=1000):
        """What the recorder says about the longest batch, and the shape of the step's batch."""
        done = self.started(sys.executable, "-m", "torch_headroom.record", "--gpu", _GPU, "--longest-batch", most, "--json",
                            "-o", "step.hrs", self.script(line), *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        step = (self.folder / "step.hrs").read_bytes()
        sizes = (int(re.search(rb'"%s": ?(\d+)' % name, step)[1]) for name in (b"batch", b"sequence"))
        return document["notes"][-1], tuple(sizes)

    def test_a_loader_that_shuffles(self):
        sentence = ("the longest 4 of all 45 samples make the longest batch that the data loader may shuffle: ids of "
                    "4 × 96; sample 19 is the longest")
        loader = "DataLoader(Texts(), batch_size=4, shuffle=True, collate_fn=padded"
        self.assertEqual(self.recorded(f"train({loader}))"), (sentence, (4, 96)))
        for others in (", num_workers=2, pin_memory=True", ", drop_last=True"):
            self.assertEqual(self.recorded(f"train({loader}{others}))"), (sentence, (4, 96)))

    def test_a_loader_with_an_order(self):
        sentence = "batch 5 is the longest of all 12 batches of the data loader: ids of 4 × 96; sample 19 decides"
        loader = "DataLoader(Texts(), batch_size=4, collate_fn=padded"
        for others in ("", ", num_workers=2"):
            self.assertEqual(self.recorded(f"train({loader}{others}))"), (sentence, (4, 96)))
        sentence = "batch 3 is the longest of the first 3 batches of the data loader: ids of 4 × 37; sample 10 decides"
        self.assertEqual(self.recorded(f"train({loader}))", most=3), (sentence, (4, 37)))

    def test_an_iterable_data_set(self):
        line = "train(DataLoader(Stream(), batch_size=4, collate_fn=padded))"
        sentence = "batch 5 is the longest of all 12 batches of the data loader: ids of 4 × 96"
        self.assertEqual(self.recorded(line), (sentence, (4, 96)))
        sentence = "batch 5 is the longest of the first 40 batches of the data loader: ids of 4 × 96"
        self.assertEqual(self.recorded(line, "endless", most=40), (sentence, (4, 96)))

    def test_every_micro_batch_and_each_new_iterator_gives_it(self):
        loader = "DataLoader(Texts(), batch_size=4, collate_fn=padded)"
        _, shape = self.recorded(f"train({loader}, accumulate=3)")
        self.assertEqual(shape, (4, 96))
        _, shape = self.recorded(f"loader = {loader}\nfor _ in range(3):\n    train([next(iter(loader))])")
        self.assertEqual(shape, (4, 96))

    def test_refusals(self):
        for line, sentence in {
                "train({'ids': torch.zeros(4, 8, dtype=torch.long)} for _ in range(3))":
                    "train.py: the program read no batch from a torch.utils.data.DataLoader before",
                "train(DataLoader(Texts(), batch_size=4, collate_fn=lambda texts: {'ids': padded(texts)['ids'].cuda()}))":
                    "the data loader makes batches on the GPU",
                "train(DataLoader([], collate_fn=padded))": "a data loader of the program has no batch",
        }.items():
            done = self.started(sys.executable, "-m", "torch_headroom.record", "--gpu", _GPU, "--longest-batch", "9",
                                self.script(line))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr.strip().splitlines()[-1], sentence)
            self.assertNotIn("Traceback", done.stderr)
        done = self.started(HEADROOM, "fit", "demo:transformer", "--gpu", _GPU, "--longest-batch", "9")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--longest-batch needs the data loader of a script", done.stderr)

    def test_fit_says_which_batch_decides(self):
        script = self.script("train(DataLoader(Texts(), int(sys.argv[1]), shuffle=True, collate_fn=padded))")
        options = ["--json", "--gpu", _GPU, "--python", sys.executable, "--vary", "batch=1..32", "--", "{batch}"]
        found = json.loads(self.started(HEADROOM, "fit", script, "--longest-batch", "1000", *options).stdout)
        self.assertEqual(found["note"], "at batch 32, the longest 32 of all 45 samples make the longest batch that the data "
                                        "loader may shuffle: ids of 32 × 96; sample 19 is the longest")
        rows = found["series"][0]["rows"]
        self.assertEqual({row["sequence"] for row in rows}, {96})
        # All sizes have the longest sample, so that few are recorded.
        self.assertLessEqual(found["cache"]["recorded"], 4)

    def to_come(self, line):
        """What the recorder says about batches after the recorded step."""
        done = self.started(sys.executable, "-m", "torch_headroom.record", "--gpu", _GPU, "--json", "--strict", "-o",
                            "step.hrs", self.script(line))
        self.assertEqual(done.returncode, 0, done.stderr)
        notes = json.loads(done.stdout)["notes"]
        return next((note for note in notes if note.startswith("a later step may")), "").partition(" (")[0]

    def test_larger_batches_after_the_recorded_step_are_told(self):
        loader = "DataLoader(Texts(), batch_size=4, collate_fn=padded"
        sentence = ("a later step may take more memory: batch {} of the data loader after the recorded step has ids of "
                    "4 × 96, and no batch until there has more than 4 × {}")
        for others in ("", ", num_workers=2"):
            self.assertEqual(self.to_come(f"train({loader}{others}))"), sentence.format(3, 28))
        # The loop of accelerate is a batch ahead of the program.
        self.assertEqual(self.to_come(f"train(ahead({loader})))"), sentence.format(2, 37))
        self.assertEqual(self.to_come(f"train({loader}), accumulate=3)"), "", "the longest batch is in the step")
        self.assertEqual(self.to_come(f"lengths[0] = 96\ntrain({loader}))"), "")
        self.assertEqual(self.to_come("class Broken(Texts):\n"
                                      "    def __getitem__(self, index):\n"
                                      "        return super().__getitem__(index) if index < 8 else 1 / 0\n"
                                      f"train({loader.replace('Texts', 'Broken')}))"), "")
        planned = json.loads(self.started(HEADROOM, "plan", "step.hrs", "--card", _GPU, "--json").stdout)
        self.assertNotIn("a later step may take", str(planned["card"]["assumptions"]))
        self.to_come(f"train({loader}))")
        planned = json.loads(self.started(HEADROOM, "plan", "step.hrs", "--card", _GPU, "--json").stdout)
        self.assertTrue(planned["card"]["steps_differ"])
        self.assertIn("ids of 4 × 96", planned["card"]["assumptions"][0])

    def test_run_tells_larger_batches_and_plans_for_the_longest(self):
        script = self.script("train(DataLoader(Texts(), batch_size=4, collate_fn=padded))")
        run = [sys.executable, "-m", "torch_headroom.run", "--dry-run", "--json", "--gpu", _GPU]
        recorded, longest = (self.started(*run, *options, script) for options in ((), ("--longest-batch", "100")))
        self.assertIn("ids of 4 × 96, and no batch until there has more than 4 × 28", recorded.stderr)
        self.assertNotIn("a later step may take more memory", longest.stderr)
        self.assertNotIn("a larger step may run out of memory", longest.stderr)
        peaks = [json.loads(done.stdout)["peak_bytes"] for done in (recorded, longest)]
        self.assertLess(*peaks)
        done = self.started(*run, "--longest-batch", "0", script)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--longest-batch: expected a whole number of at least 1, not 0", done.stderr)

    def evaluated(self, *lines, exit_code=0):
        """Returns what the recorder says about the evaluation, and the peaks of the step and of the allocator."""
        script = self.script(*textwrap.dedent("""
            import pathlib
            results = pathlib.Path("results")
            results.mkdir(exist_ok=True)
            (results / "best.pt").write_text("precious")
            large = DataLoader(Texts(), 45, collate_fn=padded)
            seen = []
            @torch.no_grad()
            def evaluate():
                seen.extend(tuple(batch["ids"].shape) for batch in large if model(batch["ids"].cuda()).sum() == 0)
        """).splitlines(), *lines)
        found = []
        for options in ((), ("--evaluation",)):
            done = self.started(sys.executable, "-m", "torch_headroom.record", "--gpu", _GPU, "--json", "-o", "step.hrs",
                                *options, script)
            self.assertEqual(done.returncode, exit_code, done.stderr)
            document = json.loads(done.stdout)
            card = json.loads(self.started(HEADROOM, "plan", "step.hrs", "--card", _GPU, "--json").stdout)["card"]
            found.append((document, card))
        self.assertEqual((self.folder / "results" / "best.pt").read_text(), "precious")
        (usual, _), (document, card) = found
        self.assertEqual(usual["peak_bytes"], document["peak_bytes"], "the step is the same")
        self.assertEqual([note for note in usual["notes"] if "evaluation" in note], [])
        [note] = [note for note in document["notes"] if "evaluation" in note] or [""]
        return note, [card["reserved_peak_bytes"] for _, card in found], document, card

    RECORDED = ("an evaluation after the step is recorded, with two batches of a data loader: the first, and the largest "
                "of the next")

    def test_an_evaluation_at_the_end_of_the_epoch(self):
        epochs = ("for epoch in range(3):",
                  "    train(DataLoader(Texts(), batch_size=4, collate_fn=padded))",
                  "    {}",
                  "    torch.save(model.state_dict(), 'results/best.pt')",
                  "    (results / 'best.pt').write_text('numbers')")
        for loop in (epochs, ("for epoch in range(1):", *epochs[1:])):
            note, (usual, reserved), _, card = self.evaluated(*"\n".join(loop).format("evaluate()").splitlines())
            self.assertEqual(note, self.RECORDED)
            self.assertGreaterEqual(reserved - usual, 45 * 96 * 256 * 4)
            self.assertIn(self.RECORDED, str(card["assumptions"]))
        for line, sentence in {"pass": " before the program went on or wrote a file",
                               "raise ValueError('nothing to see')": ": the program raised ValueError: nothing to see",
                               "open('results/best.pt', 'wb')": " before the program went on or wrote a file",
                               "results.rename('other')": " before the program went on or wrote a file"}.items():
            note, (usual, reserved), *_ = self.evaluated(*"\n".join(epochs).format(line).splitlines())
            self.assertEqual((note, reserved), (f"no evaluation followed the recorded step{sentence}", usual))

    def test_a_program_without_loaders_ends_with_the_step(self):
        note, peaks, *_ = self.evaluated("for _ in range(5):",
                                         "    train([{'ids': torch.zeros(4, 8, dtype=torch.long)}])", "    evaluate()")
        self.assertEqual(note, "")

    def test_a_real_gpu_records_no_evaluation(self):
        done = self.started(sys.executable, "-m", "torch_headroom.record", "--device", "cuda", "--evaluation",
                            self.script("train([])"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--evaluation records memory of the simulated GPU alone", done.stderr)

    def test_a_loop_that_reads_ahead(self):
        note, (usual, reserved), *_ = self.evaluated("lengths[:] = [20] * 45",
                                                     "train(ahead(DataLoader(Texts(), 4, collate_fn=padded)))",
                                                     "evaluate()")
        self.assertEqual(note, self.RECORDED)
        self.assertGreater(reserved, usual)

    def test_the_largest_of_the_batches_is_evaluated(self):
        note, *_ = self.evaluated("large = DataLoader(Texts(), 4, collate_fn=padded)",
                                  "train(DataLoader(Texts(), batch_size=4, collate_fn=padded))", "seen.clear()",
                                  "evaluate()", "assert seen == [(4, 16), (4, 96)], seen", "raise KeyError(str(seen))")
        self.assertEqual(note, self.RECORDED)

    def test_a_trainer_of_transformers_evaluates(self):
        support.need("transformers", "accelerate")
        note, (usual, reserved), document, _ = self.evaluated(
            "del model, optimizer",
            "from transformers import Trainer, TrainingArguments, GPT2Config, GPT2LMHeadModel",
            "class Sentences(torch.utils.data.Dataset):",
            "    def __len__(self):",
            "        return 64",
            "    def __getitem__(self, index):",
            "        return {'input_ids': torch.ones(64, dtype=torch.long), 'labels': torch.ones(64, dtype=torch.long)}",
            "net = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=128, n_head=4, vocab_size=4096))",
            "arguments = TrainingArguments('results', per_device_train_batch_size=2, per_device_eval_batch_size=32,",
            "                              eval_strategy='steps', eval_steps=7, save_strategy='best', max_steps=20,",
            "                              metric_for_best_model='loss', report_to=[])",
            "Trainer(net, arguments, train_dataset=Sentences(), eval_dataset=Sentences()).train()")
        self.assertEqual(note, self.RECORDED)
        self.assertGreater(reserved, usual)
        self.assertEqual(os.listdir(self.folder / "results"), ["best.pt"], "no checkpoint was written")


if __name__ == "__main__":
    unittest.main()
