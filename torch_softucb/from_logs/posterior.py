"""Posterior of the bandit problem behind a decision log, and problems drawn from it."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_choice
from torch_softucb.from_logs._checks import check_enough_rewards
from torch_softucb.from_logs.candidates import CandidateSets, sets_from_items
from torch_softucb.from_logs.summary import LogSummary, summary_in_memory
from torch_softucb.from_logs.worlds import NOISES, make_worlds, offered_sets
from torch_softucb.functional.scales import RegressionSums
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.problems.base import BanditProblem
from torch_softucb.recommend import LoggedDecisions
from torch_softucb.rng import normals, stream_key, uniforms

_RESIDUALS = 10_000  # kept for empirical noise
_MISFIT = -0.05  # share of the variance below which x . theta predicts worse than the mean reward does


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
        offset: constant part of the rewards, that of the prior; 0 without one.
        new_mean: mean of theta for bandits that are not in the log, of shape ``(d,)``.
        residuals: rewards minus their estimated means, for worlds with empirical noise, of shape ``(R,)``.
    """

    theta: F.LinearPosterior
    names: Tensor  # (U,)
    owner: Tensor  # (n,)
    position: Tensor  # (n,)
    offered: CandidateSets
    explained: float
    offset: float
    new_mean: Tensor  # (d,)
    residuals: Tensor  # (R,)

    @property
    def dim(self) -> int:
        """Number of features d."""
        return self.theta.mean.shape[-1]

    def theta_of(self, bandit: Tensor) -> Tensor:  # (m,) -> (m, d)
        """Return the posterior mean of theta for bandit ids. Unknown bandits get ``new_mean``."""
        row = torch.searchsorted(self.names, bandit).clamp(max=len(self.names) - 1)
        known = (self.names[row] == bandit).unsqueeze(-1)
        return torch.where(known, self.theta.mean[row], self.new_mean)

    def draw(
        self,
        count: int,
        *,
        generator: torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        noise: str = "gaussian",
        delay: int | Tensor = 0,  # (D + 1,)
    ) -> BanditProblem:
        """Draw problems from the posterior.

        The theta of each problem is drawn from the posterior of the bandit of a random decision of the log. If all decisions
        have the same candidates, these are the arms in all rounds. Otherwise every round offers the candidates of a random
        decision (:class:`~torch_softucb.problems.ContextualProblem`). The i-th problem depends on the state of the generator
        and on i, not on ``count``.

        Args:
            count: number of problems B.
            generator: source of the seed; torch's default generator if None.
            dtype: dtype of the problems; torch's default dtype if None.
            noise: ``gaussian`` with the estimated standard deviation, or ``empirical``: drawn from the residuals of the log.
            delay: rounds by which rewards are late, or the probabilities of 0, 1, ... rounds.
        """
        check_choice("ProblemPosterior.draw", "noise", noise, NOISES)
        mean, root = self.theta.mean, self.theta.root
        key, ids = stream_key(generator, "problem", mean.device), torch.arange(count, device=mean.device)
        decision = (uniforms(key, ids, start=0, count=1, dtype=mean.dtype)[0] * len(self.owner)).long()
        z = normals(key, ids, start=1, count=self.dim, dtype=mean.dtype).T  # (count, d)
        bandit = self.owner[decision]
        theta = mean[bandit] + (root[bandit] @ z.unsqueeze(-1)).squeeze(-1)
        items, sets = offered_sets(self.offered, key, start=1 + self.dim)
        spread = self.residuals if noise == "empirical" else float(self.theta.noise_std)
        worlds = make_worlds(items, sets, theta, offset=self.offset, noise=spread, delay=delay)
        return worlds.to(dtype or torch.get_default_dtype())


