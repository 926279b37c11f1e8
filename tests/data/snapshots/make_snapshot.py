# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory snapshots as torch.cuda.memory._dump_snapshot writes them, without a GPU.

A training loop makes tensors and lets go of them; its requests go to an allocator written after PyTorch's rules (for its
defaults or with expandable segments, with streams, empty_cache and a device that can be full), apart from the one of
Headroom, and what that one does is the recording. Frames
are those of a transformer's modules, of autograd and of an optimizer.

    make_snapshot.py FILE [--events N] [--protocol 2..5] [--seed N] [--keep N] [--metadata] [--own-tracebacks]
                          [--expandable] [--capacity MiB] [--devices N]

With --own-tracebacks each event has a list of frames of its own, as those that PyTorch records with context="all":
7.5 million of them make 1 GB.
"""

import argparse
import bisect
import pickle
import random

MIB = 1 << 20
FIRST_ADDRESS = 0x7F0000000000


class OutOfMemory(Exception):
    pass


class Allocator:
    """The caching allocator for default settings: blocks are [address, size, stream, segment, allocated, requested]."""

    settings = ""

    def __init__(self, emit, capacity=0):
        self.emit = emit
        self.capacity = capacity  # 0: without an end
        self.reserved = 0
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
        if self.capacity and self.reserved + size > self.capacity:
            self.empty_cache()
        if self.capacity and self.reserved + size > self.capacity:
            self.emit("oom", self.capacity - self.reserved, size, stream)
            raise OutOfMemory
        self.reserved += size
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
                    self.reserved -= size
                    self.emit("segment_free", address, size, stream)


    def snapshot(self, frames):
        segments = []
        for start in sorted(self.segments):
            size, stream, small, order = self.segments[start]
            blocks = [(address, *self.blocks[address][:1], *self.blocks[address][3:]) for address in order]
            segments.append(segment_of(start, size, stream, small, False, blocks, frames))
        return segments


def segment_of(start, size, stream, small, expandable, blocks, frames):
    """Blocks are (address, size, state, requested)."""
    made = [{"address": address, "size": length, "requested_size": requested, "state": state,
             "frames": frames.get(address, [])} for address, length, state, requested in blocks]
    active = sum(block["size"] for block in made if block["state"] != "inactive")
    return {"device": 0, "address": start, "total_size": size, "allocated_size": active, "active_size": active,
            "requested_size": sum(block["requested_size"] for block in made), "stream": stream,
            "segment_type": "small" if small else "large", "segment_pool_id": (0, 0), "is_expandable": expandable,
            "frames": [], "blocks": made}


class ExpandableAllocator:
    """With expandable_segments:True: one reservation of addresses for each stream and pool, whose pages are mapped as they
    are needed. A reservation is a list of blocks [address, size, state, requested] in address order; a state may be
    "unmapped"."""

    settings = "expandable_segments:True"
    reservation = 9 << 37

    def __init__(self, emit, capacity=0):
        self.emit = emit
        self.capacity = 0  # the card is large enough
        self.segments = {}  # (stream, small): blocks
        self.where = {}  # address of a block in use: its key
        self.next = FIRST_ADDRESS

    def malloc(self, requested, stream):
        size = max(512, -(-requested // 512) * 512)
        key = (stream, size <= MIB)
        if key not in self.segments:
            self.segments[key] = [[self.next, self.reservation, "unmapped", 0]]
            self.next += 1 << 47  # far more, as the card of a simulation may be of any size
        blocks = self.segments[key]
        at = self.best_fit(blocks, size)
        if at is None:
            at = self.grow(blocks, size, stream, key[1])
        block = blocks[at]
        if block[1] - size >= 512:
            blocks.insert(at + 1, [block[0] + size, block[1] - size, "inactive", 0])
            block[1] = size
        block[2:] = ["active_allocated", requested]
        self.where[block[0]] = key
        self.emit("alloc", block[0], requested, stream)
        return block[0]

    @staticmethod
    def best_fit(blocks, size):
        """The smallest one; but a later one is better when the first could grow to more than it."""
        def most(at):
            follows = blocks[at + 1] if at + 1 < len(blocks) else None
            return blocks[at][1] + (follows[1] if follows and follows[2] == "unmapped" else 0)
        fitting = sorted((block[1], block[0], at) for at, block in enumerate(blocks)
                         if block[2] == "inactive" and block[1] >= size)
        if not fitting:
            return None
        chosen = 0
        while chosen + 1 < len(fitting) and most(fitting[chosen + 1][2]) < most(fitting[chosen][2]):
            chosen += 1
        return fitting[chosen][2]

    def grow(self, blocks, size, stream, small):
        """Maps pages behind the first free space that is large enough."""
        for at, block in enumerate(blocks):
            if block[2] != "unmapped":
                continue
            first = at - 1 if at > 0 and blocks[at - 1][2] == "inactive" else at
            length, end = 0, first
            while end < len(blocks) and blocks[end][2] in ("inactive", "unmapped") and length < size:
                length += blocks[end][1]
                end += 1
            if length >= size:
                break
        at = first
        if blocks[at][2] == "unmapped":
            at = self.map(blocks, at, min(size, blocks[at][1]), stream, small)
        while blocks[at][1] < size:
            at = self.map(blocks, at + 1, min(size - blocks[at][1], blocks[at + 1][1]), stream, small)
        return at

    def map(self, blocks, at, size, stream, small):
        page = 2 * MIB if small else 20 * MIB
        block = blocks[at]
        mapped = -(-size // page) * page
        if mapped < block[1]:
            blocks.insert(at + 1, [block[0] + mapped, block[1] - mapped, "unmapped", 0])
            block[1] = mapped
        block[2] = "inactive"
        self.emit("segment_map", block[0], mapped, stream)
        return self.merge(blocks, at)

    @staticmethod
    def merge(blocks, at):
        """With free neighbours, mapped as it is itself."""
        if at > 0 and blocks[at - 1][2] == blocks[at][2]:
            blocks[at - 1][1] += blocks.pop(at)[1]
            at -= 1
        if at + 1 < len(blocks) and blocks[at + 1][2] == blocks[at][2]:
            blocks[at][1] += blocks.pop(at + 1)[1]
        return at

    def find(self, address):
        blocks = self.segments[self.where[address]]
        return blocks, next(at for at, block in enumerate(blocks) if block[0] == address)

    def request_free(self, address):
        blocks, at = self.find(address)
        blocks[at][2] = "active_awaiting_free"
        self.emit("free_requested", address, blocks[at][3], self.where[address][0])

    def complete_free(self, address):
        blocks, at = self.find(address)
        stream = self.where.pop(address)[0]
        self.emit("free_completed", address, blocks[at][3], stream)
        blocks[at][2:] = ["inactive", 0]
        self.merge(blocks, at)

    def empty_cache(self):
        for small in (False, True):
            for stream, _ in sorted(key for key in self.segments if key[1] == small):
                self.unmap(stream, small)

    def unmap(self, stream, small):
        page = 2 * MIB if small else 20 * MIB
        blocks = self.segments[(stream, small)]
        start = blocks[0][0]
        for _, address in sorted((block[1], block[0]) for block in blocks if block[2] == "inactive"):
            at = next(at for at, block in enumerate(blocks) if block[0] == address)
            size = blocks[at][1]
            begin = start + -(-(address - start) // page) * page
            end = start + (address + size - start) // page * page
            if end <= begin:
                continue
            pieces = [[address, begin - address, "inactive", 0], [begin, end - begin, "unmapped", 0],
                      [end, address + size - end, "inactive", 0]]
            pieces = [piece for piece in pieces if piece[1] > 0]
            blocks[at:at + 1] = pieces
            self.merge(blocks, next(at for at, block in enumerate(blocks) if block[0] == begin))
            self.emit("segment_unmap", begin, end - begin, stream)
        if len(blocks) == 1:
            del self.segments[(stream, small)]

    def snapshot(self, frames):
        """Each run of mapped pages is a segment."""
        segments = []
        for (stream, small), blocks in self.segments.items():
            run = []
            for block in blocks + [[0, 0, "unmapped", 0]]:
                if block[2] != "unmapped":
                    run.append(tuple(block))
                elif run:
                    segments.append(segment_of(run[0][0], sum(part[1] for part in run), stream, small, True, run, frames))
                    run = []
        return sorted(segments, key=lambda segment: segment["address"])


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

    def __init__(self, events, seed, metadata, own_tracebacks=False, allocator=Allocator, capacity=0):
        self.rng = random.Random(seed)
        self.frames = Frames(self.rng, own_tracebacks)
        self.trace = []
        self.annotations = []
        self.stack = []
        self.time = 1_700_000_000_000_000
        self.metadata = ""
        self.use_metadata = metadata
        self.steps_between = 2 if allocator is ExpandableAllocator else 5  # two calls of empty_cache()
        self.wanted = events
        self.owners = {}  # address: its frames
        self.allocator = allocator(self.emit, capacity)

    def emit(self, action, address, size, stream):
        self.time += self.rng.randrange(1, 40)
        self.trace.append({"action": action, "device_free" if action == "oom" else "addr": address, "size": size, "stream": stream, "time_us": self.time,
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
            if self.allocator.capacity and step % 3 == 0:
                self.ask_too_much()
            saved = self.forward(layers, 128 + rng.randrange(64))
            gradients = self.backward(saved)
            state = self.optimizer(parameters, gradients, state)
            if step % self.steps_between == 0:
                self.stack = []
                self.allocator.empty_cache()
        return self

    def ask_too_much(self):
        """A request that the program survives, and a mark of its own in the history."""
        try:
            self.make(2 * self.allocator.capacity, self.frames.forward(0, 0, "mm"))
        except OutOfMemory:
            self.emit("user_defined", 0, 0, 0)

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
        self.stack = []
        self.emit("snapshot", 0, 0, 0)
        settings = {"PYTORCH_CUDA_ALLOC_CONF": self.allocator.settings, "max_split_size": -1,
                    "garbage_collection_threshold": 0.0, "expandable_segments": bool(self.allocator.settings),
                    "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)}}
        return {"segments": self.allocator.snapshot(self.owners),
                "device_traces": [self.trace[-keep:] if keep else self.trace, []],
                "allocator_settings": settings, "external_annotations": self.annotations}


def together(snapshots):
    """Of programs on one GPU each, as one program on several."""
    for device, snapshot in enumerate(snapshots):
        for record in snapshot["segments"] + snapshot["external_annotations"]:
            record["device"] = device
    made = dict(snapshots[0])
    made["segments"] = [segment for snapshot in snapshots for segment in snapshot["segments"]]
    made["external_annotations"] = [note for snapshot in snapshots for note in snapshot["external_annotations"]]
    made["device_traces"] = [snapshot["device_traces"][0] for snapshot in snapshots]
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--events", type=int, default=600, help="at least so many are recorded")
    parser.add_argument("--protocol", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=int, default=0, help="only the last ones, as a recording that began late")
    parser.add_argument("--metadata", action="store_true", help="the program names its layers")
    parser.add_argument("--own-tracebacks", action="store_true", help="no two events share a list of frames")
    parser.add_argument("--expandable", action="store_true", help="the program has expandable_segments:True")
    parser.add_argument("--capacity", type=int, default=0, help="MiB of the device, which the program runs against")
    parser.add_argument("--devices", type=int, default=1, help="each later one has half as many events")
    arguments = parser.parse_args()
    kind = ExpandableAllocator if arguments.expandable else Allocator
    snapshots = []
    for device in range(arguments.devices):
        program = Program(arguments.events >> device, arguments.seed + device, arguments.metadata,
                          arguments.own_tracebacks, kind, arguments.capacity * MIB).run()
        snapshots.append(program.snapshot(arguments.keep))
    with open(arguments.file, "wb") as file:
        pickle.dump(together(snapshots), file, protocol=arguments.protocol)
    events = sum(len(trace) for snapshot in snapshots for trace in snapshot["device_traces"])
    print(f"{arguments.file}: {events} events")


if __name__ == "__main__":
    main()
