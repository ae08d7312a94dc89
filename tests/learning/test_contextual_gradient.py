"""The gradient of a whole trajectory with changing candidates, a prior and delays, against central differences."""

import math

import pytest
import torch

from tests.simulation.cases import needs_compiler
from torch_softucb import GaussianPrior, SoftUCBPolicy, contextual_problem, rollout
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.score_function import play, slopes

pytestmark = needs_compiler
BETAS = (0.2, 0.4, 0.8, 1.5, 3.0)
HORIZON, SLOTS, ITEMS, DIM = 12, 5, 20, 3
PRIOR = GaussianPrior(torch.tensor([0.2, -0.1, 0.0]), 0.5 * torch.eye(DIM) + 0.1, noise_std=0.5, offset=0.3)
DELAY = torch.tensor([0.3, 0.3, 0.2], dtype=torch.double)  # one reward in five is lost


def _world(count, seeded):
    items = torch.randn(ITEMS, DIM, generator=seeded(0))
    theta = PRIOR.mean.float() + torch.randn(count, DIM, generator=seeded(1)) @ (0.5 * PRIOR.factor.float()).mT
    return contextual_problem(items, theta=theta, offset=0.3, candidates=SLOTS, delay=DELAY)


def _z_score(beta, count, seeded, part=None):
    """Difference of the two estimates of dJ / dbeta in standard errors, and both estimates with theirs."""
    world, step = _world(count, seeded), 0.05 * beta
    ends = []
    for end in (beta - step, beta + step):
        policy = SoftUCBPolicy(DIM, beta_init=end, coldness="smooth", prior=PRIOR)
        ends.append(rollout(policy, world, horizon=HORIZON, generator=seeded(6), compile="native").regret.sum(0).double())
    difference = (ends[0] - ends[1]) / (2 * step)
    policy = SoftUCBPolicy(DIM, beta_init=beta, coldness="smooth", prior=PRIOR)
    played = play(policy, Episode(world, 7, 8), horizon=HORIZON, compile="native")
    trajectory = (slopes(played) if part is None else played.scores[part]).sum(0).double().mean(0)
    found = [(float(v.mean()), float(v.std() / math.sqrt(len(v)))) for v in (trajectory, difference)]
    return (found[0][0] - found[1][0]) / math.hypot(found[0][1], found[1][1]), found


@pytest.mark.parametrize("beta", BETAS)
def test_trajectory_gradient_agrees_with_differences(beta, seeded):
    z, found = _z_score(beta, 2**13, seeded)
    assert abs(z) < 3, found


@pytest.mark.long
@pytest.mark.parametrize("beta", BETAS)
def test_trajectory_gradient_agrees_with_differences_of_many_trajectories(beta, seeded):
    """131,072 trajectories per estimate."""
    z, found = _z_score(beta, 2**17, seeded)
    print(f"beta {beta}: z = {z:+.2f},", " and ".join(f"{mean:.4f} +- {error:.4f}" for mean, error in found))
    assert abs(z) < 3


@pytest.mark.long
def test_the_check_notices_a_gradient_without_credit_for_later_rounds(seeded):
    z, found = _z_score(0.4, 2**17, seeded, part="present")
    assert abs(z) > 3, found
