"""Time that the recommender's head adds to a request: decision, log entry and feedback."""

import itertools
import tempfile
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import nn

from benchmarks.measure import interleaved, ratio, table, us
from torch_softucb import SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import DecisionLog


def forward(n: int, k: int, d: int) -> dict[str, Callable[[], float]]:
    """Return jobs: the decisions of ``n`` requests with ``k`` candidates each, and the matrix product they contain."""
    g = torch.Generator().manual_seed(0)
    features = nn.functional.normalize(torch.randn(n, k, d, generator=g), dim=-1)
    head = SoftUCBHead(nn.Identity(), SoftUCBPolicy(d, beta_init=0.5))
    head.policy.update(features[0], torch.randn(k, generator=g))
    matrix, flat, output = torch.randn(d, d, generator=g), features.view(-1, d), torch.empty(n * k, d)
    return {
        "matmul": lambda: us(lambda: torch.mm(flat, matrix, out=output)),
        "head(features)": torch.no_grad()(lambda: us(lambda: head(features))),
    }


def logging(folder: str, group: int) -> dict[str, Callable[[], float]]:
    """Return jobs that measure the time per durable decision in us: one decision per call, and ``group`` per call."""
    jobs: dict[str, Callable[[], float]] = {}
    for name, n in (("one decision per call", 1), (f"{group} decisions per call", group)):
        head = SoftUCBHead(nn.Identity(), SoftUCBPolicy(10))
        served = head.serve(head(torch.randn(n, 50, 10)))
        candidates = torch.arange(50).expand(n, 50)
        log = DecisionLog(f"{folder}/{n}", group=group)

        ids = itertools.count()

        def job(
            log: DecisionLog = log, served: Any = served, candidates: Any = candidates, n: int = n, ids: Any = ids
        ) -> float:
            def calls() -> None:
                for _ in range(20 * group // n):
                    log.decisions(served._replace(id=served.id + n * next(ids)), candidates=candidates)  # each id once
                log.commit()

            return us(calls) / (20 * group)

        jobs[name] = job
    return jobs


def users(count: int, batch: int) -> dict[str, Callable[[], float]]:
    """Return a job: the feedback of ``batch`` decisions for some of ``count`` users."""
    policy = SoftUCBPolicy(16)
    policy.reset(batch_shape=(count,))
    head = SoftUCBHead(nn.Identity(), policy)
    g = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def feedback() -> float:
        who = torch.randint(count, (batch,), generator=g)
        served = head.serve(head(torch.randn(batch, 20, 16, generator=g), bandit=who))
        return us(lambda: head.feedback(served.id, torch.ones(batch)))

    return {"feedback": feedback}


def run(repeats: int, *, quick: bool) -> dict[str, Any]:
    """Measure and print all tables; return the numbers."""
    n, k, d = (64, 50, 16) if quick else (1024, 500, 64)
    many = interleaved(forward(n, k, d), repeats, "head")
    relative = ratio(many, "head(features)", "matmul")
    rows = [[name, median(values) / 1e3, ratio(many, name, "matmul")] for name, values in many.items()]
    table(f"Head (N = {n}, K = {k}, d = {d})", ["what", "ms", "ratio to the matmul"], rows)
    with tempfile.TemporaryDirectory() as folder:
        logged = interleaved(logging(folder, 32), 3 * repeats, "log")
    title = "Decision log, commit every 32 decisions (K = 50 candidate ids, d = 10)"
    table(title, ["what", "us per decision"], [[name, median(values)] for name, values in logged.items()])
    count, batch = (1000, 64) if quick else (100_000, 1024)
    fed = interleaved(users(count, batch), repeats, "feedback")
    milliseconds = median(fed["feedback"]) / 1e3
    table(f"Feedback of {batch:,} decisions for {count:,} users (d = 16)", ["ms"], [[milliseconds]])
    return {
        "head_ratio": relative,
        "log_us": {name: median(values) for name, values in logged.items()},
        "feedback_ms": milliseconds,
    }
