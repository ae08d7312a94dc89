"""TrajectoryReward: its backward pass is the estimator's closed form, for numbers, delta and modules."""

import gc
import weakref

import pytest
import torch

from tests import reference
from torch_softucb import ScheduleBeta, SegmentBeta, SituationBeta, SoftUCBPolicy, synthetic_problem
from torch_softucb.learning import ESTIMATORS, Episode, TrajectoryReward
from torch_softucb.learning.estimators.base import Played, Slopes

D = torch.double
T, COUNT = 12, 16


@pytest.fixture
def episode(seeded):
    return Episode(synthetic_problem(num_problems=COUNT, num_arms=5, dim=3, dtype=D, generator=seeded(0)), 1, 2)


def _policies():
    modules = {
        "number": 0.7,
        "per trajectory": torch.full((COUNT,), 0.7, dtype=D),
        "schedule": ScheduleBeta(T, init=0.7),
        "segment": SegmentBeta(torch.arange(COUNT) % 3, init=0.7),
        "network": SituationBeta(horizon=T, init=0.7, hidden=2, inputs=("num_observations", "log_width_mid")),
    }
    return {name: SoftUCBPolicy(3, beta_init=beta, coldness="smooth", dtype=D) for name, beta in modules.items()}


@pytest.mark.parametrize("name", list(_policies()))
def test_finite_differences_pass_gradcheck(name, episode):
    """Backward agrees with central differences of forward: same problems, noise and draws."""
    policy = _policies()[name]
    signal = ESTIMATORS["common_random_numbers"](policy, episode, horizon=T)
    signal.loss.backward()
    for parameter in policy.parameters():
        flat = parameter.data.view(-1)
        for at in range(min(3, len(flat))):
            here, step = flat[at].clone(), 0.1 * flat[at].abs() + 0.01
            if any(parameter is other for other in policy.positive_parameters):
                step = 0.1 * here
            elif policy.beta_module is not None and any(parameter is p for p in policy.beta_module.log_parameters):
                step = torch.full_like(here, 0.1)
            values = []
            for end in (here + step, here - step):
                flat[at] = end
                values.append(_loss(policy, episode))
            flat[at] = here
            want = (values[0] - values[1]) / (2 * float(step))
            assert parameter.grad.view(-1)[at].item() == pytest.approx(want, abs=1e-10)


def _loss(policy, episode):
    return float(episode.play(policy, horizon=T).regret.mean())


