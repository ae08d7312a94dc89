"""Learning beta from a decision log: a posterior of the problem behind it, problems drawn from that, beta learned on them.

A log of many decisions leaves little doubt about theta, and the problems that are drawn are almost one and the same. That
is as it should be: the beta that is learned is the one to play *this* problem with from the first round, as for a new user
or after a restart. The less the log says, the wider the family of problems for which beta must do.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_choice
from torch_softucb.from_logs._checks import check_rewards_there
from torch_softucb.from_logs.candidates import Offered, offered_items
from torch_softucb.learning.fitting import fit
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.problems.base import BanditProblem
from torch_softucb.recommend import LoggedDecisions
from torch_softucb.rng import normals, stream_key, uniforms

LEARNS = ("common_random_numbers", "trajectory")  # estimators whose optimum is the least regret, without an eta
_ROWS = 8192  # whose x x^T is made at once


class ProblemPosterior(NamedTuple):
    """What a log says of the problem behind it."""

    theta: F.LinearPosterior  # of U bandits, (U, d)
    names: Tensor  # (U,) their ids, sorted
    owner: Tensor  # (n,) row in theta of each decision's bandit
    position: Tensor  # (n,) of each decision in its slate
    offered: Offered
    explained: float  # share of the reward's variance, around its mean, that x . theta explains

    @property
    def dim(self) -> int:
        return self.theta.mean.shape[-1]

    def theta_of(self, bandit: Tensor) -> Tensor:  # (m,) -> (m, d)
        """Mean theta of bandits by their ids; of one that the log has not met, the mean of all."""
        at = torch.searchsorted(self.names, bandit).clamp(max=len(self.names) - 1)
        met = (self.names[at] == bandit).unsqueeze(-1)
        return torch.where(met, self.theta.mean[at], self.theta.mean.mean(0))

    def draw(
        self, count: int, *, generator: torch.Generator | None = None, dtype: torch.dtype | None = None
    ) -> BanditProblem:
        """``count`` problems: theta from the posterior of a decision's bandit, arms what was offered in that decision.

        A drawn problem keeps its arms in all rounds. The i-th depends on the generator's state and on i, not on ``count``.
        """
        mean, root = self.theta.mean, self.theta.root
        key, ids = stream_key(generator, "problem", mean.device), torch.arange(count, device=mean.device)
        which = (uniforms(key, ids, start=0, count=1, dtype=mean.dtype)[0] * len(self.owner)).long()
        z = normals(key, ids, start=1, count=self.dim, dtype=mean.dtype).T  # (count, d)
        bandit = self.owner[which]
        theta = mean[bandit] + (root[bandit] @ z.unsqueeze(-1)).squeeze(-1)
        arms, mask = self.offered.sets(slice(0, 1) if self.offered.fixed else which)
        means = (arms @ theta.unsqueeze(-1)).squeeze(-1)  # (count, K)
        if self.offered.fixed:
            arms, mask = arms[0], mask[0]
        dtype = dtype or torch.get_default_dtype()
        allowed = None if bool(mask.all()) else mask
        return BanditProblem(arms.to(dtype), means.to(dtype), float(self.theta.noise_std), allowed)


def fit_posterior(log: LoggedDecisions, *, num_arms: int = 50) -> ProblemPosterior:
    """Posterior of theta and the noise from the decisions whose reward has come; any policy may have made them.

    Propensities have no part in it: given x, the reward does not depend on why x was shown. Different bandits have a theta
    each, from a common prior. ``num_arms`` is for logs that do not say what was on offer (:func:`offered_items`).

    Example:
        >>> import tempfile
        >>> from torch_softucb import synthetic_problem
        >>> from torch_softucb.recommend import read_decisions
        >>> from torch_softucb.from_logs.synthetic_log import epsilon_greedy_log
        >>> seeded = lambda seed: torch.Generator().manual_seed(seed)
        >>> problem = synthetic_problem(num_problems=1, num_arms=9, dim=4, generator=seeded(0))[0]
        >>> folder = tempfile.mkdtemp()
        >>> epsilon_greedy_log(folder, problem, decisions=5000)
        >>> posterior = fit_posterior(read_decisions(folder))
        >>> f"{posterior.theta.noise_std:.1f}"  # 0.5
        '0.5'
        >>> drawn = posterior.draw(3, generator=seeded(0))
        >>> (drawn.means - problem.means).abs().max() < 0.2
        tensor(True)
    """
    log = log.rewarded
    check_rewards_there("fit_posterior", log.reward, log.x.shape[1])
    x, reward = log.x, log.reward
    names, owner = torch.unique(log.bandit, return_inverse=True)
    if len(names) == 1:
        gram, moment = (x.mT @ x).unsqueeze(0), (x.mT @ reward).unsqueeze(0)
    else:
        gram, moment = x.new_zeros(len(names), x.shape[1], x.shape[1]), x.new_zeros(len(names), x.shape[1])
        for part in (slice(i, i + _ROWS) for i in range(0, len(x), _ROWS)):
            gram.index_add_(0, owner[part], x[part].unsqueeze(-1) * x[part].unsqueeze(-2))
        moment.index_add_(0, owner, x * reward.unsqueeze(-1))
    energy, count = (torch.zeros_like(moment[:, 0]).index_add_(0, owner, v) for v in (reward**2, torch.ones_like(reward)))
    theta = F.bayesian_ridge(gram, moment, energy, count)
    left = (reward - (theta.mean[owner] * x).sum(-1)).square().mean()
    return ProblemPosterior(
        theta, names, owner, log.position, offered_items(log, num_arms=num_arms), float(1 - left / reward.var(correction=0))
    )


def radius(posterior: ProblemPosterior, *, horizon: int, ridge_alpha: float = 1.0, fail_prob: float = 0.01) -> float:
    """Eq. 5's beta with the noise and the length of theta that the log shows."""
    length = float(torch.linalg.vector_norm(posterior.theta.mean, dim=-1).mean())
    return F.beta_upper_bound(
        dim=posterior.dim,
        horizon=horizon,
        subgaussian_r=float(posterior.theta.noise_std),
        fail_prob=fail_prob,
        ridge_alpha=ridge_alpha,
        theta_bound=length,
    )