def fit_posterior(
    log: LoggedDecisions | LogSummary, *, num_arms: int = 50, prior: GaussianPrior | None = None
) -> ProblemPosterior:
    """Fit the posterior of theta and of the noise to the decisions that have a reward.

    The decisions may come from any policy. Propensities are not used: given x, the reward does not depend on why x was
    shown. Each bandit has its own theta, and all thetas share one prior, which is estimated too.

    Args:
        log: decisions, some of them with rewards; or the summary of a log, whose sample has the candidate sets.
        num_arms: candidates of a drawn problem if the log does not contain any; see
            :func:`~torch_softucb.from_logs.candidates.candidate_sets`.
        prior: prior of theta, noise and offset, which are then not estimated.

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
    summary = log if isinstance(log, LogSummary) else summary_in_memory(log)
    sums, sample, offset = summary.sums, summary.sample, 0.0 if prior is None else prior.offset
    check_enough_rewards("fit_posterior", sums)
    if prior is None:
        theta = F.bayesian_ridge(sums.gram, sums.moment, sums.energy, sums.num_observations)
    else:
        theta = _posterior_of_prior(prior, sums)
    bandit = sample.bandit
    owner = torch.searchsorted(summary.names, bandit) if len(summary.names) > 1 else torch.zeros_like(bandit)
    residuals = sample.reward - offset - (theta.mean[owner] * sample.x).sum(-1)
    return ProblemPosterior(
        theta=theta,
        names=summary.names,
        owner=owner,
        position=sample.position,
        offered=sets_from_items(sample, summary.items, num_arms=num_arms),
        explained=_explained(sums, theta.mean, offset),
        offset=offset,
        new_mean=theta.mean.mean(0) if prior is None else prior.mean,
        residuals=(residuals - residuals.mean())[:_RESIDUALS],
    )


def misfit(posterior: ProblemPosterior) -> str | None:
    """Describe a model that predicts worse than a constant would, and what to do; return None for any other model."""
    if posterior.explained >= _MISFIT:
        return None
    return (
        f"x . theta explains {posterior.explained:.0%} of the variance of the rewards, so a constant would predict better; "
        "rewards have an offset that the features cannot express: add a constant feature, or use prior='fit'"
    )


def _explained(sums: RegressionSums, theta: Tensor, offset: float) -> float:  # (U, d)
    """Return the share of the variance of the rewards that offset + x . theta explains."""
    moment, energy = sums.moment - offset * sums.sum_x, sums.energy - 2 * offset * sums.sum_y
    total, count = sums.sum_y.sum(), sums.num_observations.sum()
    fitted = (theta.unsqueeze(-2) @ sums.gram).squeeze(-2) - 2 * moment
    error = energy.sum() + offset**2 * count + (fitted * theta).sum()  # sum of (y - c - x . theta)^2
    return float(1 - error / (sums.energy.sum() - total.square() / count))


def _posterior_of_prior(prior: GaussianPrior, sums: RegressionSums) -> F.LinearPosterior:
    """Return the posterior of theta under a given prior: precision V / s^2 with V = V_0 + sum x x^T."""
    factor = torch.linalg.cholesky(prior.precision + sums.gram)
    b = prior.precision @ prior.mean + sums.moment - prior.offset * sums.sum_x
    mean = torch.cholesky_solve(b.unsqueeze(-1), factor).squeeze(-1)
    eye = torch.eye(prior.dim, dtype=mean.dtype, device=mean.device).expand_as(factor)
    root = prior.noise_std * torch.linalg.solve_triangular(factor, eye, upper=False).mT
    noise, spread = mean.new_tensor(prior.noise_std), prior.covariance.diagonal().mean().sqrt()
    return F.LinearPosterior(mean, root, noise, spread, torch.full_like(noise, torch.nan))


def radius(
    posterior: ProblemPosterior,
    *,
    horizon: int,
    ridge_alpha: float = 1.0,
    fail_prob: float = 0.01,
    prior: GaussianPrior | None = None,
) -> float:
    """Return the confidence radius of Eq. 5 for the noise and the length of theta estimated from a log.

    Args:
        posterior: fitted to the log.
        horizon: number of rounds T.
        ridge_alpha: ridge weight alpha of the policy.
        fail_prob: probability with which the confidence set may miss theta.
        prior: prior of the policy; its length of theta is that of the whitened deviation from the prior's mean.
    """
    theta = posterior.theta.mean
    if prior is not None:
        theta = torch.linalg.solve_triangular(prior.factor, (theta - prior.mean).mT, upper=False).mT
    return F.beta_upper_bound(
        dim=posterior.dim,
        horizon=horizon,
        subgaussian_r=float(posterior.theta.noise_std),
        fail_prob=fail_prob,
        ridge_alpha=ridge_alpha,
        theta_bound=float(torch.linalg.vector_norm(theta, dim=-1).mean()),
    )
