"""The study of target coverages, at a size that takes seconds."""

import math

import pytest
import torch

from experiments import coverage
from experiments.coverage import beta_of, coverage_claim, simulate_beta, synthetic_case
from experiments.sizes import CoverageSize
from experiments.statistics import ratio

TINY = synthetic_case(3, 0.5, 8, 40)


def test_every_target_of_every_setting_has_a_row(monkeypatch):
    monkeypatch.setattr(coverage, "BETAS", [0.1, 0.5, 2.5])
    monkeypatch.setattr(coverage, "TARGETS", [0.8, 0.9999999])
    cases = [TINY, synthetic_case(3, 1.0, 8, 40)]
    rows = coverage_claim(cases, CoverageSize(tune=16, test=24), lambda jobs, _: jobs)
    assert [(row["noise"], row["target"]) for row in rows] == [(0.5, 0.8), (0.5, 0.9999999), (1.0, 0.8), (1.0, 0.9999999)]
    first = rows[0]
    swept = [simulate_beta(TINY, "tune", 16, beta) for beta in coverage.BETAS]
    best = min(zip(coverage.BETAS, swept, strict=True), key=lambda pair: float(pair[1].regret.mean()))[0]
    assert first["best_beta"] == best
    assert first["beta"] == beta_of(0.8, coverage.BETAS, [played.coverage for played in swept])
    ours, mark = (simulate_beta(TINY, "test", 24, beta).regret for beta in (first["beta"], best))
    share, low, high = ratio(ours, mark)
    assert (first["ratio"], first["error"]) == pytest.approx((share, (high - low) / 2 / 1.96))
    out_of_reach = [row for row in rows if math.isnan(row["beta"])]
    assert out_of_reach
    assert all(math.isnan(row["ratio"]) for row in out_of_reach)


def test_a_wider_beta_covers_more_and_splits_differ():
    played = [simulate_beta(TINY, "test", 32, beta).coverage for beta in (0.1, 0.5, 2.5)]
    assert played == sorted(played)
    assert not torch.equal(simulate_beta(TINY, "tune", 8, 0.5).regret, simulate_beta(TINY, "test", 8, 0.5).regret)
