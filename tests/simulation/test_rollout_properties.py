"""Laws of rollouts: parts of a batch, parts of a run, bounds of the regret."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.cases import POLICIES
from tests.strategies import SEEDS
from torch_softucb import rollout, synthetic_problem
from torch_softucb.simulation.engine import Simulation

NAMES = st.sampled_from(sorted(POLICIES))


def _problem(seed, count=5):
    g = torch.Generator().manual_seed(seed)
    return synthetic_problem(num_problems=count, num_arms=6, dim=3, generator=g, dtype=torch.double)


def _seeded(seed):
    return torch.Generator().manual_seed(seed)


@given(NAMES, SEEDS, st.integers(0, 4))
def test_a_trajectory_does_not_depend_on_its_batch(name, seed, row):
    problem, policy = _problem(seed), POLICIES[name](3, dtype=torch.double)
    whole = rollout(policy, problem, horizon=6, generator=_seeded(1), record=("arm", "reward"))
    alone = rollout(policy, problem[row : row + 1], horizon=6, generator=_seeded(1), record=("arm", "reward"))
    assert alone.records["arm"][:, 0].equal(whole.records["arm"][:, row])
    torch.testing.assert_close(alone.records["reward"][:, 0], whole.records["reward"][:, row], atol=1e-12, rtol=0)
    torch.testing.assert_close(alone.regret[:, 0], whole.regret[:, row], atol=1e-9, rtol=0)


@given(NAMES, SEEDS, st.integers(1, 7), st.sampled_from([1.0, 0.9]))
def test_a_run_may_be_stopped_and_resumed_anywhere(name, seed, stop, discount):
    problem, policy = _problem(seed, 3), POLICIES[name](3, dtype=torch.double)
    whole, part, rest = (Simulation(policy, problem, generator=_seeded(2), discount=discount) for _ in range(3))
    regret = torch.cat([played.regret for played in whole.play(8)])
    first = [played.regret for played in part.play(stop)]
    rest.load_state_dict(part.state_dict())
    assert torch.cat([*first, *(played.regret for played in rest.play(8 - stop))]).equal(regret)


@given(NAMES, SEEDS)
def test_regret_is_between_zero_and_the_largest_gap(name, seed):
    problem = _problem(seed)
    regret = rollout(POLICIES[name](3, dtype=torch.double), problem, horizon=6, generator=_seeded(seed)).regret
    gap = problem.best_mean - problem.means.amin(-1)
    assert (regret >= -1e-12).all()
    assert (regret <= gap + 1e-12).all()


@given(NAMES, SEEDS)
def test_estimates_at_the_end_are_the_ridge_regression_of_the_records(name, seed):
    problem, policy = _problem(seed, 2), POLICIES[name](3, dtype=torch.double, ridge_alpha=0.7)
    run = rollout(policy, problem, horizon=7, generator=_seeded(seed), record=("arm", "reward", "mu_hat", "width"))
    for row in range(2):
        x, y = problem.arms[row, run.records["arm"][:6, row]], run.records["reward"][:6, row]
        inverse = torch.linalg.inv(0.7 * torch.eye(3, dtype=torch.double) + x.mT @ x)
        arms = problem.arms[row]
        mu_hat, width = arms @ inverse @ x.mT @ y, (arms @ inverse * arms).sum(-1).sqrt()
        torch.testing.assert_close(run.records["mu_hat"][6, row], mu_hat, atol=1e-9, rtol=0)
        torch.testing.assert_close(run.records["width"][6, row], width, atol=1e-7, rtol=0)  # the root of a difference
