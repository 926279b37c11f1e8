# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of CPU tensors are the same with a simulated GPU in the process as without, bit by bit, though those of large
tensors are made only when they are read; of tensors that are only moved to the GPU they are never made."""

import subprocess
import sys
import unittest

import support

support.need("torch", "numpy")

SIMULATE = "import torch_headroom; torch_headroom.simulate()\n"

BUILD = """
import ctypes, hashlib, io, torch
from torch import nn

def digest(data):
    print(hashlib.sha256(bytes(data)).hexdigest()[:16])

torch.manual_seed(7)
linear = nn.Linear(300, 301)
embedding = nn.Embedding(1000, 128, padding_idx=0)
truncated = nn.init.trunc_normal_(torch.empty(257, 257), std=0.02)
again = nn.init.normal_(nn.init.xavier_uniform_(torch.empty(512, 512)), std=0.5)
half = torch.empty(70001, dtype=torch.bfloat16).normal_()
double = torch.randn(70001, dtype=torch.float64)
own = torch.empty(400, 400).uniform_(-1, 1, generator=torch.Generator().manual_seed(3))
changed = torch.empty(300, 300).normal_()
changed[10:20].mul_(2).add_(1)
changed.t()[5].zero_()
view = torch.empty(300, 300).normal_()[100:200, 3]
print(torch.rand(3).tolist())
digest(torch.get_rng_state())
"""

READ = """
digest(linear.weight.detach().numpy())
digest(embedding.weight.detach().contiguous().view(torch.uint8).tolist()[0])
print(truncated.sum().item(), truncated.abs().max().item())
digest(ctypes.string_at(again.data_ptr(), again.nbytes))
digest(half.view(torch.uint8).numpy())
digest(double.untyped_storage())
file = io.BytesIO()
torch.save(own, file)
digest(torch.load(io.BytesIO(file.getvalue())).numpy())
digest(changed.clone().numpy())
digest(view.contiguous().numpy())
digest(torch.get_rng_state())
"""

MOVE = """
import resource, torch
from torch import nn
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = nn.Sequential(*(nn.Linear(8192, 8192) for _ in range(4)))
fill = nn.init.trunc_normal_ if torch.torch_version.TorchVersion(torch.__version__) < "2.13" else nn.init.normal_
for layer in model:
    fill(layer.weight, std=0.02)  # from 2.13 on trunc_normal_ reads what it drew
model.cuda()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""

OFFLOAD = """
import resource, torch
on_device, kept = torch.randn(1 << 26, device="cuda"), []
for pinned in (True, False):
    for _ in range(3):
        host = torch.empty(1 << 26, pin_memory=pinned)
        host.copy_(on_device, non_blocking=pinned)
        kept.append((host, host.cuda()))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
host = torch.ones(1 << 20)
numpy = host.numpy()
host[3:-5].copy_(on_device[3:(1 << 20) - 5])
print(numpy.sum(), host.sum().item(), host[:4].tolist(), host[-6:].tolist())
columns = torch.ones(512, 512)
columns[:, 3:].copy_(on_device[:512 * 509].view(512, 509))
print(columns.sum().item())
"""

