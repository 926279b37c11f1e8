# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts for torchrun, recorded as one rank of a job of which the others do not run."""

import json
import pathlib
import time
import unittest

import support
from recorded_script import Recorded

support.need("torch")

_SCRIPTS = pathlib.Path(__file__).with_name("scripts")
_LLAMA = _SCRIPTS / "distributed_llama.py"
_PIPELINE = _SCRIPTS / "distributed_pipeline.py"
_RECORD, _WAIT, _USE = 0, 1, 3  # StreamEventKind in core/trace/step_trace.h


class Distributed(Recorded):
    def sharded(self, how, *options, processes=8, script=_LLAMA):
        result = self.run_script(script, "--json", "--nproc-per-node", str(processes), *options, arguments=[how])
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def refused(self, text, *options, arguments=()):
        begin = time.monotonic()
        script = self.written(text) if isinstance(text, str) else text
        result = self.run_script(script, *options, arguments=arguments)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertEqual(result.returncode, 2, result.stderr)
        return result.stderr.strip().splitlines()[-1]


class WaysToShard(Distributed):
    def test_data_parallel(self):
        plain, views = self.sharded("ddp"), self.sharded("ddp-views")
        self.assertEqual(plain["distributed"], {"world_size": 8, "ranks_per_node": 8, "rank": 0})
        parameters = plain["phases"]["start"]["parameter"]
        # The buckets hold a copy of all gradients, but for the rounding of each; with views gradients lie in them.
        self.assertAlmostEqual(plain["phases"]["start"]["communication"] / parameters, 1, delta=0.001)
        self.assertEqual(plain["phases"]["after_backward"]["gradient"], parameters)
        self.assertEqual(views["phases"]["after_backward"]["communication"], 0)

    def test_fully_shard(self):
        phases = self.sharded("fsdp2")["phases"]
        whole = self.sharded("ddp")["phases"]["start"]["parameter"]
        self.assertAlmostEqual(phases["start"]["parameter"] * 8 / whole, 1, delta=0.01)
        self.assertEqual(phases["after_backward"]["gradient"], phases["start"]["parameter"])
        self.assertEqual(phases["start"]["unsharded_parameter"], 0)
        self.assertGreater(phases["after_forward"]["unsharded_parameter"], 0)  # the root's
        self.assertEqual(self.sharded("hsdp")["phases"]["start"]["parameter"], 2 * phases["start"]["parameter"])
        self.assertEqual(self.sharded("fsdp2-offload")["phases"]["start"]["parameter"], 0)

    def test_flat_parameters(self):
        phases = self.sharded("fsdp1")["phases"]
        whole = self.sharded("ddp")["phases"]["start"]["parameter"]
        self.assertAlmostEqual(phases["start"]["parameter"] * 8 / whole, 1, delta=0.01)
        self.assertGreater(phases["after_forward"]["unsharded_parameter"], 0)
        self.assertEqual(phases["after_backward"]["gradient"], phases["start"]["parameter"])

    def test_streams_of_flat_parameters(self):
        self.sharded("fsdp1")
        step = support.columns(self.step)
        uses = [row for row, kind in enumerate(step["stream_events.kind"]) if kind == _USE]
        whole = {storage for storage, category in zip(step["registered.storage"], step["registered.category"])
                 if category == 9}
        self.assertEqual(len(whole), 5)
        # Forward frees what the four layers gathered on another stream; the root stays gathered until backward.
        freed = [step["stream_events.stream"][row] for row in uses if step["stream_events.event"][row] in whole]
        self.assertEqual(freed, [0] * 4)
        gathered = {place for place, size in zip(step["resizes.stream"], step["resizes.bytes"]) if size}
        self.assertTrue(gathered and 0 not in gathered, gathered)

    def test_the_program_waits_for_the_reduction_of_buckets(self):
        self.sharded("ddp")
        step = support.columns(self.step)
        events = list(zip(*(step[f"stream_events.{name}"] for name in ("kind", "stream", "event"))))
        later = [op for op, asynchronous in zip(step["collectives.op"], step["collectives.async"]) if asynchronous]
        reduces = {step["ops.stream"][op] for op in later}
        self.assertEqual(len(reduces), 1)
        behind = {event for kind, stream, event in events if kind == _RECORD and stream in reduces}
        waited = behind & {event for kind, stream, event in events if kind == _WAIT and stream == 0}
        self.assertEqual(len(waited), len(later))
        # ProcessGroupNCCL holds the tensors of a collective instead of calling recordStream(), since PyTorch 2.8.
        self.assertNotIn(_USE, step["stream_events.kind"])

    def test_tensor_parallel(self):
        alone, both = self.sharded("tp"), self.sharded("tp-fsdp2")
        whole = self.sharded("ddp")["phases"]["start"]["parameter"]
        self.assertAlmostEqual(alone["phases"]["start"]["parameter"] * 8 / whole, 1, delta=0.01)
        self.assertAlmostEqual(both["phases"]["start"]["parameter"] * 8 / whole, 1, delta=0.01)
        # Gradients are DTensors; the embedding's is a part of a whole one.
        self.assertGreaterEqual(alone["phases"]["after_backward"]["gradient"], alone["phases"]["start"]["parameter"])
        self.assertEqual(alone["phases"]["after_backward"]["temporary"], 0)

    def test_gradients_that_wait_for_their_reduction(self):
        """Of the first of two backward passes, unsharded and in the reduction's dtype; then replicas are reduced, too."""
        for last in (False, True):
            with self.subTest(last=last):
                found = self.recorded(f"""
                    import torch, torch.distributed as dist
                    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
                    dist.init_process_group("nccl")
                    mesh = dist.init_device_mesh("cuda", (2, 4), mesh_dim_names=("replicate", "shard"))
                    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024, bias=False) for _ in range(4))).cuda()
                    for layer in model:
                        fully_shard(layer, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
                    fully_shard(model, mesh=mesh)
                    optimizer = torch.optim.SGD(model.parameters(), 0.1)
                    for _ in range(3):
                        for last in (False, True):
                            if {last}:
                                model.set_requires_all_reduce(last)
                            else:
                                model.set_requires_gradient_sync(last)
                            model(torch.randn(8, 1024, device="cuda")).sum().backward()
                            if not last:
                                torch.empty(1 << 30, dtype=torch.uint8, device="cuda")  # the peak
                        optimizer.step()
                        optimizer.zero_grad()
                """, "--nproc-per-node", "8")
                whole = 4 * 1024 * 1024 * 4
                self.assertEqual(found["at_peak"]["gradient"], whole // 4 if last else whole)
                self.assertLess(found["at_peak"]["temporary"], 1.01 * 2**30)

    def test_what_a_stage_sends_is_used_by_its_stream(self):
        self.sharded("1f1b", processes=4, script=_PIPELINE)
        step = support.columns(self.step)
        self.assertIn(_USE, step["stream_events.kind"])

    def test_every_stage_of_a_pipeline(self):
        parameters = [self.sharded("1f1b", "--rank", str(rank), processes=4, script=_PIPELINE)["phases"]["start"]["parameter"]
                      for rank in (0, 1, 3)]
        self.assertGreater(parameters[0], parameters[1])  # it has the embedding
        self.assertEqual(parameters[0], parameters[2] - 512 * 2)  # the last has the norm and the head

    def test_interleaved_stages(self):
        self.sharded("interleaved", "--rank", "1", processes=2, script=_PIPELINE)


class Jobs(Distributed):
    def test_words_of_torchrun(self):
        script = self.written("""
            import os, sys, torch, torch.distributed as dist
            dist.init_process_group()
            assert sys.argv[1:] == ["--lr", "3"], sys.argv
            assert (dist.get_rank(), dist.get_world_size(), os.environ["LOCAL_WORLD_SIZE"]) == (4, 8, "4")
            cards = {torch.cuda.get_device_properties(card).name for card in range(torch.cuda.device_count())}
            assert torch.cuda.device_count() == 4 and len(cards) == 1  # torch's has_triton() asks all
            model = torch.nn.Linear(4, 4, device="cuda")
            optimizer = torch.optim.SGD(model.parameters())
            for _ in range(3):
                model(torch.ones(1, 4, device="cuda")).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        """)
        result = self.run_script("torchrun", "--gpu", "a100-80gb", arguments=[
            "--nproc_per_node=4", "--nnodes", "2", "--node-rank=1", "--rdzv-backend", "c10d", script, "--lr", "3"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.noted("distributed"), {"world_size": 8, "ranks_per_node": 4, "rank": 4})

    def test_the_only_process_of_a_job(self):
        """A script that was not started by torchrun, and makes a group of NCCL of its own."""
        for how in ("fsdp2", "fsdp1", "ddp"):
            script = self.written(f"""
                import os, runpy
                os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
                runpy.run_path({str(_LLAMA)!r}, run_name="__main__")
            """)
            alone = self.run_script(script, "--json", arguments=[how])
            self.assertEqual(alone.returncode, 0, alone.stderr)
            self.assertEqual(json.loads(alone.stdout)["phases"], self.sharded(how, processes=1)["phases"])

    def test_values_are_those_of_equal_ranks(self):
        self.recorded("""
            import torch, torch.distributed as dist, torch.distributed._functional_collectives as functional
            dist.init_process_group("cpu:gloo,cuda:nccl")
            for device in ("cpu", "cuda"):
                def numbers(*values):
                    return torch.tensor(values, dtype=torch.float32, device=device)
                def check(tensor, *values):
                    assert tensor.tolist() == list(values), (device, tensor, values)
                total, most, parts = numbers(3.0), numbers(3.0), [numbers(0.0, 0.0) for _ in range(4)]
                dist.all_reduce(total)
                dist.all_reduce(most, op=dist.ReduceOp.MAX)
                check(total, 12), check(most, 3)
                dist.all_gather(parts, numbers(1.0, 2.0))
                assert [part.tolist() for part in parts] == [[1, 2]] * 4
                whole = numbers(*[0.0] * 4)
                work = dist.all_gather_into_tensor(whole, numbers(5.0), async_op=True)
                work.wait()
                check(whole, 5, 5, 5, 5)
                part = numbers(0.0)
                dist.reduce_scatter_tensor(part, numbers(1.0, 2.0, 3.0, 4.0))
                check(part, 8)  # rank 1's
                dist.all_to_all_single(whole, numbers(1.0, 2.0, 3.0, 4.0))
                check(whole, 2, 2, 2, 2)
                check(functional.all_reduce(numbers(1.0, 2.0), "sum", dist.group.WORLD) + 0, 4, 8)
                check(functional.all_gather_tensor(numbers(1.0), 0, dist.group.WORLD) + 0, 1, 1, 1, 1)
                group = dist.new_group([1, 3])
                total = numbers(3.0)
                dist.all_reduce(total, group=group)
                check(total, 6)
                assert dist.get_group_rank(group, 1) == 0 and dist.new_group([0, 2]) is dist.GroupMember.NON_GROUP_MEMBER
                dist.broadcast(total, src=1), dist.barrier(), dist.reduce(total, dst=1)
                check(total, 24)
            found = [None] * 4
            dist.all_gather_object(found, {"rank": dist.get_rank()})
            assert found == [{"rank": 1}] * 4, found
            with dist._coalescing_manager(device=torch.device("cuda")):
                dist.all_reduce(torch.ones(3, device="cuda"))
            model = torch.nn.Linear(4, 4, device="cuda")
            optimizer = torch.optim.SGD(model.parameters())
            for _ in range(3):
                model(torch.ones(1, 4, device="cuda")).sum().backward()
                dist.send(torch.ones(4, device="cuda"), 0), dist.recv(torch.ones(4, device="cuda"), 0)
                optimizer.step()
                optimizer.zero_grad()
        """, "--nproc-per-node", "4", "--rank", "1")

    def test_checkpoints_are_left_out_with_a_sentence(self):
        script = self.written("""
            import pathlib, torch, torch.distributed as dist
            dist.init_process_group("nccl")
            import torch.distributed.checkpoint as checkpoints
            model = torch.nn.Linear(4, 4, device="cuda")
            optimizer = torch.optim.SGD(model.parameters())
            for step in range(3):
                model(torch.ones(1, 4, device="cuda")).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                checkpoints.save(model.state_dict(), checkpoint_id="there")
                checkpoints.async_save(model.state_dict(), checkpoint_id="there").result()
                assert not pathlib.Path("there").exists()
        """)
        result = self.run_script(script, "--nproc-per-node", "2", "--strict")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("remark: torch.distributed.checkpoint.save was left out: the other ranks", result.stdout)
        self.assertIn("remark: torch.distributed.checkpoint.async_save was left out", result.stdout)

    def test_objects_of_another_rank(self):
        self.recorded("""
            import torch, torch.distributed as dist
            dist.init_process_group("nccl")
            word = ["of rank 0", 3] if dist.get_rank() == 0 else [None, None]
            dist.broadcast_object_list(word, src=0)
            assert word == ["of rank 0", 3], word
            sizes = torch.tensor([5, 7] if dist.get_rank() == 0 else [-1, -1], device="cuda")
            dist.broadcast(sizes, src=0)
            assert sizes.tolist() == [5, 7], sizes
            model = torch.nn.Linear(4, 4, device="cuda")
            optimizer = torch.optim.SGD(model.parameters())
            for _ in range(3):
                model(torch.ones(1, 4, device="cuda")).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        """, "--nproc-per-node", "4", "--rank", "2")


    def test_what_is_taken_from_this_rank_is_said_where_it_is_read(self):
        trains = """
            import torch, torch.distributed as dist
            dist.init_process_group("nccl")
            model = torch.nn.Linear(4, 4, device="cuda")
            optimizer = torch.optim.SGD(model.parameters())
            count = torch.ones((), dtype=torch.int64, device="cuda")
            for _ in range(3):
                model(torch.ones(1, 4, device="cuda")).sum().backward()
                total = count + 1
                if {asks}:
                    dist.all_reduce(total)
                assert (total + 1).item() == (17 if {asks} else 3)
                optimizer.step()
                optimizer.zero_grad()
        """
        said = self.recorded(trains.replace("{asks}", "True"), "--nproc-per-node", "8")["remarks"]
        self.assertRegex("".join(said), r"read values of other ranks once at .*train.py:12, here taken as equal")
        self.assertEqual(self.recorded(trains.replace("{asks}", "False"), "--nproc-per-node", "8")["remarks"], [])

    def test_buffers_of_nccl_are_taken_off_the_card(self):
        """With a group's first collective on the GPU, as NCCL takes them."""
        self.recorded("""
            import torch, torch.distributed as dist
            dist.init_process_group("cpu:gloo,cuda:nccl")
            model = torch.nn.Linear(4, 4, device="cuda")
            optimizer = torch.optim.SGD(model.parameters())
            def taken(device, group=None):
                before = torch.cuda.mem_get_info()[0]
                dist.all_reduce(torch.ones(4, device=device), group=group)
                return (before - torch.cuda.mem_get_info()[0]) >> 20
            pair = dist.new_group([0, 1])
            assert [taken("cpu"), taken("cuda"), taken("cuda"), taken("cuda", pair)] == [0, 688, 0, 544]
            torch.cuda.empty_cache()
            try:
                torch.empty(torch.cuda.mem_get_info()[0] + (600 << 20), dtype=torch.uint8, device="cuda")
                raise SystemExit("there is no room for that")
            except torch.OutOfMemoryError as error:
                rest = "CUDA's context, cuBLAS's workspaces and NCCL's buffers (estimated, 1.20 GiB for 2 communicators)"
                assert f"{rest} take the rest of the card" in str(error), error
            for _ in range(3):
                model(torch.ones(1, 4, device="cuda")).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        """, "--nproc-per-node", "8")

    def test_units_that_reshard_over_fewer_ranks_fill_the_card_with_communicators(self):
        """Each unit has a mesh of its own for what it gathers in backward."""
        words = ["--layers", "64", "--width", "128", "--batch", "1", "--vocabulary", "1000", "--reshard"]
        job = ("--gpu", "a100-40gb", "--nproc-per-node", "8")
        script = _SCRIPTS / "fsdp_llama.py"
        self.assertRegex(self.refused(script, *job, "--limited", arguments=[*words, "4"]),
                         r"out of memory.* NCCL's buffers \(estimated, 4\d\.\d\d GiB for 6\d communicators\) take the rest")
        result = self.run_script(script, *job, arguments=[*words, "default"])
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_tokens_sent_to_experts(self):
        """A balanced router's: counted by histc, which takes whole numbers on CUDA alone."""
        self.recorded("""
            import torch, torch.distributed as dist
            dist.init_process_group("nccl")
            model = torch.nn.Linear(64, 16, device="cuda")
            optimizer = torch.optim.SGD(model.parameters())
            for _ in range(3):
                x = torch.randn(256, 64, device="cuda")
                scores = model(x)
                chosen = scores.topk(2, dim=-1).indices
                counts = torch.histc(chosen.view(-1), bins=16, min=0, max=16)
                received = torch.empty_like(counts)
                dist.all_to_all_single(received, counts)
                sent, taken = counts.view(8, -1).sum(1).tolist(), received.view(8, -1).sum(1).tolist()
                assert sent == taken == [64] * 8, (sent, taken)
                tokens = torch.empty(sum(taken), 64, device="cuda")
                dist.all_to_all_single(tokens, x.repeat(2, 1), taken, sent)
                scores.sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        """, "--nproc-per-node", "8")


class Refusals(Distributed):
    def test_a_script_that_starts_processes_itself(self):
        said = self.refused("""
            import torch
            def train(rank):
                torch.nn.Linear(8, 8).cuda()
            if __name__ == "__main__":
                torch.multiprocessing.spawn(train, nprocs=1)
            """)
        self.assertRegex(said, "a process that the script started raised RuntimeError: .*; the simulated GPU is there for "
                               "the script's own process only: call the training function without")

    def test_a_script_for_torchrun_alone(self):
        alone = 'import os\nlocal_rank = int(os.environ["LOCAL_RANK"])\n'
        self.assertRegex(self.refused(alone), "LOCAL_RANK.*torchrun sets this variable; record a process .*--nproc-per-node")
        waits = "import torch.distributed as dist\ndist.init_process_group('nccl')\n"
        self.assertRegex(self.refused(waits), "RANK and WORLD_SIZE are not set: .*--nproc-per-node")
        waits = "import torch.distributed as dist\ndist.init_process_group('gloo', 'tcp://127.0.0.1:1', rank=0, world_size=2)\n"
        self.assertRegex(self.refused(waits), "waits for the other 1 of 2 processes: .*--nproc-per-node")

    def test_more_ranks_than_there_are(self):
        job = ("--nproc-per-node", "8")
        many = "import torch.distributed as dist\ndist.init_process_group('nccl', world_size=16, rank=0)\n"
        self.assertRegex(self.refused(many, *job), "a process group of 16 processes in a job of 8")
        self.assertRegex(self.refused(_LLAMA, *job, arguments=["large-mesh"]), "Mesh should not be bigger than default world size")
        self.assertRegex(self.refused(_LLAMA, *job, "--rank", "8"), "no rank 8 in a job of 8: expected 0 to 7")

    def test_devices(self):
        job = ("--nproc-per-node", "8")
        self.assertRegex(self.refused(_LLAMA, *job, arguments=["mixed-devices"]), "No backend type associated with device type cpu")
        other = "import torch\ntorch.cuda.set_device(5)\n"
        self.assertRegex(self.refused(other, *job), "asks for cuda:5")

    def test_a_value_that_nobody_writes(self):
        waits = """
            import torch.distributed as dist
            store = dist.TCPStore("127.0.0.1", 1234, 8, False)
            store.get("of rank 3")
        """
        self.assertRegex(self.refused(waits, "--nproc-per-node", "8"), "another rank would have written that")

    def test_memory_of_other_ranks(self):
        maps = """
            import torch, torch.distributed as dist, torch.distributed._symmetric_memory as symmetric
            dist.init_process_group("nccl")
            symmetric.enable_symm_mem_for_group(dist.group.WORLD.group_name)
        """
        self.assertRegex(self.refused(maps, "--nproc-per-node", "8"), "maps the memory of other ranks' GPUs")
        op = """
            import torch, torch.distributed as dist
            dist.init_process_group("nccl")
            torch.ops.symm_mem.one_shot_all_reduce(torch.ones(8, device="cuda"), "sum", dist.group.WORLD.group_name)
        """
        self.assertRegex(self.refused(op, "--nproc-per-node", "8"), "symm_mem::one_shot_all_reduce maps the memory of")
        of_python = """
            import torch, torch.distributed as dist, torch.distributed._symmetric_memory
            dist.init_process_group("nccl")
            x = torch.ones(8, 8, device="cuda")
            torch.ops.symm_mem.fused_all_gather_matmul(x, [x], 0, dist.group.WORLD.group_name)
        """
        self.assertRegex(self.refused(of_python, "--nproc-per-node", "8"), "maps the memory of other ranks' GPUs")


if __name__ == "__main__":
    unittest.main()
