"""Time of a decision: one bandit, a batch of requests, a million arms."""

import json
import subprocess
import sys
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from benchmarks.measure import PEAK, Peers, interleaved, ratio, table, us
from torch_softucb import SoftUCBPolicy


def one_bandit() -> Callable[[], float]:
    """Return a job: a decision, a draw and an update of one bandit."""
    g = torch.Generator().manual_seed(0)
    policy, arms = SoftUCBPolicy(10, beta_init=0.75), torch.randn(50, 10, generator=g)
    arms = torch.nn.functional.normalize(arms, dim=-1)
    reward = torch.tensor(0.3)

    @torch.no_grad()
    def step() -> None:
        arm = policy(arms).sample(g)
        policy.update(arms[arm], reward)

    return lambda: us(step, 500)


def requests(n: int, k: int, d: int) -> dict[str, Callable[[], float]]:
    """Return jobs: the decisions of ``n`` requests with ``k`` candidates each, and the matrix products they contain."""
    g = torch.Generator().manual_seed(0)
    arms = torch.nn.functional.normalize(torch.randn(n, k, d, generator=g), dim=-1)
    policy = SoftUCBPolicy(d, beta_init=0.5)
    policy.update(arms[0], torch.randn(k, generator=g))
    matrix, flat = torch.randn(d, d, generator=g), arms.view(-1, d)
    output = torch.empty(n * k, d)
    return {
        "matmul that allocates": lambda: us(lambda: flat @ matrix),
        "matmul into a preallocated output": lambda: us(lambda: torch.mm(flat, matrix, out=output)),
        "policy(arms)": torch.no_grad()(lambda: us(lambda: policy(arms))),
    }


MILLION = """
import json, statistics, time, torch
from torch_softucb import BanditProblem, SoftUCBPolicy
from torch_softucb.simulation.engine import Simulation
torch.set_num_threads(1)
K, d = {arms}, 64
before = peak()
arms, g = torch.empty(K, d), torch.Generator().manual_seed(0)
for block in arms.split(10_000):
    block.copy_(torch.nn.functional.normalize(torch.randn(block.shape, generator=g), dim=-1))
u = torch.randn(d, generator=g)
problem = BanditProblem(arms, arms @ (u / u.norm()))
simulation = Simulation(SoftUCBPolicy(d, beta_init=0.5), problem, generator=g, gradient=True)
one, whole = [], []
for play in simulation.play(3):
    pass
for _ in range({repeats}):
    start = time.perf_counter(); arms @ u; one.append(time.perf_counter() - start)
    start = time.perf_counter()
    for play in simulation.play(1):
        pass
    whole.append(time.perf_counter() - start)
print(json.dumps(dict(pass_ms=statistics.median(one) * 1e3, round_ms=statistics.median(whole) * 1e3,
    ratio=statistics.median(a / b for a, b in zip(whole, one)),
    memory_mb=(peak() - before) / 2**20, allowed_mb=(1.5 * K * d * 4 + 5 * K * 4) / 2**20)))
"""


def run(peers: Peers, repeats: int, *, quick: bool) -> dict[str, Any]:
    """Measure and print all tables; return the numbers."""
    numpy_us = "numpy LinUCB by hand"
    jobs = {"SoftUCB, one decision and one update": one_bandit(), numpy_us: lambda: _as_us(peers("numpy"))}
    times = interleaved(jobs, repeats, "one bandit")
    rows = [[name, median(values), ratio(times, name, numpy_us)] for name, values in times.items()]
    table("One bandit (K = 50, d = 10)", ["what", "us", "ratio to numpy"], rows)
    n, k, d = (64, 50, 16) if quick else (1024, 500, 64)
    many = interleaved(requests(n, k, d), repeats, "many requests")
    bare = list(many)[:2]
    table(
        f"Contextual requests (N = {n}, K = {k}, d = {d})",
        ["what", "ms", f"ratio to {bare[0]}", f"ratio to {bare[1]}"],
        [[name, median(values) / 1e3, *(ratio(many, name, b) for b in bare)] for name, values in many.items()],
    )
    script = PEAK + MILLION.format(arms=10_000 if quick else 1_000_000, repeats=repeats)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    million = json.loads(done.stdout)
    table(
        "One bandit, a million fixed arms (d = 64): one round of a rollout",
        ["ms", "arms @ u, ms", "ratio to arms @ u", "memory, MB", "allowed, MB"],
        [[million[key] for key in ("round_ms", "pass_ms", "ratio", "memory_mb", "allowed_mb")]],
    )
    return {
        "one_bandit_us": {name: median(values) for name, values in times.items()},
        "requests_ms": {name: median(values) / 1e3 for name, values in many.items()},
        "requests_ratio": {b: ratio(many, "policy(arms)", b) for b in bare},
        "million": million,
    }


def _as_us(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e3
