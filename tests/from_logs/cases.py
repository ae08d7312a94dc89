"""Logs in memory for the tests of this folder."""

import torch

from torch_softucb import EpsilonGreedy
from torch_softucb import functional as F
from torch_softucb.recommend.log.reader import LoggedDecisions

D = torch.double


def make_log(x, arm, reward, *, candidates=None, features=None, bandit=None):
    """Return a log with these columns and constant others."""
    n = len(arm)
    empty = torch.zeros(n, 0, dtype=torch.int64)
    columns = {name: torch.zeros(n, dtype=torch.int64) for name in ("id", "context", "position", "version")}
    columns["bandit"] = torch.full((n,), -1) if bandit is None else bandit
    return LoggedDecisions(
        **columns,
        arm=arm,
        propensity=torch.full((n,), 0.5, dtype=D),
        beta=torch.full((n,), torch.nan, dtype=D),
        x=x,
        reward=reward,
        candidates=empty if candidates is None else candidates,
        features=torch.zeros(n, 0, x.shape[1], dtype=D) if features is None else features,
    )


def random_log(n, k, d, seeded, *, noise=0.5, bandits=None, seed=0):
    """Return a log of uniform choices among fresh candidates, and the true theta of its bandits."""
    g = seeded(seed)
    features = torch.randn(n, k, d, dtype=D, generator=g)
    bandit = torch.randint(bandits, (n,), generator=g) if bandits else torch.zeros(n, dtype=torch.int64)
    theta = torch.randn(bandits or 1, d, dtype=D, generator=g)
    arm = torch.randint(k, (n,), generator=g)
    x = features[torch.arange(n), arm]
    reward = (x * theta[bandit]).sum(-1) + noise * torch.randn(n, dtype=D, generator=g)
    candidates = torch.arange(k).expand(n, -1)
    log = make_log(x, arm, reward, features=features, candidates=candidates, bandit=bandit if bandits else None)
    return log._replace(propensity=torch.full((n,), 1 / k, dtype=D)), theta


def epsilon_greedy_decisions(problem, n, batch, epsilon, g):
    """Return a log of an epsilon-greedy policy that learns from every batch."""
    policy = EpsilonGreedy(problem.dim, epsilon=epsilon, dtype=D)
    arms, parts = problem.arms, []
    for _ in range(n // batch):
        with torch.no_grad():
            probs = policy(arms).probs.expand(batch, -1)
        arm = F.draw_arm(probs, torch.rand(batch, dtype=D, generator=g))
        reward = problem.means[arm] + problem.noise_std * torch.randn(batch, dtype=D, generator=g)
        policy.update(arms[arm], reward)
        parts.append((arm, probs.gather(1, arm[:, None])[:, 0], arms[arm], reward))
    arm, propensity, x, reward = (torch.cat(column) for column in zip(*parts, strict=True))
    one = torch.zeros(len(arm), dtype=torch.int64)
    return LoggedDecisions(
        id=torch.arange(len(arm)),
        bandit=one - 1,
        context=one,
        arm=arm,
        position=one,
        propensity=propensity,
        beta=propensity,
        version=one,
        x=x,
        reward=reward,
        candidates=torch.arange(problem.num_arms).expand(len(arm), -1),
        features=arms.expand(len(arm), -1, -1),
    )
