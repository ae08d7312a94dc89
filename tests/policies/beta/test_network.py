"""Beta as a network over the situation, and the network of the package."""

import pytest
import torch

from tests.policies.beta.modules import bent
from torch_softucb import SituationBeta, SoftUCBPolicy, rollout, synthetic_problem
from torch_softucb.policies.beta.situation import SITUATION


def test_the_pretrained_network_comes_with_the_package():
    policy = SoftUCBPolicy.pretrained(10, horizon=500)
    assert policy.beta_module.horizon == 500
    assert policy.delta > 0.99  # learned with it
    assert set(policy.beta_module.inputs) <= set(SITUATION)
    problem = synthetic_problem(num_problems=64, dim=10, generator=torch.Generator().manual_seed(0))
    kind = {"horizon": 300, "generator": torch.Generator().manual_seed(1)}
    learned = rollout(policy, problem, **kind).regret.sum(0).mean()
    kind["generator"] = torch.Generator().manual_seed(1)
    guessed = rollout(SoftUCBPolicy(10, beta_init=3.25), problem, **kind).regret.sum(0).mean()  # Eq. 5's
    assert learned < 0.5 * guessed


def test_before_training_it_is_a_constant(seeded):
    module = SituationBeta(horizon=60, init=0.7)
    situation = torch.randn(9, len(module.inputs), generator=seeded(0)).abs()
    torch.testing.assert_close(module(situation).detach(), torch.full((9,), 0.7))
    assert module.typical == 0.7


def test_beta_stays_within_bounds(seeded):
    module = SituationBeta(horizon=60, init=0.7)
    with torch.no_grad():
        module.linear.bias.fill_(50.0)
    beta = module(torch.zeros(len(module.inputs)))
    assert beta.item() == pytest.approx(0.7 * 2.718281828**5, rel=1e-5)


def test_a_saved_network_is_the_same_for_another_horizon(tmp_path, seeded):
    module = bent(SituationBeta(horizon=60, init=0.7, hidden=3, inputs=("num_observations", "log_noise")), seeded)
    module.save(tmp_path / "network", trained_on="nothing")
    again, about = SituationBeta.load(tmp_path / "network", horizon=60)
    assert about == {"trained_on": "nothing"}
    situation = torch.rand(9, 2, generator=seeded(0)).abs()
    assert again(situation).equal(module(situation))
    longer, _ = SituationBeta.load(tmp_path / "network", horizon=600)
    assert longer(situation).equal(module.for_horizon(600)(situation))


def test_wrong_inputs_are_refused():
    with pytest.raises(ValueError, match="inputs must be one of"):
        SituationBeta(horizon=10, inputs=("weather",))
    for names in ((), ("num_observations", "num_observations")):
        with pytest.raises(ValueError, match="inputs must be at least one name, each of them once"):
            SituationBeta(horizon=10, inputs=names)
