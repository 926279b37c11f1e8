# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts that leave distributed training to a framework, as its documentation writes them, recorded as one rank.

    distributed_frameworks_test.py PLAN_CHECKER [TEST...]
"""

import importlib.util
import json
import os
import sys
import unittest

import support
from distributed_scripts_test import Distributed

support.need("torch")

_LLAMA = """
import os, sys, torch
sys.path.insert(0, {folder!r})
from distributed_model import Llama
from torch.nn import functional as F
sizes = dict(layers=2, width=256, heads=4, kv_heads=2, hidden=512, vocabulary=1000)
tokens = torch.utils.data.TensorDataset(torch.randint(0, 1000, (64, 128)))
"""
_PARAMETERS = 2 * 1000 * 256 + 2 * (2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 512 + 2 * 256) + 256


class Frameworks(Distributed):
    checker = None

    def need(self, *packages):
        for package in packages:
            if importlib.util.find_spec(package) is None:
                self.skipTest(f"{package} is not installed")

    def script(self, text):
        path = self.written(text)
        path.write_text(_LLAMA.format(folder=__file__.rpartition("/")[0]) + path.read_text())
        return path

    def ran(self, script, *options, arguments=()):
        result = self.run_script(script, "--json", *options, arguments=arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)


class Accelerate(Frameworks):
    SCRIPT = """
        from accelerate import Accelerator
        accelerator = Accelerator(gradient_accumulation_steps=2)
        assert sys.argv[1:] == ["--lr", "3"] and accelerator.num_processes == 8 and accelerator.process_index == {rank}
        model = Llama(**sizes)
        optimizer = torch.optim.AdamW(model.parameters())
        loader = torch.utils.data.DataLoader(tokens, batch_size=2)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for (batch,) in [*loader] * 2:
            with accelerator.accumulate(model):
                accelerator.backward(F.cross_entropy(model(batch).flatten(0, 1), batch.flatten()))
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    """

    def launched(self, *words, options=(), rank=0):
        self.need("accelerate")
        script = self.script(self.SCRIPT.replace("{rank}", str(rank)))
        return self.ran("accelerate", *options, arguments=["launch", *words, script, "--lr", "3"])

    def test_data_parallel(self):
        said = self.launched("--num_processes", "8", "--mixed_precision", "bf16")
        self.assertEqual(said["distributed"], {"world_size": 8, "ranks_per_node": 8, "rank": 0})
        self.assertEqual(said["phases"]["start"]["parameter"], 4 * _PARAMETERS)
        self.assertTrue(self.noted("autocast"))
        self.assertEqual(self.noted("arguments")[-9:-3], ["accelerate", "launch", "--num_processes", "8", "--mixed_precision", "bf16"])

    def test_fully_sharded(self):
        said = self.launched("--num_processes", "8", "--num_machines", "2", "--machine_rank", "1", "--main_process_ip", "10.0.0.1",
                             "--main_process_port", "29501", "--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy",
                             "TRANSFORMER_BASED_WRAP", "--fsdp_transformer_layer_cls_to_wrap", "Block", rank=5, options=("--rank", "5"))
        self.assertEqual(said["distributed"], {"world_size": 8, "ranks_per_node": 4, "rank": 5})
        self.assertAlmostEqual(said["phases"]["start"]["parameter"] * 8 / (4 * _PARAMETERS), 1, delta=0.02)

    def test_a_number_that_this_machine_does_not_know(self):
        self.need("accelerate")
        result = self.run_script("accelerate", arguments=["launch", self.script(self.SCRIPT)])
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr.strip().splitlines()[-1], "accelerate: say --num_processes: the GPUs")


class Trainer(Frameworks):
    def test_flat_parameters_and_a_checkpoint(self):
        self.need("transformers", "accelerate")
        said = self.ran(self.script("""
            from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
            class Data(torch.utils.data.Dataset):
                def __len__(self): return 256
                def __getitem__(self, i): return dict.fromkeys(("input_ids", "labels"), torch.randint(0, 1000, (64,)))
            model = LlamaForCausalLM(LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=2, vocab_size=1000,
                                                 num_attention_heads=4, use_cache=False))
            Trainer(model, TrainingArguments("out", bf16=True, max_steps=3, report_to=[], save_steps=1, save_strategy="steps",
                                             fsdp="full_shard auto_wrap", fsdp_config={
                                                 "version": 1, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}),
                    train_dataset=Data()).train()
        """), "--nproc-per-node", "8")
        self.assertIn("FullyShardedDataParallel.optim_state_dict was left out", "".join(said["remarks"]))


class DeepSpeed(Frameworks):
    SCRIPT = """
        import deepspeed
        stage, offload, optimizer = int(sys.argv[-3]), sys.argv[-2], sys.argv[-1]
        zero = {"stage": stage} | ({"offload_optimizer": {"device": "cpu"}} if offload == "cpu" else {})
        config = {"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True}, "gradient_clipping": 1.0,
                  "zero_optimization": {**zero, "reduce_bucket_size": 100000, "stage3_param_persistence_threshold": 0},
                  "optimizer": {"type": optimizer, "params": {"lr": 1e-4}}}
        deepspeed.init_distributed()
        with deepspeed.zero.Init(config_dict_or_path=config, enabled=stage == 3):
            model = Llama(**sizes)
        if "POLICY" in os.environ:
            import torch_headroom
            torch_headroom.apply(model, os.environ["POLICY"])
        engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
        for step in range(3):
            batch = torch.randint(0, 1000, (2, 128), device=engine.device)
            engine.backward(F.cross_entropy(engine(batch).flatten(0, 1).float(), batch.flatten()))
            engine.step()
    """

    def trained(self, *how, options=("--nproc-per-node", "8")):
        self.need("deepspeed")
        return self.ran(self.script(self.SCRIPT), *options, arguments=list(how))

    def test_stages(self):
        parameters = {}
        for stage in "1", "2", "3":
            said = self.trained(stage, "no", "AdamW")
            self.assertIn("fused_adam.multi_tensor_adam (1 ×)", "".join(said["remarks"]))
            parameters[stage] = said["phases"]["start"]["parameter"]
            # Two moments and the master weights.
            self.assertAlmostEqual(said["phases"]["start"]["optimizer"] * 8 / (12 * _PARAMETERS), 1, delta=0.05)
            self.assertLess(said["phases"]["start"]["other"], 4096)
            if stage != "3":
                phases = said["phases"]
                whole = 2 * _PARAMETERS
                kept, unsharded = (phases["after_backward"][name] for name in ("gradient", "unsharded_gradient"))
                self.assertEqual(phases["after_backward"]["temporary"], 0)
                self.assertGreaterEqual(kept + unsharded, whole if stage == "1" else whole / 8)
                self.assertEqual(unsharded > 0, stage == "2")
                # Master weights have their gradients in float32 while the optimizer steps.
                self.assertAlmostEqual(phases["after_step"]["gradient"] * 8 / (2 * whole), 1, delta=0.05)
        self.assertEqual(parameters["1"], 2 * _PARAMETERS)
        self.assertAlmostEqual(parameters["3"] * 8 / parameters["1"], 1, delta=0.05)
        self.assertAlmostEqual(said["phases"]["start"]["communication"], 2 * 100000, delta=512)
        self.assertAlmostEqual(said["phases"]["start"]["gradient"], said["phases"]["start"]["parameter"], delta=4096)
        self.assertGreater(said["phases"]["after_forward"]["unsharded_parameter"], 0.9 * parameters["1"])

    def test_prefetches_of_stage_3(self):
        self.need("deepspeed")
        gathers = {}
        for elements in 0, 200000, 10**9:
            prefetch = f'"stage3_prefetch_bucket_size": {elements}, "reduce_bucket_size"'
            script = self.SCRIPT.replace('"reduce_bucket_size"', prefetch)
            self.ran(self.script(script), "--nproc-per-node", "8", arguments=["3", "no", "AdamW"])
            step = support.columns(self.step)
            forward = [op for op, kind in zip(step["collectives.op"], step["collectives.kind"])
                       if kind == 1 and step["ops.phase"][op] == 0]
            gathers[elements] = forward
            # They are issued on a stream of DeepSpeed's own, in its order.
            self.assertEqual(len({step["ops.stream"][op] for op in forward} - {0}), 1)
        self.assertGreater(len(gathers[0]), len(gathers[200000]))  # the prefetched ones are together
        self.assertEqual(len(gathers[10**9]), 1)  # all before the first layer runs

    def test_a_plan_of_stage_3(self):
        how = "3", "no", "AdamW"
        self.trained(*how)
        plain = self.step.rename(self.step.with_name("plain.hrs"))
        policy = self.step.with_name("policy.json")
        _, planned, _, modules, _ = self.checker.ask("plan", plain, policy, 0.3)
        self.assertGreater(int(modules), 0)
        os.environ["POLICY"] = str(policy)
        self.addCleanup(os.environ.pop, "POLICY")
        executed = self.trained(*how)["peak_bytes"]
        # What is gathered already is not gathered again for a recomputation: the rest is equal to the byte.
        self.assertEqual((executed, self.checker.ask("verify", plain, self.step, policy)[1]), (int(planned), ""))

    def test_stage_3_is_noted(self):
        noted = ["parameters gathered by", "ZeRO-3"]  # for the planner: core/predict/obstacles.cpp
        for stage in "2", "3":
            self.trained(stage, "no", "AdamW")
            self.assertEqual(noted in self.noted("settings"), stage == "3")

    def test_gradients_are_finite(self):
        self.need("deepspeed")
        script = self.SCRIPT.replace('"bf16"', '"fp16"').replace('"lr"', '"torch_adam": True, "lr"')
        for stage in "1", "2", "3":
            said = self.ran(self.script(script), "--nproc-per-node", "8", "--strict", arguments=[stage, "no", "AdamW"])
            self.assertEqual(said["remarks"], [])

    def test_optimizer_on_the_cpu(self):
        said = self.trained("2", "cpu", "AdamW", options=("--nproc-per-node", "8", "--rank", "3"))
        self.assertEqual(said["phases"]["start"]["optimizer"], 0)
        self.assertIn("cpu_adam of DeepSpeed runs on the CPU and was left out", "".join(said["remarks"]))

    def test_an_optimizer_that_is_not_known(self):
        self.need("deepspeed")
        script = self.script("""
            from deepspeed.ops.op_builder import FusedLambBuilder
            FusedLambBuilder().load().dropout
        """)
        self.assertRegex(self.run_script(script).stderr, "fused_lamb_op.dropout is not among the kernels that Headroom knows")

    def test_words_of_deepspeed(self):
        self.need("deepspeed")
        said = self.ran("deepspeed", arguments=["--num_gpus", "4", self.script(self.SCRIPT), "1", "no", "AdamW"])
        self.assertEqual(said["distributed"], {"world_size": 4, "ranks_per_node": 4, "rank": 0})


class Lightning(Frameworks):
    def test_data_parallel(self):
        self.need("lightning")
        said = self.ran(self.script("""
            import lightning
            class Module(lightning.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = Llama(**sizes)
                def training_step(self, batch, index):
                    return F.cross_entropy(self.model(batch[0]).flatten(0, 1), batch[0].flatten())
                def configure_optimizers(self):
                    return torch.optim.AdamW(self.parameters())
            lightning.Trainer(accelerator="gpu", devices=8, strategy="ddp", max_steps=3, logger=False, enable_checkpointing=False
                              ).fit(Module(), torch.utils.data.DataLoader(tokens, batch_size=2))
        """), "--nproc-per-node", "8")
        self.assertEqual(said["phases"]["start"]["parameter"], 4 * _PARAMETERS)


if __name__ == "__main__":
    Frameworks.checker = support.Checker(sys.argv.pop(1))
    unittest.main()
