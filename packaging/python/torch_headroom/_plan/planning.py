# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans a kept recording for a card, in a process of its own: a program that trains later loads no library early, and
Ctrl+C ends a search. Imports no torch.

    python -m torch_headroom._plan.planning STEP GPU BUDGET MARGIN SETTINGS POLICY WISHES    prints a plan as JSON
    python -m torch_headroom._plan.planning                                                  prints the GPU at hand as JSON
"""

import ctypes
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile

from .._library import HeadroomError, check, gpu_name, load

# PyTorch reads the first variable that is set.
ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_MINOR, _MAJOR, _MULTIPROCESSORS = 76, 75, 16  # CUdevice_attribute
# As parseBytes() in core/base/bytes.cpp.
_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SIZE = re.compile(r"\s*(-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([a-z]*)\s*", re.ASCII | re.IGNORECASE)
_MOST_BYTES = 2**62


class PlanForCard:
    """A plan of a recorded step for a card: what `torch-headroom plan --card --json` answers, in words for people."""

    def __init__(self, planned, budget, policy):
        """`planned` is what this file's program prints. `budget` is in bytes; 0: all that the GPU gives. `policy` is
        the path of the plan's policy."""
        self.result = planned["plan"]
        self.title = planned["title"]  # of the GPU
        self.total = planned["memory_bytes"]  # of the GPU
        self.budget = budget
        # None: the step runs without a plan
        self.policy = policy if self.result["decisions"] or "offload" in self.result else None
        self._texts = planned["texts"]  # sizes for people, by name

    def __str__(self):
        """Returns what the plan does, in one line."""
        what = "the step fits without a plan"
        if self.policy:
            offload = self.result.get("offload")
            done = [f"{_modules(len(self.modules))} checkpointed, {self.recompute_ms:,.2f} ms recomputed"]
            if offload:
                done = done * bool(self.modules) + [
                    f"{_modules(len(offload['modules']))} offloaded, {self._texts['moved']} to the host, "
                    f"{self._texts['host']} pinned there, {offload['exposed_ms']:,.2f} ms of waiting for copies"]
            what = f"{'; '.join(done)} beside {self.step_ms:,.2f} ms of forward and backward"
        settings = f"; PYTORCH_CUDA_ALLOC_CONF={self.settings}" if self.settings else ""
        better = self.result["card"].get("better_settings")
        saved = self.recompute_ms - better["recompute_ms"] if better else 0
        hint = f"; PYTORCH_CUDA_ALLOC_CONF={better['settings']} would save {saved:,.2f} ms" if better else ""
        return (f"{what}; {self._texts['reserved_peak']} reserved at most on {self._where()}, "
                f"{self._texts['left']} left{settings}{hint}{self._other_sizes()}")

    @property
    def modules(self):
        return list(self.result["decisions"])

    @property
    def recompute_ms(self):
        return self.result["recompute_ms"]

    @property
    def step_ms(self):
        return self.result["step_ms"]

    @property
    def reserved_peak_bytes(self):
        return self.result["card"]["reserved_peak_bytes"]

    @property
    def left_bytes(self):
        return self.result["card"]["left_bytes"]

    @property
    def settings(self):
        """Returns the value of PYTORCH_CUDA_ALLOC_CONF for which the plan was made; empty: PyTorch's defaults."""
        return self.result["card"]["settings"]

    @property
    def runs(self):
        return self.result["card"]["runs"] and self.result["status"] != "infeasible"

    def refusal(self):
        """Returns why no plan runs, and what would help."""
        better = self.result["card"].get("better_settings")
        hint = f" With PYTORCH_CUDA_ALLOC_CONF={better['settings']} a plan runs." if better else ""
        return f"no plan runs on {self._where()}: {self.result['reason']}{hint}"

    def out_of_memory(self):
        """Returns what to do if a program runs out of memory under the plan."""
        return (f"out of memory on {self._where()}, though the recorded step leaves {self._texts['left']} there: the "
                "program takes memory that the recorded step does not show, such as a copy of the weights, a later "
                "evaluation or a larger batch. Plan with more memory left free: --margin SIZE")

    def _other_sizes(self):
        """Returns what is said where the program's steps differ in size."""
        card = self.result["card"]
        return f"; {card['assumptions'][0]}" if card["steps_differ"] else ""

    def _where(self):
        return f"{self._texts['budget']} of {self.title}" if self.budget else self.title


def _modules(count):
    return f"{count} module{'s' * (count > 1)}"


def plan_for_card(kept, gpu, budget, wishes, may_change_settings, margin=0):
    """Plans a step (recordings.Kept) for the card `gpu`. The allocator may reserve `budget` bytes; 0: all memory that
    the card gives; `margin` of these bytes stay free. `wishes` are of wishes_of(). With `may_change_settings`, where no
    plan runs and the user has chosen no settings of the allocator, the plan is made for other settings if a plan is
    possible there. Plans are kept beside the step. Raises HeadroomError, with exit code 3 where no plan runs."""
    plan = _kept_plan(kept, gpu, budget, margin, None, wishes)
    better = plan.result["card"].get("better_settings")
    if better and not plan.runs and may_change_settings and not any(name in os.environ for name in ALLOCATOR_VARIABLES):
        plan = _kept_plan(kept, gpu, budget, margin, better["settings"], wishes)
    if not plan.runs:
        raise HeadroomError(plan.refusal(), 3)
    return plan


