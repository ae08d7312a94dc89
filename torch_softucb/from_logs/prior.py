"""Fit the prior of new users to what is known about others."""

import warnings
from typing import overload

import torch
from torch import Tensor

from torch_softucb.checks import check_finite, check_float_tensor, check_shape
from torch_softucb.from_logs._checks import check_several_users, check_user_ids
from torch_softucb.from_logs.sums import user_sums
from torch_softucb.functional.hierarchical_ridge import evidence_prior
from torch_softucb.functional.scales import RegressionSums
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.recommend import LoggedDecisions


@overload
def fit_prior(data: LoggedDecisions | RegressionSums) -> GaussianPrior: ...
@overload
def fit_prior(data: Tensor, reward: Tensor, user: Tensor) -> GaussianPrior: ...
def fit_prior(
    data: LoggedDecisions | RegressionSums | Tensor,
    reward: Tensor | None = None,  # (n,)
    user: Tensor | None = None,  # (n,)
) -> GaussianPrior:
    """Estimate how theta is distributed over users, as the prior of new ones.

    Each user has a separate theta in y = offset + x . theta + noise. Mean and covariance of the thetas, the noise and the
    offset are those that make the rewards most likely (:func:`torch_softucb.functional.evidence_prior`); the covariance is
    shrunk where there are few users. The rewards may come from any policy.

    Args:
        data: a log, of which the decisions with a reward are used and ``bandit`` is the user; or the sums of each user
            (:class:`~torch_softucb.functional.RegressionSums`, with one batch dimension); or features ``(n, d)``, such as
            those of the items in a table of ratings.
        reward: rewards, or ratings, if ``data`` are features.
        user: int64 ids of the users, from 0, if ``data`` are features.

    Raises:
        ValueError: if there is only one user, a value is NaN or infinite, or all rewards are equal.

    Warns:
        UserWarning: if users have fewer observations than there are features. The noise may be underestimated then.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> theta = torch.tensor([1.0, -1.0]) + 0.5 * torch.randn(200, 2, generator=g)  # of 200 users
        >>> user, x = torch.randint(200, (9000,), generator=g), torch.randn(9000, 2, generator=g)
        >>> reward = 3 + (x * theta[user]).sum(-1) + 0.3 * torch.randn(9000, generator=g)
        >>> prior = fit_prior(x, reward, user)
        >>> round(prior.noise_std, 2), round(prior.offset, 1)
        (0.3, 3.0)
        >>> from torch_softucb import SoftUCBPolicy
        >>> policy = SoftUCBPolicy.auto(2, prior=prior)
    """
    where = "fit_prior"
    if isinstance(data, RegressionSums):
        check_several_users(where, data.num_observations.numel())
        return _prior(data, 0.0)
    if isinstance(data, Tensor):
        if reward is None or user is None:
            raise TypeError(f"{where}: features must come with rewards and users, as in fit_prior(x, reward, user)")
        x = data
    else:
        if not isinstance(data, LoggedDecisions):
            raise TypeError(f"{where}: expected LoggedDecisions, RegressionSums or features, got {type(data).__name__}")
        log = data.rewarded
        x, reward, user = log.x, log.reward, log.bandit
    check_float_tensor(where, "x", x)
    check_float_tensor(where, "reward", reward, device=x.device)
    check_shape(where, "x", x.shape, x.dim() == 2 and x.shape[1] > 0, "(n, d)")
    check_shape(where, "reward", reward.shape, reward.shape == x.shape[:1], f"({len(x)},), one per row of x")
    check_finite(where, "x", x)
    check_finite(where, "reward", reward)
    if isinstance(data, Tensor):
        check_user_ids(where, user, len(x))
    names, owner = torch.unique(user, return_inverse=True)
    check_several_users(where, len(names))
    x, reward = x.detach().double(), reward.detach().double()
    anchor = reward.mean()  # sums of rewards relative to it keep their digits whatever the offset
    return _prior(user_sums(x, reward - anchor, owner, num_users=len(names)), float(anchor))


def _prior(sums: RegressionSums, anchor: float) -> GaussianPrior:
    found = evidence_prior(sums)
    each, dim, noise = float(sums.num_observations.mean()), sums.sum_x.shape[-1], float(found.noise_std)
    if each < dim:
        warnings.warn(
            f"fit_prior: {dim} features are many for {each:.3g} observations per user; the noise, {noise:.3g}, may be "
            "underestimated, and the policy would explore too little; use fewer features, or set noise_std of the prior",
            stacklevel=3,
        )
    offset = anchor + float(found.offset)
    return GaussianPrior(found.mean, found.covariance, noise_std=noise, offset=offset)
