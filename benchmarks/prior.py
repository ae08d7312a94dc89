"""Time and memory of fitting a prior to many users, and what it recovers of the truth."""

import json
import subprocess
import sys
from typing import Any

from benchmarks.measure import PEAK, table

USERS, OBSERVATIONS, D = 100_000, 20, 16

CODE = """
import json, time, torch
from torch_softucb.functional import RegressionSums, evidence_prior
from torch_softucb.from_logs.sums import user_sums
torch.set_num_threads(1)
g = torch.Generator().manual_seed(0)
root = torch.randn({d}, {d}, generator=g, dtype=torch.float64) / {d} ** 0.5
mean = torch.randn({d}, generator=g, dtype=torch.float64)
theta = mean + torch.randn({users}, {d}, generator=g, dtype=torch.float64) @ root.T
parts = []
for block in theta.split(10_000):
    x = torch.randn(len(block) * {observations}, {d}, generator=g, dtype=torch.float64)
    user = torch.arange(len(block)).repeat_interleave({observations})
    y = 3 + (x * block[user]).sum(-1) + torch.randn(len(x), generator=g, dtype=torch.float64)
    parts.append(user_sums(x, y, user, num_users=len(block)))
sums = RegressionSums(*(torch.cat(columns) for columns in zip(*parts)))
del parts, theta, x, y, user, block
start = time.perf_counter()
found = evidence_prior(sums)
seconds, want = time.perf_counter() - start, root @ root.T
print(json.dumps({{
    "seconds": seconds,
    "peak_mb": peak() / 2**20,
    "iterations": found.num_iterations,
    "covariance_error": float((found.covariance - want).norm() / want.norm()),
    "mean_error": float((found.mean - mean).norm() / mean.norm()),
}}))
"""


def run(*, quick: bool) -> dict[str, Any]:
    """Measure and print the table; return the numbers."""
    users = USERS // 100 if quick else USERS
    code = PEAK + CODE.format(users=users, observations=OBSERVATIONS, d=D)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(found.stdout)
    title = f"A prior of {users:,} users with {OBSERVATIONS} observations each (d = {D}, float64, one thread)"
    errors = [f"{result[name]:.3f}" for name in ("mean_error", "covariance_error")]
    header = ["what", "seconds", "peak MB", "iterations", "relative error of m", "of Sigma"]
    table(title, header, [["evidence_prior", *(result[name] for name in ("seconds", "peak_mb", "iterations")), *errors]])
    return result
