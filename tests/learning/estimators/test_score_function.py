"""The gradient of a whole trajectory: the native kernel's parts, no bias, less noise, and where it leads."""

import math
from dataclasses import replace

import pytest
import torch

from tests.learning.estimators.cases import D, small_problem
from torch_softucb import SoftUCBPolicy, rollout, synthetic_problem
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.finite_difference import common_random_numbers
from torch_softucb.learning.estimators.score_function import CONTROL_VARIATES, credit, play, slopes, trajectory
from torch_softucb.simulation.trajectory import SCORES
from torch_softucb.training.offline import SoftUCBOffline


@pytest.mark.parametrize("coldness", ["smooth", "current"])
@pytest.mark.parametrize("masked", [False, True])
def test_the_native_kernels_scores_are_the_eager_ones(coldness, masked, seeded):
    problem = small_problem(21, seeded, masked=masked)
    policy = SoftUCBPolicy(3, beta_init=0.4, coldness=coldness, dtype=D)
    eager, native = (
        rollout(policy, problem, horizon=50, generator=seeded(2), scores=True, compile=way) for way in (False, "native")
    )
    for name in SCORES:
        torch.testing.assert_close(native.scores[name], eager.scores[name], atol=1e-10, rtol=0)
    assert eager.scores["score"].shape == (50, 21)


def _estimates(beta, seeded, *, horizon, problems, coldness="smooth"):
    """dJ/dbeta and its standard error: by central differences, and by the scores with every baseline."""
    problem = synthetic_problem(num_problems=problems, num_arms=8, dim=3, generator=seeded(5))
    policy = SoftUCBPolicy(3, beta_init=beta, coldness=coldness)
    step = 0.05 * beta
    ends = []
    for end in (beta - step, beta + step):
        other = SoftUCBPolicy(3, beta_init=end, coldness=coldness)
        ends.append(rollout(other, problem, horizon=horizon, generator=seeded(6), compile="native").regret.sum(0).double())
    found = {"differences": (ends[0] - ends[1]) / (2 * step)}
    played = play(policy, Episode(problem, 7, 8), horizon=horizon, compile="native")
    best = problem[: problems // 8].best_mean
    for control_variate in CONTROL_VARIATES:
        found[control_variate] = slopes(played, control_variate=control_variate, best_mean=best).sum(0).double().mean(0)
    return {name: (float(v.mean()), float(v.std() / math.sqrt(len(v)))) for name, v in found.items()}


@pytest.mark.long
@pytest.mark.parametrize("beta", [0.15, 0.5, 1.5])
def test_unbiased_with_smooth_and_steadier_with_baselines(beta, seeded):
    got = _estimates(beta, seeded, horizon=48, problems=2**16)
    print(beta, {name: f"{value:.2f} +- {error:.2f}" for name, (value, error) in got.items()})
    want, error = got["differences"]
    for control_variate in CONTROL_VARIATES:
        assert abs(got[control_variate][0] - want) < 3 * math.hypot(got[control_variate][1], error) + 0.01 * abs(want)
    assert got["state"][1] < 0.5 * got["none"][1]
    assert got["state"][1] < got["leave_one_out"][1]


def test_signals_carry_their_gradient_to_beta(seeded):
    episode = Episode(small_problem(64, seeded, dtype=torch.float32), 1, 2)
    for estimator in (trajectory, common_random_numbers):
        policy = SoftUCBPolicy(3, beta_init=0.7, coldness="smooth")
        signal = estimator(policy, episode, horizon=40, eta=0.0, record=("probs",))
        signal.loss.backward()
        torch.testing.assert_close(-policy.raw_beta.grad, signal.reward_gradient)
        assert signal.trajectory.records["probs"].shape[0] >= 16
        assert policy.raw_beta == torch.tensor(0.7)  # the differences put it back
    assert signal.loss.item() == pytest.approx(signal.trajectory.regret.mean().item())


def test_what_has_no_trajectory_gradient_is_refused(seeded):
    episode = Episode(small_problem(16, seeded, dtype=torch.float32), 1, 2)
    with pytest.raises(ValueError, match="needs SoftUCBPolicy with coldness 'smooth'"):
        trajectory(SoftUCBPolicy(3, coldness="lagged"), episode, horizon=5, eta=0.0, record=())


def test_trajectories_with_betas_of_their_own_get_a_gradient_each(seeded):
    """The same as one beta's when it is summed: each sees its own trajectory only, centred by the others."""
    episode = Episode(small_problem(15, seeded), 1, 2)  # 15: no replicates
    own, one = (SoftUCBPolicy(3, beta_init=start, coldness="smooth", dtype=D) for start in (torch.full((15,), 0.5), 0.5))
    for policy in (own, one):
        trajectory(policy, episode, horizon=20, eta=0.0, record=()).loss.backward()
    assert own.raw_beta.grad.shape == (15,)
    torch.testing.assert_close(own.raw_beta.grad.sum(), one.raw_beta.grad, atol=1e-10, rtol=0)


def test_processes_play_trajectories_of_their_own(seeded):
    """One problem for all, as in the paper's setting: what tells processes apart are the ids."""
    problem = small_problem(1, seeded)[0].repeat(32)
    policy = SoftUCBPolicy(3, coldness="smooth", dtype=D)
    first, second = (play(policy, Episode(problem[part], 1, 2), horizon=20).regret for part in (slice(16), slice(16, None)))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("estimator", ["trajectory", "common_random_numbers"])
def test_a_number_that_is_pushed_down_does_not_land_on_random_play(estimator, seeded):
    """At beta = 0 the policy is uniform, gamma is 0 and no gradient leads away: learners never get there."""
    model = SoftUCBOffline(dim=3, horizon=10, beta_init=0.02, estimator=estimator, coldness="smooth")
    optimizer = model.default_optimizer()
    episode = Episode(small_problem(16, seeded, dtype=torch.float32), 1, 2)
    for _ in range(30):
        optimizer.zero_grad()
        (-model.estimator(model.policy, episode, horizon=10, eta=0.0, record=()).loss).backward()  # up the wrong way
        model.policy.raw_beta.grad.abs_()
        optimizer.step()
    assert 0 < float(model.policy.beta.detach()) < 0.01


@pytest.mark.parametrize("count", [2, 6, 15, 41])
def test_without_replicates_no_trajectory_helps_to_centre_itself(count, seeded):
    """d credit / d own reward to go is 1, up to the factor that the mean of the others brings: by differences."""
    policy = SoftUCBPolicy(3, beta_init=torch.full((count,), 0.5), coldness="smooth", dtype=D)
    played = Episode(small_problem(count, seeded), 1, 2).play(policy, horizon=10, scores=True)
    last = played.regret.clone()
    base = credit(played)
    for i in range(min(count, 6)):
        moved = last.clone()
        moved[-1, i] -= 1.0  # more reward in the last round: of every round before, one more to go
        other = credit(replace(played, regret=moved))
        change = (other - base)[:-1, i]
        torch.testing.assert_close(change, torch.ones_like(change), atol=1e-9, rtol=0)
