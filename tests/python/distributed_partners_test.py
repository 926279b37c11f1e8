# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is recorded of one of two processes, against two real ones on the CPU: the bytes that a step takes, and its
gradients under a plan.

    distributed_partners_test.py PLAN_CHECKER [TEST...]
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import support
from recorded_script import Recorded

support.need("torch")

_SCRIPT = pathlib.Path(__file__).with_name("scripts") / "distributed_partners.py"


class Partners(Recorded):
    checker = None

    def real(self, how, *policy):
        """What the first of two real processes says."""
        store = f"file://{self.folder.name}/store-{len(policy)}"
        both = []
        for rank in "0", "1":
            environment = {**os.environ, "RANK": rank, "STORE": store, "OMP_NUM_THREADS": "1"}
            both.append(subprocess.Popen([sys.executable, _SCRIPT, how, "cpu", *policy], env=environment, text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        ended = [process.communicate(timeout=300) for process in both]
        for process, (_, errors) in zip(both, ended):
            self.assertEqual(process.returncode, 0, errors)
        return json.loads(ended[0][0].strip().splitlines()[-1])

    def check(self, how):
        result = self.run_script(_SCRIPT, "--json", "--nproc-per-node", "2", arguments=[how, "cuda"])
        self.assertEqual(result.returncode, 0, result.stderr)
        plain = self.real(how)
        self.assertEqual(json.loads(result.stdout)["peak_bytes"], plain["peak"])
        policy = f"{self.folder.name}/policy.json"
        _, predicted, *_ = self.checker.ask("plan", self.step, policy, 0.0)
        planned = self.real(how, policy)
        self.assertGreater(planned["calls"], plain["calls"])
        self.assertEqual(planned["peak"], int(predicted))
        self.assertLess(planned["peak"], plain["peak"])
        self.assertEqual(planned["gradients"], plain["gradients"])

    def test_fully_shard(self):
        self.check("fsdp2")

    def test_tensor_parallel(self):
        self.check("tp")


if __name__ == "__main__":
    Partners.checker = support.Checker(sys.argv.pop(1))
    unittest.main()
