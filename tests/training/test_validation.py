"""Validation: the same problems and noise for all, baselines played once, the last beta last."""

import math
from dataclasses import replace

import pytest
import torch

from torch_softucb import SoftUCBPolicy, synthetic_problem
from torch_softucb.training import Episode, SoftUCBOffline
from torch_softucb.training.tags import BASELINES
from torch_softucb.training.validation import baselines, gather_trajectories, validation_row


def test_baselines_meet_the_same_noise_and_are_played_once(fit, tiny):
    model = SoftUCBOffline(dim=3, horizon=16)
    data = tiny()
    fit(model, data, logger=False)
    first = model.curves["lin_ucb_bound"]
    again = model.evaluate(data.episode("validate", 0, 8))
    assert again["lin_ucb_bound"] is first
    fresh = SoftUCBOffline(dim=3, horizon=16).evaluate(data.episode("validate", 0, 8))
    assert fresh["lin_ucb_bound"].equal(first)
    other = data.episode("test", 0, 8)
    assert not model.evaluate(other)["lin_ucb_bound"].equal(first)


def test_other_problems_with_the_same_seeds_are_played(seeded):
    """A shuffled loader, or a second fit on other data, returns other problems under the same batch number."""
    model = SoftUCBOffline(dim=3, horizon=16)
    one, other = (synthetic_problem(num_problems=8, num_arms=4, dim=3, generator=seeded(seed)) for seed in (0, 1))
    curves = model.evaluate(Episode(one, 1, 2))["lin_ts"]
    noisier = replace(one, noise_std=2.0)
    for problem in (other, noisier, one[:4]):
        fresh = SoftUCBOffline(dim=3, horizon=16).evaluate(Episode(problem, 1, 2))["lin_ts"]
        assert model.evaluate(Episode(problem, 1, 2))["lin_ts"].equal(fresh)
    assert model.evaluate(Episode(one, 1, 2))["lin_ts"].equal(curves)


def test_the_last_validation_is_about_the_last_beta(fit, tiny):
    model = SoftUCBOffline(dim=3, horizon=16)
    fit(model, tiny(num_steps=5), logger=False, val_check_interval=2)
    assert model._validated == 5
    want = SoftUCBOffline(dim=3, horizon=16, beta_init=model.mean_beta).evaluate(tiny().episode("validate", 0, 8))
    assert model.curves["soft_ucb"].equal(want["soft_ucb"])


def test_baselines_are_those_of_the_tags_at_the_settings_asked_for():
    policy = SoftUCBPolicy(4, ridge_alpha=0.5, dtype=torch.double)
    made = baselines(policy, beta=0.3, theory={"subgaussian_r": 0.5, "fail_prob": 0.1, "horizon": 50})
    assert list(made) == list(BASELINES)
    assert {p.ridge_alpha for p in made.values()} == {0.5}
    assert {p.dtype for p in made.values()} == {torch.double}
    assert made["lin_ucb_same_beta"].fixed_beta == 0.3


def test_a_row_has_final_means_and_the_95_percent_band(seeded):
    curves = {name: torch.rand(5, 16, generator=seeded(i)).cumsum(0) for i, name in enumerate(("soft_ucb", "lin_ts"))}
    row = validation_row(curves)
    last = curves["soft_ucb"][-1].double()
    half = 1.96 * float(last.std(correction=0)) / math.sqrt(16)
    assert row["validation/lin_ts"] == pytest.approx(float(curves["lin_ts"][-1].mean()))
    assert row["validation/soft_ucb_low"] == pytest.approx(float(last.mean()) - half, rel=1e-6)
    assert row["validation/soft_ucb_high"] == pytest.approx(float(last.mean()) + half, rel=1e-6)


def test_shares_of_processes_are_put_side_by_side():
    curves = {"soft_ucb": torch.arange(6.0).view(3, 2)}
    both = gather_trajectories(curves, lambda curve: torch.stack((curve, curve + 10)))
    assert both["soft_ucb"].tolist() == [[0, 1, 10, 11], [2, 3, 12, 13], [4, 5, 14, 15]]
