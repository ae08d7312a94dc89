"""What both trainers share: optimisers, warnings, the policy they validate."""

import pytest
import torch

from torch_softucb import synthetic_problem
from torch_softucb.training import BetaWarning, Episode, SoftUCBOffline, SoftUCBOnline


def test_any_optimiser_and_scheduler(tiny, fit):
    model = SoftUCBOffline(
        dim=3,
        horizon=16,
        optimizer=lambda p: torch.optim.Adam(p, lr=0.1),
        scheduler=lambda o: torch.optim.lr_scheduler.ExponentialLR(o, gamma=0.5),
    )
    trainer = fit(model, tiny(), logger=False)
    (optimizer,) = trainer.optimizers
    assert isinstance(optimizer, torch.optim.Adam)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.5**6)
    assert model.mean_beta != 1.0


def test_a_beta_that_runs_away_is_reported(tiny, fit):
    model = SoftUCBOffline(dim=3, horizon=16, eta=5.0, lr=5.0)
    with pytest.warns(BetaWarning, match=r"above its Eq. 5 bound .* Lower eta \(now 5\) or lr"):
        fit(model, tiny(), logger=False)
    assert model.mean_beta > model.beta_bound


def test_validation_forgets_as_training_does():
    model = SoftUCBOffline(dim=3, horizon=12)
    problem = synthetic_problem(
        num_problems=16, num_arms=4, dim=3, drift_rate=0.2, generator=torch.Generator().manual_seed(0)
    )
    episode = Episode(problem, 1, 2, discount=0.8)
    own = episode.play(model.frozen_policy(), horizon=12).cumulative_regret
    assert torch.equal(model.evaluate(episode)["soft_ucb"], own)


def test_a_frozen_policy_has_the_settings_of_the_one_that_learns():
    model = SoftUCBOnline(num_trajectories=4, dim=3, horizon=9, delta=0.9, ridge_alpha=0.5, coldness="lagged")
    with torch.no_grad():
        model.policy.raw_beta.copy_(torch.tensor([0.1, 0.2, 0.3, 0.4]))
    frozen = model.frozen_policy()
    assert float(frozen.beta.detach()) == pytest.approx(0.25)
    assert frozen.settings == model.policy.settings


def test_the_x_axis_is_each_trainers_own():
    assert SoftUCBOffline(dim=3, horizon=9).axis_value == 0
    assert SoftUCBOnline(num_trajectories=4, dim=3, horizon=9).axis_value == 0