@pytest.mark.parametrize("name", ["number", "per trajectory"])
def test_the_papers_estimator_is_eq_13_by_loops(name, episode):
    policy, eta = _policies()[name], 0.05
    episode = Episode(episode.problem, 1, 2)
    signal = ESTIMATORS["paper"](policy, episode, horizon=T, eta=eta, record=("mu_hat", "width", "gamma"))
    signal.loss.backward()
    kept, want = signal.trajectory.records, torch.zeros(COUNT, dtype=D)
    for t in range(T):
        for r in range(COUNT):
            m, w, c = (kept[key][t, r].tolist() for key in ("mu_hat", "width", "gamma"))
            S = reference.index(m, w, 0.7, [True] * 5)
            want[r] += (reference.reward_gradient(S, m, w, c, 0.7, [True] * 5) + eta * sum(w)) / T / COUNT
    got = -policy.raw_beta.grad
    torch.testing.assert_close(got, want if got.dim() else want.sum(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", list(_policies()))
@pytest.mark.parametrize("estimator", ["paper", "trajectory"])
def test_slopes_reach_every_parameter_as_a_surrogate_loss_would_carry_them(estimator, name, episode):
    """The gradient of mean(slope * beta), written with autograd over what produces beta."""
    one, other = _policies()[name], _policies()[name]
    other.load_state_dict(one.state_dict())
    signal = ESTIMATORS[estimator](one, episode, horizon=T, eta=0.01)
    (3.0 * signal.loss).backward()
    played = ESTIMATORS[estimator].play(other, episode, horizon=T, eta=0.01, record=(), compile=False)
    beta = other.beta_along(played.trajectory.situation, played.trajectory.regret.dim())
    (-3.0 * (played.slopes.beta * beta).mean()).backward()
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-12, rtol=1e-12)


def test_a_learned_delta_gets_its_gradient(episode):
    policy = SoftUCBPolicy(3, beta_init=0.7, coldness="smooth", learn_delta=True, dtype=D)
    ESTIMATORS["trajectory"](policy, episode, horizon=T).loss.backward()
    played = ESTIMATORS["trajectory"].play(policy, episode, horizon=T, eta=0.0, record=(), compile=False)
    assert policy.raw_delta.grad.item() == pytest.approx(-float(played.slopes.delta_logit.mean()), abs=1e-14)
    assert policy.raw_beta.grad.item() == pytest.approx(-float(played.slopes.beta.mean()), abs=1e-14)


def test_without_gradients_it_is_the_plain_value(episode):
    policy = SoftUCBPolicy(3, beta_init=0.7, coldness="smooth", dtype=D).requires_grad_(False)
    signal = ESTIMATORS["trajectory"](policy, episode, horizon=T)
    assert not signal.loss.requires_grad
    assert signal.loss.item() == pytest.approx(_loss_of(signal))


def _loss_of(signal):
    return float(signal.trajectory.regret.mean())


def test_the_graph_is_freed_with_the_loss(episode):
    """No reference cycle keeps the trajectories alive until the garbage collector runs."""
    policy = SoftUCBPolicy(3, beta_init=0.7, coldness="smooth", dtype=D)
    signal = ESTIMATORS["trajectory"](policy, episode, horizon=T)
    seen = weakref.ref(signal.trajectory)
    gc.disable()
    try:
        signal.loss.backward()
        del signal
        assert seen() is None
    finally:
        gc.enable()


def test_backward_is_differentiable_once(episode):
    policy = SoftUCBPolicy(3, beta_init=0.7, coldness="smooth", dtype=D)
    value = torch.ones((), dtype=D)
    trajectory = episode.play(policy, horizon=T)
    play = lambda: Played(value, Slopes(beta=torch.ones(1, COUNT, dtype=D)), value, value, trajectory)  # noqa: E731
    reward, _ = TrajectoryReward.apply(play, policy, *policy.parameters())
    (grad,) = torch.autograd.grad(reward, policy.raw_beta, create_graph=True)
    assert grad.item() == 1.0
    with pytest.raises(RuntimeError, match=r"once_differentiable|does not require grad"):
        grad.backward()


@pytest.mark.parametrize("estimator", ["paper", "trajectory", "common_random_numbers"])
@pytest.mark.parametrize("frozen", ["raw_beta", "raw_delta", "hidden"])
def test_frozen_parameters_get_no_gradient(estimator, frozen, episode):
    learn_delta = estimator != "paper" and frozen != "hidden"
    beta = SituationBeta(horizon=T, hidden=2, inputs=("num_observations",)) if frozen == "hidden" else 0.7
    policy = SoftUCBPolicy(3, beta_init=beta, coldness="smooth", learn_delta=learn_delta, dtype=D)
    named = dict(policy.named_parameters())
    still = [name for name in named if frozen in name]
    if len(still) == len(named) or not still:
        pytest.skip("nothing would be left to learn, or nothing to freeze")
    for name in still:
        named[name].requires_grad_(False)
    ESTIMATORS[estimator](policy, episode, horizon=T).loss.backward()
    assert {name for name, parameter in named.items() if parameter.grad is None} == set(still)


def test_a_parameter_changed_between_forward_and_backward_is_noticed(episode):
    policy = SoftUCBPolicy(3, beta_init=ScheduleBeta(T), coldness="smooth", dtype=D)
    signal = ESTIMATORS["trajectory"](policy, episode, horizon=T)
    with torch.no_grad():
        policy.beta_module.log_beta.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        signal.loss.backward()
