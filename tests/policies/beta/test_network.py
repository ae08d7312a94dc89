"""Beta as a network over the situation, and the network of the package."""

import math

import pytest
import torch

from tests.policies.beta.modules import bent
from torch_softucb import SituationBeta, SoftUCBPolicy, rollout, synthetic_problem
from torch_softucb.checked_files import load_tensors, save_tensors
from torch_softucb.policies.beta.network import PRETRAINED
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


def test_inputs_are_scaled_by_fixed_numbers():
    module = SituationBeta(horizon=100, inputs=("num_observations", "log_noise", "log_dim"))
    scaled = module.scaled(torch.tensor([[25.0, -1.0, 2.3], [300.0, 1.0, 3.0]], dtype=torch.double))
    log_horizon = (math.log(100) - 7) / 2
    want = [  # 2 t / T - 1, at most 1; log(1 + t) / 3 - 1; (log T - 7) / 2; noise and dim by their centre and scale
        [-0.5, math.log(26) / 3 - 1, log_horizon, 0.0, 0.0],
        [1.0, math.log(301) / 3 - 1, log_horizon, 2.0, 1.0],
    ]
    torch.testing.assert_close(scaled, torch.tensor(want, dtype=torch.double))
    module.inputs = ("log_arms", "log_det", "log_width_low", "log_width_mid")
    centres = torch.tensor([4.0, 2.5, -2.5, -1.2])
    assert module.scaled(centres).abs().max() < 1e-6


def test_log_beta_is_linear_plus_one_hidden_layer(seeded):
    module = bent(SituationBeta(horizon=60, init=0.7), seeded).double()
    assert module.hidden.out_features == 16
    assert module.correction.bias is None
    situation = torch.rand(9, len(module.inputs), generator=seeded(0), dtype=torch.double)
    z = module.scaled(situation)
    hidden = torch.tanh(z @ module.hidden.weight.T + module.hidden.bias)
    log_ratio = z @ module.linear.weight[0] + module.linear.bias + hidden @ module.correction.weight[0]
    torch.testing.assert_close(module(situation), 0.7 * log_ratio.exp())


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
    with pytest.raises(ValueError, match="init must be"):
        SituationBeta(horizon=10, init=0.0)
    with pytest.raises(ValueError, match="inputs must be one of"):
        SituationBeta(horizon=10, inputs=("weather",))
    for names in ((), ("num_observations", "num_observations")):
        with pytest.raises(ValueError, match="inputs must be at least one name, each of them once"):
            SituationBeta(horizon=10, inputs=names)


def _file(path, tensors=None, **metadata):
    given, about = load_tensors(PRETRAINED)
    save_tensors(path, {**given, **(tensors or {})}, {**about, **metadata})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"module": "null"}, "is not a file of SituationBeta.save"),
        ({"module": '{"init": 0.5, "hidden": 1000000000, "inputs": ["log_noise"]}'}, "is not a file of SituationBeta.save"),
        ({"module": '{"init": -1, "inputs": ["log_noise"]}'}, "init must be"),
        ({"module": '{"init": 0.5, "inputs": ["log_noise"]}'}, "hidden.weight must be"),
        ({"module": "{"}, "Expecting"),
        ({"tensors": {"hidden.bias": torch.full((16,), float("nan"))}}, "hidden.bias must be finite"),
        ({"tensors": {"hidden.bias": torch.ones(16, dtype=torch.int64)}}, "hidden.bias must be torch.float32"),
        ({"tensors": {"hidden.weight": torch.ones(3)}}, "hidden.weight is missing or has the wrong shape"),
        ({"tensors": {"hook": torch.ones(3)}}, "with \\['hook'\\]"),
    ],
)
def test_a_wrong_network_file_is_refused_by_name(change, match, tmp_path):
    _file(tmp_path / "wrong", **change)
    with pytest.raises(ValueError, match=f"network file .*wrong: .*{match}"):
        SituationBeta.load(tmp_path / "wrong", horizon=9)


def test_the_packaged_network_is_whole_and_loading_it_draws_no_random_numbers():
    state = torch.get_rng_state()
    assert SituationBeta.pretrained(horizon=9).horizon == 9
    assert torch.get_rng_state().equal(state)
