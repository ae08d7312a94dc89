"""Posterior of the bandit problem behind a decision log, and problems drawn from it."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.from_logs._checks import check_enough_rewards
from torch_softucb.from_logs.candidates import CandidateSets, candidate_sets
from torch_softucb.problems.base import BanditProblem
from torch_softucb.recommend import LoggedDecisions
from torch_softucb.rng import normals, stream_key, uniforms

_ROWS = 8192  # decisions whose outer products x x^T are in memory at once


class ProblemPosterior(NamedTuple):
    """Posterior of theta and of the noise, with the candidate sets of the log.

    Attributes:
        theta: Gaussian posterior of theta, one per bandit: ``mean`` ``(U, d)`` and ``root`` ``(U, d, d)``, and the common
            ``noise_std`` and ``prior_std``.
        names: sorted ids of the U bandits in the log, of shape ``(U,)``; -1 if the log has one bandit without an id.
        owner: row in ``theta`` of the bandit of each decision, of shape ``(n,)``.
        position: position of each decision in its slate, of shape ``(n,)``; 0 is the first item.
        offered: candidate sets of the n decisions.
        explained: share of the variance of the rewards that x . theta explains.
    """

    theta: F.LinearPosterior
    names: Tensor  # (U,)
    owner: Tensor  # (n,)
    position: Tensor  # (n,)
    offered: CandidateSets
    explained: float

    @property
    def dim(self) -> int:
        """Number of features d."""
        return self.theta.mean.shape[-1]

    def theta_of(self, bandit: Tensor) -> Tensor:  # (m,) -> (m, d)
        """Return the posterior mean of theta for bandit ids. Unknown bandits get the mean over all bandits."""
        row = torch.searchsorted(self.names, bandit).clamp(max=len(self.names) - 1)
        known = (self.names[row] == bandit).unsqueeze(-1)
        return torch.where(known, self.theta.mean[row], self.theta.mean.mean(0))

    def draw(
        self, count: int, *, generator: torch.Generator | None = None, dtype: torch.dtype | None = None
    ) -> BanditProblem:
        """Draw problems from the posterior.

        Each problem picks a random decision of the log. Its arms are the candidates of that decision, and its theta is drawn
        from the posterior of that decision's bandit. The arms stay the same in all rounds. The i-th problem depends on the
        state of the generator and on i, not on ``count``.

        Args:
            count: number of problems B.
            generator: source of the seed; torch's default generator if None.
            dtype: dtype of the problems; torch's default dtype if None.
        """
        mean, root = self.theta.mean, self.theta.root
        key, ids = stream_key(generator, "problem", mean.device), torch.arange(count, device=mean.device)
        decision = (uniforms(key, ids, start=0, count=1, dtype=mean.dtype)[0] * len(self.owner)).long()
        z = normals(key, ids, start=1, count=self.dim, dtype=mean.dtype).T  # (count, d)
        bandit = self.owner[decision]
        theta = mean[bandit] + (root[bandit] @ z.unsqueeze(-1)).squeeze(-1)
        arms, mask = self.offered.sets(slice(0, 1) if self.offered.fixed else decision)
        means = (arms @ theta.unsqueeze(-1)).squeeze(-1)  # (count, K)
        if self.offered.fixed:
            arms, mask = arms[0], mask[0]
        dtype = dtype or torch.get_default_dtype()
        allowed = None if bool(mask.all()) else mask
        return BanditProblem(arms.to(dtype), means.to(dtype), float(self.theta.noise_std), allowed)


def fit_posterior(log: LoggedDecisions, *, num_arms: int = 50) -> ProblemPosterior:
    """Fit the posterior of theta and of the noise to the decisions that have a reward.

    The decisions may come from any policy. Propensities are not used: given x, the reward does not depend on why x was
    shown. Each bandit has its own theta, and all thetas share one prior, which is estimated too.

    Args:
        log: decisions, some of them with rewards.
        num_arms: candidates of a drawn problem if the log does not contain any (:func:`candidate_sets`).

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
        >>> f"{posterior.theta.noise_std:.1f}"  # the true value is 0.5
        '0.5'
        >>> drawn = posterior.draw(3, generator=seeded(0))
        >>> (drawn.means - problem.means).abs().max() < 0.2
        tensor(True)
    """
    log = log.rewarded
    check_enough_rewards("fit_posterior", log.reward, log.x.shape[1])
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
    residual = (reward - (theta.mean[owner] * x).sum(-1)).square().mean()
    return ProblemPosterior(
        theta=theta,
        names=names,
        owner=owner,
        position=log.position,
        offered=candidate_sets(log, num_arms=num_arms),
        explained=float(1 - residual / reward.var(correction=0)),
    )


def radius(posterior: ProblemPosterior, *, horizon: int, ridge_alpha: float = 1.0, fail_prob: float = 0.01) -> float:
    """Return the confidence radius of Eq. 5 for the noise and the length of theta estimated from a log.

    Args:
        posterior: fitted to the log.
        horizon: number of rounds T.
        ridge_alpha: ridge weight alpha of the policy.
        fail_prob: probability with which the confidence set may miss theta.
    """
    theta_norm = float(torch.linalg.vector_norm(posterior.theta.mean, dim=-1).mean())
    return F.beta_upper_bound(
        dim=posterior.dim,
        horizon=horizon,
        subgaussian_r=float(posterior.theta.noise_std),
        fail_prob=fail_prob,
        ridge_alpha=ridge_alpha,
        theta_bound=theta_norm,
    )
