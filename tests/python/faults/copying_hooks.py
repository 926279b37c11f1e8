# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forward hooks that look into modules and tensors, copy them deeply and pickle them, and print what they find."""

import copy
import gc
import io
import pickle
import weakref

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


def described(module):
    """What a program sees of a module: its attributes and how many hooks of each kind it has."""
    hooks = {name: len(value) for name, value in vars(module).items() if name.endswith("_hooks")}
    forward = module.forward.__qualname__, module.forward.__self__ is module
    return type(module).__qualname__, sorted(vars(module)), sorted(hooks.items()), forward


def look_before(module, *_):
    print("seen before", described(module), len(nn.modules.module._global_forward_pre_hooks))


def look(module, inputs, output):
    print("seen", described(module), repr(module).split("(")[0], len(list(module.modules())))
    print("seen", type(output).__name__, output.grad_fn.name(), output._version, sorted(vars(output)),
          output._backward_hooks, inputs[0].is_leaf)
    twin = copy.deepcopy(module)
    dropped.append(weakref.ref(twin))
    kept.append(copy.deepcopy(module))
    print("seen copy", described(twin), all(map(torch.equal, twin.state_dict().values(), module.state_dict().values())))
    read = pickle.loads(pickle.dumps(module))
    print("seen pickle", described(read), [tuple(p.shape) for p in read.parameters()])
    leaf = output.detach()
    file = io.BytesIO()
    torch.save({"module": module.state_dict(), "output": leaf}, file)
    file.seek(0)
    saved = torch.load(file)
    print("seen file", sorted(saved["module"]), saved["output"].shape, saved["output"].device, saved["output"].is_leaf)
    print("seen tensors", copy.deepcopy(leaf).shape, pickle.loads(pickle.dumps(leaf)).dtype, copy.copy(leaf).is_cuda)


gc.disable()  # what is in no cycle goes without it
dropped, kept = [], []
net = nn.Sequential(Block(64), Block(64)).cuda()
for block in net:
    block.register_forward_hook(look)
    block.register_forward_pre_hook(look_before)
    block.register_full_backward_hook(look_before)
net[1].forward = net[1].forward  # the program's own attribute
nn.modules.module.register_module_forward_pre_hook(look_before)
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(3):
    net(torch.randn(8, 64, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    print("seen copies", [known() is None for known in dropped], [sorted(vars(copied)) for copied in kept])
    print("seen", described(copy.deepcopy(net)), sorted(vars(copy.deepcopy(optimizer))))
