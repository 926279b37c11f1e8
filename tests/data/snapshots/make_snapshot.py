# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory snapshots as torch.cuda.memory._dump_snapshot writes them, without a GPU.

A training loop makes tensors and lets go of them; its requests go to an allocator written after PyTorch's rules (for its
defaults, with streams and empty_cache), apart from the one of Headroom, and what that one does is the recording. Frames
are those of a transformer's modules, of autograd and of an optimizer.

    make_snapshot.py FILE [--events N] [--protocol 2..5] [--seed N] [--keep N] [--metadata] [--own-tracebacks]

With --own-tracebacks each event has a list of frames of its own, as those that PyTorch records with context="all": about
four million of them make 1 GB.
"""

import argparse
import bisect
import pickle
import random

MIB = 1 << 20
FIRST_ADDRESS = 0x7F0000000000


class Allocator:
    """The caching allocator for default settings: blocks are [address, size, stream, segment, allocated, requested]."""

    def __init__(self, emit):
        self.emit = emit
        self.segments = {}  # address: [size, stream, small, sorted addresses of its blocks]
        self.blocks = {}  # address: [size, stream, segment, state, requested]
        self.free = {True: [], False: []}  # small: sorted (stream, size, address)
        self.next = FIRST_ADDRESS

    def malloc(self, requested, stream):
        size = max(512, -(-requested // 512) * 512)
        small = size <= MIB
        free = self.free[small]
        at = bisect.bisect_left(free, (stream, size, 0))
        if at < len(free) and free[at][0] == stream:
            address = free.pop(at)[2]
        else:
            address = self.segment(2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB,
                                   stream, small)
        block = self.blocks[address]
        rest = block[0] - size
        if rest >= 512 if small else rest > MIB:
            block[0] = size
            segment = self.segments[block[2]]
            bisect.insort(segment[3], address + size)
            self.blocks[address + size] = [rest, stream, block[2], "inactive", 0]
            bisect.insort(free, (stream, rest, address + size))
        block[3] = "active_allocated"
        block[4] = requested
        self.emit("alloc", address, requested, stream)
        return address

    def segment(self, size, stream, small):
        address = self.next
        self.next += size + 4 * MIB
        self.segments[address] = [size, stream, small, [address]]
        self.blocks[address] = [size, stream, address, "inactive", 0]
        self.emit("segment_alloc", address, size, stream)
        return address

    def request_free(self, address):
        block = self.blocks[address]
        block[3] = "active_awaiting_free"
        self.emit("free_requested", address, block[4], block[1])

    def complete_free(self, address):
        block = self.blocks[address]
        size, stream, start, _, requested = block
        self.emit("free_completed", address, requested, stream)
        segment = self.segments[start]
        free, order = self.free[segment[2]], segment[3]
        at = bisect.bisect_left(order, address)
        if at + 1 < len(order) and self.blocks[order[at + 1]][3] == "inactive":
            other = order.pop(at + 1)
            length = self.blocks.pop(other)[0]
            free.pop(bisect.bisect_left(free, (stream, length, other)))
            size += length
        if at > 0 and self.blocks[order[at - 1]][3] == "inactive":
            other = order[at - 1]
            length = self.blocks[other][0]
            free.pop(bisect.bisect_left(free, (stream, length, other)))
            order.pop(at)
            del self.blocks[address]
            address, size = other, size + length
        self.blocks[address] = [size, stream, start, "inactive", 0]
        bisect.insort(free, (stream, size, address))

    def empty_cache(self):
        for small in (False, True):
            for stream, size, address in list(self.free[small]):
                if self.segments.get(address, [0])[0] == size:
                    self.free[small].remove((stream, size, address))
                    del self.segments[address], self.blocks[address]
                    self.emit("segment_free", address, size, stream)


class Frames:
    """Stacks as PyTorch symbolises them: one list a traceback, whose frames are shared."""

    def __init__(self, rng, own=False):
        self.rng = rng
        self.own = own
        self.known = {}
        module = "/env/lib/python3.11/site-packages/torch/nn/modules/module.py"
        self.call = [("_call_impl", module, 1790), ("_wrapped_call_impl", module, 1779)]
        self.program = [("train_step", "/home/user/train.py", 61), ("train", "/home/user/train.py", 80)]
        self.program += [(f"run_{i}", f"/env/lib/python3.11/site-packages/launcher/stage_{i}.py", 30 + i) for i in range(10)]
        self.program += [("<module>", "/home/user/train.py", 120)]
        self.lists = {}

    def frame(self, key):
        if key not in self.known:
            self.known[key] = {"name": key[0], "filename": key[1], "line": key[2]}
        return self.known[key]

    def stack(self, keys):
        if self.own:
            return [self.frame(key) for key in keys]
        keys = tuple(keys)
        made = self.lists.setdefault(keys, [])
        if len(made) < 40:  # some tracebacks are the same object, most are not
            made.append([self.frame(key) for key in keys])
            return made[-1]
        return self.rng.choice(made)

    def forward(self, layer, part, op):
        model = "/home/user/model.py"
        keys = [("at::_ops::empty_memory_format::redispatch(c10::DispatchKeySet, c10::ArrayRef<c10::SymInt>)", "??", 0),
                (f"at::_ops::{op}::call(at::Tensor const&, at::Tensor const&)", "??", 0)]
        keys += [("forward", "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", 134)] + self.call
        keys += [("forward", model, 40 + part)] + self.call
        keys += [("forward", model, 90 + layer % 2)] + self.call
        keys += [("forward", model, 150 + layer)] + self.call + self.program
        return self.stack(keys)

    def backward(self, op, node):
        keys = [(f"at::_ops::{op}::call(at::Tensor const&, at::Tensor const&)", "??", 0),
                (f"torch::autograd::generated::{node}::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)",
                 "??", 0),
                ("torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)", "??", 0),
                ("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)", "??", 0),
                ("clone", "??", 0)]
        return self.stack(keys)

    def optimizer(self, line):
        folder = "/env/lib/python3.11/site-packages/torch/optim/"
        keys = [("_single_tensor_adam", folder + "adam.py", line), ("step", folder + "adam.py", 247),
                ("wrapper", folder + "optimizer.py", 517)] + self.program
        return self.stack(keys)

    def create(self, line):
        module = "/env/lib/python3.11/site-packages/torch/nn/modules/module.py"
        return self.stack([("convert", module, 1371), ("_apply", module, line), ("to", module, 1373)] + self.program)


class Program:
    """A training loop whose layers' sizes vary a little from step to step."""

    def __init__(self, events, seed, metadata, own_tracebacks=False):
        self.rng = random.Random(seed)
        self.frames = Frames(self.rng, own_tracebacks)
        self.trace = []
        self.annotations = []
        self.stack = []
        self.time = 1_700_000_000_000_000
        self.metadata = ""
        self.use_metadata = metadata
        self.wanted = events
        self.owners = {}  # address: its frames
        self.allocator = Allocator(self.emit)

    def emit(self, action, address, size, stream):
        self.time += self.rng.randrange(1, 40)
        self.trace.append({"action": action, "addr": address, "size": size, "stream": stream, "time_us": self.time,
                           "compile_context": "N/A", "user_metadata": self.metadata,
                           "frames": list(self.stack) if self.frames.own else self.stack})

    def make(self, size, stack, stream=0):
        self.stack = stack
        address = self.allocator.malloc(size, stream)
        self.owners[address] = stack
        return address

    def drop(self, address, other_stream=False):
        self.stack = self.owners.pop(address)
        self.allocator.request_free(address)
        if not other_stream:
            self.allocator.complete_free(address)
        return address

    def annotate(self, stage, name):
        self.annotations.append({"stage": stage, "name": name, "device": 0, "time_us": self.time + 1})

    def run(self):
        rng, layers = self.rng, 8
        parameters = [self.make(rng.choice((4096, 2 * MIB, 9 * MIB + 300, 24 * MIB)), self.frames.create(900 + i))
                      for i in range(3 * layers)]
        state = []
        step = 0
        while len(self.trace) < self.wanted:
            step += 1
            saved = self.forward(layers, 128 + rng.randrange(64))
            gradients = self.backward(saved)
            state = self.optimizer(parameters, gradients, state)
            if step % 5 == 0:
                self.stack = []
                self.allocator.empty_cache()
        return self

    def forward(self, layers, batch):
        saved, pending = [], []
        for layer in range(layers):
            for part in range(3):
                if self.use_metadata:
                    self.metadata = f"model.layers.{layer}.part{part}"
                work = self.make(batch * self.rng.randrange(1, 4000), self.frames.forward(layer, part, "mm"))
                saved.append(self.make(batch * 16384 * (1 + part), self.frames.forward(layer, part, "addmm")))
                copy = self.make(batch * 512, self.frames.forward(layer, part, "_to_copy"), stream=94012)
                pending.append(self.drop(copy, other_stream=True))
                self.drop(work)
                while len(pending) > 4:
                    self.allocator.complete_free(pending.pop(0))
        for address in pending:
            self.allocator.complete_free(address)
        self.metadata = ""
        return saved

    def backward(self, saved):
        gradients = []
        for i, address in enumerate(reversed(saved)):
            gradient = self.make(self.rng.choice((4096, 2 * MIB, 9 * MIB + 300)), self.frames.backward("mm", "AddmmBackward0"))
            work = self.make(1000 + 7000 * i, self.frames.backward("mul_Tensor", "GeluBackward0"))
            self.drop(address)
            self.drop(work)
            gradients.append(gradient)
        return gradients

    def optimizer(self, parameters, gradients, state):
        self.annotate("START", "Optimizer.step#Adam.step")
        if not state:
            state = [self.make(4 * MIB, self.frames.optimizer(120 + i % 2)) for i in range(2 * len(parameters))]
        for gradient in gradients:
            self.drop(self.make(self.rng.randrange(512, 3 * MIB), self.frames.optimizer(450)))
            self.drop(gradient)
        self.annotate("END", "Optimizer.step#Adam.step")
        return state

    def snapshot(self, keep):
        allocator, segments = self.allocator, []
        for start in sorted(allocator.segments):
            size, stream, small, order = allocator.segments[start]
            blocks = []
            for address in order:
                length, _, _, state, requested = allocator.blocks[address]
                blocks.append({"address": address, "size": length, "requested_size": requested, "state": state,
                               "frames": self.owners.get(address, [])})
            active = sum(block["size"] for block in blocks if block["state"] != "inactive")
            segments.append({"device": 0, "address": start, "total_size": size, "allocated_size": active,
                             "active_size": active, "requested_size": sum(block["requested_size"] for block in blocks),
                             "stream": stream, "segment_type": "small" if small else "large", "segment_pool_id": (0, 0),
                             "is_expandable": False, "frames": [], "blocks": blocks})
        settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
                    "expandable_segments": False, "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)}}
        return {"segments": segments, "device_traces": [self.trace[-keep:] if keep else self.trace, []],
                "allocator_settings": settings, "external_annotations": self.annotations}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--events", type=int, default=600, help="at least so many are recorded")
    parser.add_argument("--protocol", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=int, default=0, help="only the last ones, as a recording that began late")
    parser.add_argument("--metadata", action="store_true", help="the program names its layers")
    parser.add_argument("--own-tracebacks", action="store_true", help="no two events share a list of frames")
    arguments = parser.parse_args()
    program = Program(arguments.events, arguments.seed, arguments.metadata, arguments.own_tracebacks).run()
    with open(arguments.file, "wb") as file:
        pickle.dump(program.snapshot(arguments.keep), file, protocol=arguments.protocol)
    print(f"{arguments.file}: {len(program.trace)} events")


if __name__ == "__main__":
    main()
