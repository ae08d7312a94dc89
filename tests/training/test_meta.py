"""Learning over a family of problems: the data module, and a beta module trained on all sizes."""

import lightning as L
import pytest
import torch

from torch_softucb import AutoSoftUCB, ScheduleBeta, SituationBeta, SummaryBeta
from torch_softucb.simulation.backends.compiled import find_compiler
from torch_softucb.training import Family, FamilyDataModule, SoftUCBMeta

SMALL = Family(num_arms=(4, 8), dim=(2, 5), horizon=(10, 30), noise_std=(0.1, 1.0), drifting=0.5)


def test_every_problem_has_its_own_noise_and_stages_share_nothing():
    data = FamilyDataModule(family=SMALL, num_steps=4)
    train, again = (data.episode("train", 1, 16) for _ in range(2))
    assert torch.equal(train.problem.means, again.problem.means)
    noise = train.problem.noise_std
    assert len(noise.unique()) == 16
    assert 0.1 <= noise.min() <= noise.max() <= 1.0
    held_out = data.episode("validate", 1, 16)
    assert held_out.noise_seed != train.noise_seed
    assert held_out.problem.means.shape != train.problem.means.shape or not torch.equal(
        held_out.problem.means, train.problem.means
    )


@pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
def test_a_module_learns_over_all_sizes(tmp_path):
    torch.manual_seed(0)
    module = SituationBeta(horizon=30, init=2.0)
    model = SoftUCBMeta(beta=module, lr=0.05, compile="native")
    data = FamilyDataModule(family=SMALL, trajectories=64, num_steps=12, eval_members=2, eval_trajectories=8)
    trainer = L.Trainer(
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, default_root_dir=tmp_path
    )
    trainer.fit(model, datamodule=data)
    assert trainer.callback_metrics["family/validation_ratio"] > 0
    policy = model.policy(4, 30)
    with torch.no_grad():
        beta = policy(torch.eye(4)).beta
    assert 0 < beta < 2.0  # 2 is far too wide for 30 rounds: it has come down
    assert policy.beta_module.horizon == 30
    assert policy.beta_module.linear.weight is module.linear.weight


def test_for_horizon_shares_parameters():
    schedule = ScheduleBeta(100, init=torch.tensor([1.0, 0.5]))
    longer = schedule.for_horizon(200)
    assert longer(torch.tensor([[100.0]])).item() == pytest.approx(0.75)
    assert schedule(torch.tensor([[100.0]])).item() == pytest.approx(0.5)
    assert longer.log_beta is schedule.log_beta


@pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
def test_a_beta_in_units_of_the_noise_learns(tmp_path):
    torch.manual_seed(0)
    module = SummaryBeta(horizon=30, init=20.0)
    model = SoftUCBMeta(beta=module, lr=0.1, delta=0.99, estimate_scales=True, compile="native")
    data = FamilyDataModule(family=SMALL, trajectories=256, num_steps=12, eval_members=2, eval_trajectories=8)
    trainer = L.Trainer(
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, default_root_dir=tmp_path
    )
    trainer.fit(model, datamodule=data)
    assert isinstance(model.policy(4, 30), AutoSoftUCB)
    assert module.linear.bias.item() < -0.1  # 20 sigma is far too wide: it has come down
