"""Replay evaluation against what the policy earns online."""

import math

import pytest
import torch

from torch_softucb import EpsilonGreedy, LinUCB
from torch_softucb import functional as F
from torch_softucb.recommend import replay

D = torch.double


@pytest.mark.parametrize("uniform", [True, False])
def test_a_policy_that_learns_earns_in_replay_what_it_earns_online(uniform, seeded):
    """LinUCB mean of 24 logs: replay under uniform and under skewed logging, and online."""
    by_replay, online = [], []
    for run in range(24):
        g = seeded(run)
        theta = torch.randn(3, dtype=D, generator=g)
        features = torch.randn(800, 4, 3, dtype=D, generator=g)
        means = features @ theta
        logging = (
            torch.full((800, 4), 0.25, dtype=D) if uniform else torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=D).expand(800, 4)
        )
        arm = F.draw_arm(logging, torch.rand(800, dtype=D, generator=g))
        at = torch.arange(800)
        noise = torch.randn(800, dtype=D, generator=g)
        got = replay(LinUCB(3, dtype=D), features, arm, means[at, arm] + noise, logging[at, arm], generator=g)
        by_replay.append(got.value)
        policy, earned = LinUCB(3, dtype=D), []
        for t in range(got.kept):
            with torch.no_grad():
                choice = policy(features[t]).sample(g)
            policy.update(features[t, choice], means[t, choice] + noise[t])
            earned.append(means[t, choice].item())
        online.append(sum(earned) / len(earned))
    difference = torch.tensor(by_replay) - torch.tensor(online)
    error = difference.std() / math.sqrt(len(difference))
    print(f"replay {sum(by_replay) / 24:.3f}, online {sum(online) / 24:.3f}, standard error of the difference {error:.3f}")
    assert abs(difference.mean()) < 3 * error


def test_nothing_kept_says_so():
    features = torch.eye(2, dtype=D).expand(2, 2, 2)
    policy = EpsilonGreedy(2, epsilon=0.0, dtype=D)
    policy.update(torch.eye(2, dtype=D), torch.tensor([1.0, 0.0], dtype=D))
    got = replay(policy, features, torch.tensor([1, 1]), torch.ones(2, dtype=D), torch.ones(2, dtype=D))
    assert (math.isnan(got.value), got.kept) == (True, 0)
