"""Time of a round whose candidates change, compared with fixed arms of the same size; float32, one thread."""

import subprocess
import sys
from statistics import median
from typing import Any

import torch

from benchmarks.measure import PEAK, interleaved, ratio, table
from benchmarks.rollout import rollout_ns
from torch_softucb import SoftUCBPolicy, contextual_problem, synthetic_problem

K, D, ITEMS, BATCH = 50, 14, 400, 1024

MEMORY = """
import torch
from torch_softucb import SoftUCBPolicy, contextual_problem, rollout
torch.set_num_threads(1)
def play(batch):
    items = torch.randn({items}, {d})
    world = contextual_problem(items, theta=torch.randn(batch, {d}), candidates={k})
    rollout(SoftUCBPolicy({d}), world, horizon=16, compile="native")
play(8)
before = peak()
play({batch})
print((peak() - before) / 2**20)
"""


def run(repeats: int, *, quick: bool) -> dict[str, Any]:
    """Measure and print the table; return the numbers."""
    batch = 64 if quick else BATCH
    g = torch.Generator().manual_seed(0)
    fixed = synthetic_problem(num_problems=batch, num_arms=K, dim=D, generator=g)
    items = torch.nn.functional.normalize(torch.randn(ITEMS, D, generator=g), dim=-1)
    theta = torch.nn.functional.normalize(torch.randn(batch, D, generator=g), dim=-1)
    world = contextual_problem(items, theta=theta, candidates=K)
    policy = SoftUCBPolicy(D, beta_init=0.75)
    jobs = {
        "fixed arms, native": lambda: rollout_ns(policy, fixed, gradient=False, compile="native"),
        "changing candidates, native": lambda: rollout_ns(policy, world, gradient=False, compile="native"),
        "changing candidates, eager": lambda: rollout_ns(policy, world, gradient=False, compile=False, rounds=16),
    }
    times = interleaved(jobs, repeats, "changing candidates")
    names = ("fixed arms, native", "changing candidates, eager")
    rows = [[name, median(values), *(ratio(times, name, other) for other in names)] for name, values in times.items()]
    title = f"A trajectory-round of {K} candidates out of {ITEMS} (d = {D}, B = {batch}, float32, one thread)"
    table(title, ["what", "ns", "ratio to fixed arms", "ratio to eager"], rows)
    code = PEAK + MEMORY.format(items=ITEMS, d=D, k=K, batch=batch)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    memory = float(found.stdout)
    numbers = batch * (D * D + K) * 8 / 2**20
    print(f"Peak memory of 16 rounds: {memory:.1f} MB; B (d^2 + K) float64 numbers take {numbers:.1f} MB")
    return {
        "rounds": [dict(zip(("what", "ns", "to_fixed", "to_eager"), row, strict=True)) for row in rows],
        "memory_mb": memory,
    }
