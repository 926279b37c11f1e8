# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes forward_backward.json: inputs for each NAME.pt2 here and the CRC-32 of its parameters, from the NAME.npz that
holds them. What the model computes with them, run_eager.py says on each machine.

    python make_reference.py toy.npz mlp_gelu.npz …
"""
import base64
import json
import pathlib
import sys
import zlib

import numpy


def digest(array):
    return {"shape": list(array.shape), "crc32": zlib.crc32(numpy.ascontiguousarray(array).tobytes())}


def whole(array):
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "bytes": base64.b64encode(numpy.ascontiguousarray(array).tobytes()).decode(),
    }


def reference(path):
    arrays = numpy.load(path)
    names = sorted(arrays.files)
    return {
        "inputs": [whole(arrays[name]) for name in names if name.startswith("input")],
        "parameters": {name[6:]: digest(arrays[name]) for name in names if name.startswith("param:")},
    }


here = pathlib.Path(__file__).parent
document = {pathlib.Path(path).stem: reference(path) for path in sys.argv[1:]}
(here / "forward_backward.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