OPTIMIZER = """
import hashlib, random, torch

def run(seed):
    choose = random.Random(seed)
    torch.manual_seed(seed)
    count = 70000
    tensors = [torch.randn(count) for _ in range(3)] + [torch.zeros(count) for _ in range(3)]
    number = torch.tensor(0.5)
    for _ in range(300):
        i = choose.randrange(len(tensors))
        a, b, c = tensors[i], choose.choice(tensors), choose.choice(tensors)
        match choose.randrange(18 + seed % 3):
            case 0: a.mul_(0.9)
            case 1: a.add_(b, alpha=0.5)
            case 2: a.lerp_(b, 0.1)
            case 3: a.addcmul_(b, c, value=0.3)
            case 4: a.addcdiv_(b, (c * c).add_(1), value=0.1)
            case 5: a.copy_(b)
            case 6: a.zero_()
            case 7: to_host(a)
            case 8: tensors[i] = b * c
            case 9: tensors[i] = (b * b).sqrt() / 3
            case 10: a[100:66000].mul_(2)
            case 11: a.normal_()
            case 18: print(i, a.sum().item())
            case 13: tensors[i] = b.clone()
            case 14: a.mul_(number), number.add_(0.25)
            case 15: tensors[i] = b[:66000].clone().resize_(count).copy_(c)
            case 16: a[:66000].copy_(b.clone()[4000:])
            case 17: tensors[i] = torch.zeros_like(b)
            case 12: a.sub_(b.mean())
            case 19: a.numpy()[7] = choose.random()
    for tensor in tensors:
        print(hashlib.sha256(tensor.numpy().tobytes()).hexdigest()[:16])

for seed in range(20):
    run(seed)
"""

# Modes that see ops of other tensors read these values in the middle of an op of their own.
MODES = """
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
torch.manual_seed(1)
zeros, half = torch.zeros(300, 300), torch.ones(300, 300).mul_(0.5)
normal = torch.empty(300, 300).normal_()
sum = torch.zeros(300, 300).add_(normal, alpha=2).mul_(zeros + 3)
with FakeTensorMode(allow_non_fake_inputs=True) as mode:
    print([mode.from_tensor(tensor).shape for tensor in (zeros, half, normal)], (sum + 1).shape)
class Model(torch.nn.Module):
    def forward(self, x, y):
        return (x + y).sum()
print(torch.export.export(Model(), (torch.zeros(300, 300), torch.empty(300, 300).normal_())).graph_signature.user_outputs)
state = torch.zeros(300, 300).add_(normal)
print(torch.func.vmap(torch.sum)(state.mul_(2)).sum().item())
with torch.autocast("cpu", torch.bfloat16):
    print(torch.zeros(300, 300).add_(normal).mul_(normal).sum().item())
print([tensor.sum().item() for tensor in (zeros, half, normal, sum, state)])
"""


def output(program):
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    if result.returncode:
        raise AssertionError(result.stderr)
    return result.stdout


class DeferredFills(unittest.TestCase):
    def test_values_and_the_random_stream_are_those_without_headroom(self):
        expected = output(BUILD + READ)
        self.assertEqual(output(SIMULATE + BUILD + READ), expected)

    def test_what_is_only_moved_takes_no_memory(self):
        mebibytes = int(output(SIMULATE + MOVE))  # the weights are 1024 MiB
        self.assertLess(mebibytes, 128)

    def test_ops_of_optimizers_that_are_put_off_have_the_same_results(self):
        on_device = "import torch\ndef to_host(t): t.copy_(torch.randn(70000, device='cuda'))\n"
        expected = output("def to_host(t): t.zero_()\n" + OPTIMIZER)
        self.assertEqual(output(SIMULATE + on_device + OPTIMIZER), expected)

    def test_modes_read_them(self):
        self.assertEqual(output(SIMULATE + MODES), output(MODES))

    def test_copies_to_the_host_take_no_memory_and_are_zeros(self):
        usual = int(output(SIMULATE + "import resource, torch; torch.randn(9, device='cuda'); "
                           "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"))
        mebibytes, *values = output(SIMULATE + OFFLOAD).splitlines()  # the copies are 1536 MiB
        self.assertLess(int(mebibytes), usual + 64)
        self.assertEqual(values, ["8.0 8.0 [1.0, 1.0, 1.0, 0.0] [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]", "1536.0"])

    def test_small_views_of_what_was_put_off_have_their_values_on_the_device(self):
        program = "import torch; torch.manual_seed(1); w = torch.empty(300, 300).normal_(); print(w[7, :5].{}.tolist())"
        self.assertEqual(output(SIMULATE + program.format("cuda()")), output(program.format("cpu()")))


if __name__ == "__main__":
    unittest.main()
