"""R21: a million decisions in one process."""

import gc
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from experiments.trust.goal import Result, Size, goal
from torch_softucb import SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import DecisionLog


def _resident() -> int:
    """Resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _soak(step: Callable[[int], None], count: int) -> tuple[float, float, float]:
    """Run a step many times: growth of memory in MB, median latency in us, ratio of the 99th percentile to the median."""
    for i in range(min(count // 10, 2_000)):
        step(i)
    times = np.ones(count)
    gc.collect()
    before = _resident()
    for i in range(count):
        start = time.perf_counter()
        step(i)
        times[i] = time.perf_counter() - start
    gc.collect()
    grown = (_resident() - before) / 1e6
    median, p99 = np.percentile(times, [50, 99])
    return grown, 1e6 * float(median), float(p99 / median)


@goal(
    "R21",
    claim="""1,000,000 decisions with updates in one process: memory grows by at most 5 MB, the 99th percentile of the
    time per decision is at most 5 times the median, and there is no warning.""",
    method="""A policy (16 features, 20 arms) decides, draws and learns in a loop; then a head with a decision log
    serves, logs and learns from 100,000 requests. Resident memory is read before and after; warnings count as
    failures.""",
    alone=True,
    minutes=12,
)
def soak(size: Size) -> Result:
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    generator = torch.Generator().manual_seed(size.seed)
    policy = SoftUCBPolicy(16, beta_init=0.5)
    arms = torch.nn.functional.normalize(torch.randn(20, 16, generator=generator), dim=-1)
    rewards = torch.randn(1000, generator=generator).unbind()

    def decide(i: int) -> None:
        arm = policy(arms).sample(generator)
        policy.update(arms[arm], rewards[i % 1000])

    alone = _soak(decide, size.of(1_000_000, 20_000))
    error = float(policy.cache_error())
    with tempfile.TemporaryDirectory() as folder:
        head = SoftUCBHead(nn.Embedding(100, 16), SoftUCBPolicy(16))
        with DecisionLog(folder) as log:
            items = torch.randint(100, (1, 20), generator=generator)

            def serve(i: int) -> None:
                served = head.serve(head(items))
                log.decisions(served)
                reward = rewards[i % 1000].view(1)
                head.feedback(served.id, reward)
                log.rewards(served.id, reward)

            served = _soak(serve, size.of(100_000, 3_000))
    counts = (size.of(1_000_000, 20_000), size.of(100_000, 3_000))
    met = all(grown <= 5 and (ratio <= 5 or size.quick) for grown, _, ratio in (alone, served)) and error < 1e-8
    text = [
        f"{name} {count:,}: {grown:+.1f} MB, median {median:.0f} us, p99/median {ratio:.1f}"
        for name, count, (grown, median, ratio) in zip(("policy", "head and log"), counts, (alone, served), strict=True)
    ]
    return Result(met, f"{'; '.join(text)}; cache error {error:.0e}; 0 warnings{size.of('', '; time not judged')}")
