"""Beta as a module: the same numbers in all backends, learnable, compiled and exported."""

import pytest
import torch

from tests.policies.beta.modules import MODULES, D, needs_compiler, problem_of
from torch_softucb import ScheduleBeta, SegmentBeta, SituationBeta, SoftUCBPolicy, rollout
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.finite_difference import common_random_numbers
from torch_softucb.learning.estimators.paper import paper
from torch_softucb.learning.estimators.score_function import trajectory


@needs_compiler
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("drift_rate", [0.0, 0.01])
@pytest.mark.parametrize("discount", [1.0, 0.97])
@pytest.mark.parametrize("masked", [False, True])
def test_the_native_kernel_plays_modules_drift_and_forgetting_like_eager(name, drift_rate, discount, masked, seeded):
    if masked and drift_rate:
        pytest.skip("masks and drift are tested apart")
    problem = problem_of(seeded, masked=masked, drift_rate=drift_rate)
    policy = SoftUCBPolicy(4, beta_init=MODULES[name](seeded), coldness="smooth", learn_delta=True, dtype=D)
    kind = {"horizon": 40, "scores": True, "gradient": True, "discount": discount}
    eager, native = (rollout(policy, problem, generator=seeded(3), compile=way, **kind) for way in (False, "native"))
    torch.testing.assert_close(native.regret, eager.regret, atol=1e-10, rtol=0)
    torch.testing.assert_close(native.situation, eager.situation, atol=1e-10, rtol=0)
    torch.testing.assert_close(native.gradient, eager.gradient, atol=1e-10, rtol=0)
    for score in eager.scores:
        torch.testing.assert_close(native.scores[score], eager.scores[score], atol=1e-9, rtol=1e-9)


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("name", MODULES)
def test_modules_compile_without_a_break(name, seeded):
    policy = SoftUCBPolicy(4, beta_init=MODULES[name](seeded), coldness="smooth", dtype=D)
    for discount in (1.0, 0.97):
        kind = {"horizon": 20, "discount": discount, "generator": seeded(3)}
        eager = rollout(policy, problem_of(seeded, drift_rate=0.01), **kind)
        kind["generator"] = seeded(3)
        fast = rollout(policy, problem_of(seeded, drift_rate=0.01), compile=True, **kind)
        torch.testing.assert_close(fast.regret, eager.regret, atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", ["schedule", "situation"])
def test_modules_can_be_exported(name, seeded):
    policy = SoftUCBPolicy(4, beta_init=MODULES[name](seeded), coldness="smooth", dtype=D)
    arms = torch.randn(5, 9, 4, dtype=D, generator=seeded(0))
    policy.update(arms[:, 0], arms[:, 0, 0])

    class Probabilities(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.policy = policy

        def forward(self, arms):
            return self.policy(arms).probs

    with torch.no_grad():
        program = torch.export.export(Probabilities(), (arms,))
        torch.testing.assert_close(program.module()(arms), policy(arms).probs, atol=1e-12, rtol=0)


def test_a_plain_number_costs_no_statistics():
    assert SoftUCBPolicy(4).statistics.shape == SoftUCBPolicy(4, beta_init=ScheduleBeta(10)).statistics.shape
    assert len(SoftUCBPolicy(4, beta_init=SituationBeta(horizon=9)).statistics) == len(SoftUCBPolicy(4).statistics) + 2


def _mean_reward(policy, episode):
    return float(-episode.play(policy, horizon=20).regret.mean())


@pytest.mark.parametrize("name", MODULES)
def test_the_gradient_is_the_slopes_times_what_the_module_says(name, seeded):
    """Chain rule, literally: sum over rounds and trajectories of slope times dbeta / dparameter."""
    module = MODULES[name](seeded)
    policy = SoftUCBPolicy(4, beta_init=module, coldness="smooth", learn_delta=True, dtype=D)
    episode = Episode(problem_of(seeded, count=20), 5, 6)
    signal = trajectory(policy, episode, horizon=20, eta=0.0, record=())
    signal.loss.backward()
    assert policy.raw_delta.grad.abs() > 0
    from torch_softucb.learning.estimators.score_function import slopes

    slope = slopes(signal.trajectory)
    for parameter in policy.beta_module.parameters():
        if parameter.grad.abs().max() == 0:
            continue
        at = int(parameter.grad.abs().argmax())
        literal = 0.0
        beta = policy.beta_along(signal.trajectory.situation, signal.trajectory.regret.dim()).expand(20, 20)
        for t in range(0, 20, 1):
            for i in range(0, 20, 1):
                (rise,) = torch.autograd.grad(beta[t, i], parameter, retain_graph=True, allow_unused=True)
                literal += float(slope[t, i] * rise.view(-1)[at]) / 400
        assert float(parameter.grad.view(-1)[at]) == pytest.approx(-literal, rel=1e-8)
    assert _mean_reward(policy, episode) == pytest.approx(-float(signal.loss.detach()), abs=1e-12)


@pytest.mark.parametrize("name", ["schedule", "segment"])
def test_paper_and_differences_reach_the_same_parameters(name, seeded):
    for estimator in (paper, common_random_numbers):
        policy = SoftUCBPolicy(4, beta_init=MODULES[name](seeded), coldness="smooth", dtype=D)
        episode = Episode(problem_of(seeded), 5, 6)
        estimator(policy, episode, horizon=10, eta=0.01, record=()).loss.backward()
        assert all(parameter.grad.isfinite().all() for parameter in policy.parameters())
        assert any(parameter.grad.abs().max() > 0 for parameter in policy.parameters())


def test_state_goes_through_a_checkpoint(seeded):
    policy = SoftUCBPolicy(4, beta_init=MODULES["situation"](seeded), learn_delta=True)
    policy.update(torch.randn(6, 4, generator=seeded(0)), torch.randn(6, generator=seeded(1)))
    other = SoftUCBPolicy(4, beta_init=SituationBeta(horizon=60, init=0.7), learn_delta=True)
    other.load_state_dict(policy.state_dict())
    arms = torch.randn(9, 4, generator=seeded(2))
    assert torch.equal(policy(arms).probs, other(arms).probs)


def test_for_horizon_shares_parameters_and_leaves_the_original_alone(seeded):
    module = MODULES["situation"](seeded)
    longer = module.for_horizon(600)
    assert (module.horizon, longer.horizon) == (60, 600)
    assert all(one is other for one, other in zip(module.parameters(), longer.parameters(), strict=True))
    situation = torch.randn(5, len(module.inputs), generator=seeded(0)).abs()
    assert not torch.equal(module(situation), longer(situation))
    with pytest.raises(ValueError, match="ScheduleBeta: horizon must be at least 1, got 0"):
        ScheduleBeta(10).for_horizon(0)
    segments = SegmentBeta(torch.tensor([0, 1]))
    assert segments.for_horizon(600) is segments  # knows no horizon


def test_the_default_contract():
    module = SegmentBeta(torch.tensor([0]))
    assert (module.inputs, module.needs_sums, module.needs_estimate, module.log_parameters) == ((), False, False, [])
    schedule = ScheduleBeta(10)
    assert (schedule.needs_sums, schedule.needs_estimate, schedule.positive_parameters) == (False, False, [])
    network = SituationBeta(horizon=10)
    assert (network.needs_sums, network.needs_estimate) == (True, True)
    network.project_()  # nothing to clamp


def test_wrong_uses_are_refused(seeded):
    with pytest.raises(ValueError, match="beta must be a number, or one number per bandit, got ScheduleBeta"):
        _ = SoftUCBPolicy(4, beta_init=ScheduleBeta(10)).beta
    for wrong, named in ((torch.nn.Linear(2, 1), "Linear"), (ScheduleBeta, "the class ScheduleBeta")):
        with pytest.raises(TypeError, match=f"must be a number, a tensor or a BetaModule instance, got {named}"):
            SoftUCBPolicy(4, beta_init=wrong)
    episode = Episode(problem_of(seeded), 5, 6)
    with pytest.raises(ValueError, match="delta must be fixed"):
        paper(SoftUCBPolicy(4, learn_delta=True, dtype=D), episode, horizon=5, eta=0.0, record=())
    policy = SoftUCBPolicy(4, beta_init=SituationBeta(horizon=10), dtype=D)
    with pytest.raises(ValueError, match="at most 64 numbers can be learned by two rollouts each"):
        common_random_numbers(policy, episode, horizon=5, eta=0.0, record=())