def learn_beta(
    problems: Callable[[int, torch.Generator], BanditProblem],
    policy: SoftUCBPolicy,
    *,
    horizon: int,
    steps: int = 50,
    trajectories: int = 512,
    estimator: str = "common_random_numbers",
    seed: int = 0,
    compile: bool | str = "native",
    progress: Callable[[int, float], object] | None = None,
) -> list[float]:
    """Learn a policy's beta for least regret over ``horizon`` rounds; returns beta before each step and at the end.

    Args:
        problems: (count, generator) -> problems to play, as :meth:`ProblemPosterior.draw` makes them.
        policy: whose beta moves, by shares of itself; ``coldness="smooth"`` for ``trajectory``.
        estimator: ``common_random_numbers`` or ``trajectory``. On problems that are alike the first is the steadier by far:
            with T = 1024, K = 50, d = 10 its slope has a fifth of the other's standard deviation, at less cost.
        progress: called with (steps done, beta).

    Example:
        >>> from torch_softucb import synthetic_problem
        >>> problems = lambda count, generator: synthetic_problem(num_problems=count, num_arms=5, dim=2, generator=generator)
        >>> policy = SoftUCBPolicy(2, coldness="smooth")
        >>> betas = learn_beta(problems, policy, horizon=50, steps=4, trajectories=64, compile=False)
        >>> len(betas), betas[-1] < betas[0]
        (5, True)
    """
    check_choice("learn_beta", "estimator", estimator, LEARNS)
    report = None if progress is None else lambda step, policy: progress(step, float(policy.beta.detach()))
    return fit(
        policy,
        problems,
        horizon=horizon,
        estimator=estimator,
        steps=steps,
        trajectories=trajectories,
        seed=seed,
        compile=compile,
        progress=report,
    ).betas