def gpu_at_hand():
    """Returns the name of this machine's first visible GPU among the known cards; None: the machine has no GPU. Raises
    HeadroomError for a GPU that is not known."""
    found = json.loads(_run_planner())
    if found and not found["name"]:
        raise HeadroomError(f"{found['title']} is no card that Headroom knows: give the most similar card as gpu "
                            "(python -m torch_headroom.record --gpu list), and the memory for the allocator as "
                            "budget", 4)
    return found["name"] if found else None


def bytes_of(text, name="budget", least=1):
    """Returns the bytes of a size such as 7.5GiB, as the C++ programs read sizes. `name` says what the size is, for the
    sentence of the HeadroomError about another text."""
    match = _SIZE.fullmatch(str(text))
    scale = _UNITS.get(match[2].lower()) if match else None
    if scale is None or math.isinf(float(match[1])):
        raise HeadroomError(f"{name} `{text}` is not a size: expected bytes, or a number with KiB, MiB or GiB, as 1.6GiB")
    number = float(match[1])
    if number < 0:
        raise HeadroomError(f"{name} `{text}` is negative: a size is 0 or more")
    # Whole numbers of bytes are read as integers: a float would lose digits above 2^53.
    size = int(match[1]) if scale == 1 and match[1].lstrip("-").isdecimal() else math.floor(number * scale)
    if size > _MOST_BYTES:
        raise HeadroomError(f"{name} `{text}` is too large: expected at most 2^62 bytes")
    if size < least:
        raise HeadroomError(f"{name} {text}: expected at least {least} B")
    return size


def wishes_of(offload, host_memory, recompute, pins):
    """Returns what headroom_plan() takes as wishes. `host_memory` is a size or None, `pins` are texts such as
    "Net.layers.0=save". Raises HeadroomError for a size without offload, and for a plan that neither recomputes nor offloads."""
    if not recompute and not offload:
        raise HeadroomError("a plan without recomputation can only offload: expected --offload (offload=True) as well")
    if host_memory is not None and not offload:
        raise HeadroomError("host memory is for offload alone: expected --offload (offload=True) as well")
    host = 0 if host_memory is None else bytes_of(host_memory, "host memory")
    return {"offload": bool(offload), "host_memory": host, "recompute": bool(recompute), "pins": list(pins)}


def _kept_plan(kept, gpu, budget, margin, settings, wishes):
    key = hashlib.sha256(json.dumps([gpu, budget, margin, settings, wishes]).encode()).hexdigest()[:16]
    path, policy = kept.folder / f"plan-{key}.json", kept.folder / f"policy-{key}.json"
    planned = _read(path)
    if planned is None:
        text = _run_planner(str(kept.step), gpu, str(budget), str(margin), json.dumps(settings), str(policy),
                            json.dumps(wishes))
        with tempfile.NamedTemporaryFile("w", dir=kept.folder, delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
        planned = json.loads(text)
    return PlanForCard(planned, budget, policy)


def _read(path):
    """Returns a kept plan; None: there is none, or the file is damaged."""
    try:
        planned = json.loads(path.read_text())
        return planned if {"plan", "title", "memory_bytes", "texts"} <= planned.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def _run_planner(*words):
    """Runs this file's program. Returns the printed text."""
    done = subprocess.run([sys.executable, "-m", "torch_headroom._plan.planning", *words], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"planning ended with exit code {done.returncode}"]
        raise HeadroomError(lines[-1], done.returncode if done.returncode > 0 else 1)
    return done.stdout


def _plan(step, gpu, budget, margin, settings, policy, wishes):
    library = load()
    library.headroom_plan.restype = ctypes.c_char_p
    library.headroom_plan.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64,
                                      ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p]
    settings = json.loads(settings)
    text = library.headroom_plan(os.fsencode(step), gpu.encode(), int(budget), int(margin),
                                 None if settings is None else settings.encode(), os.fsencode(policy), wishes.encode())
    if text is None:
        check(2)
    card = next(card for card in json.loads(library.headroom_devices()) if card["name"] == gpu_name(gpu))
    plan = json.loads(text)
    texts = {"budget": int(budget), "reserved_peak": plan["card"]["reserved_peak_bytes"],
             "left": plan["card"]["left_bytes"], "moved": plan.get("offload", {}).get("moved_bytes", 0),
             "host": plan.get("offload", {}).get("host_bytes", 0)}
    library.headroom_format_bytes.restype = ctypes.c_char_p
    library.headroom_format_bytes.argtypes = [ctypes.c_int64]
    texts = {name: library.headroom_format_bytes(size).decode() for name, size in texts.items()}
    return {"plan": plan, "title": card["title"], "memory_bytes": card["memory_bytes"], "texts": texts}


def _gpu():
    """Asks CUDA's driver, which creates no context for that."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, title, memory, number = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    driver.cuDeviceGetName(title, len(title), device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)

    def attribute(which):
        driver.cuDeviceGetAttribute(ctypes.byref(number), which, device)
        return number.value

    library = load()
    library.headroom_name_of_gpu.restype = ctypes.c_char_p
    library.headroom_name_of_gpu.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int, ctypes.c_int]
    name = library.headroom_name_of_gpu(title.value, memory.value, 10 * attribute(_MAJOR) + attribute(_MINOR),
                                        attribute(_MULTIPROCESSORS))
    return {"name": name.decode(), "title": title.value.decode()}


def _main(words):
    try:
        print(json.dumps(_plan(*words) if words else _gpu()))
    except HeadroomError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
