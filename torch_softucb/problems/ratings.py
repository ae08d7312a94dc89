"""Linear bandits from a table of ratings (Appendix G): users are the arms, their other ratings the features."""

from typing import TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.checks import check_integer, check_number
from torch_softucb.problems.base import BanditProblem
from torch_softucb.rng import stream_key, uniforms


def user_features(
    ratings: NDArray[np.float64],  # (users, items)
    *,
    dim: int,
    intercept: bool,
) -> NDArray[np.float64]:  # (users, dim), or (users, dim + 1) with intercept
    """Compute unit feature vectors of users from the principal components of their ratings.

    Args:
        ratings: complete table of ratings, without NaN.
        dim: number of principal components.
        intercept: append a constant feature, then rescale to length 1. Without it a linear model cannot represent the mean
            rating.

    Example:
        >>> table = np.array([[0.1, 0.9], [0.8, 0.3], [0.5, 0.7]])
        >>> user_features(table, dim=1, intercept=True).round(3)
        array([[-0.707,  0.707],
               [ 0.707,  0.707],
               [-0.707,  0.707]])
    """
    centred = ratings - ratings.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    # The SVD leaves the sign of a component open: make its largest entry positive.
    signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])
    scores = centred @ (directions * signs[:, None])[:dim].T
    features: NDArray[np.float64] = scores / np.maximum(np.linalg.norm(scores, axis=1, keepdims=True), 1e-12)
    if intercept:
        features = np.concatenate([features, np.ones((len(features), 1))], axis=1) / np.sqrt(2.0)
    return features


def rating_problem(
    ratings: NDArray[np.float64],  # (users, items)
    *,
    num_problems: int,
    num_arms: int = 50,
    dim: int = 10,
    target: int = -1,
    noise_std: float = 0.1,
    intercept: bool = False,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> BanditProblem:
    """Draw linear bandits whose arms are real users (Appendix G).

    The features of a user are principal components of their ratings of all items but ``target``. The mean reward of playing
    a user is their rating of ``target``. The i-th problem depends on the state of the generator and on i, not on
    ``num_problems``.

    Args:
        ratings: complete table in [0, 1], from :func:`~torch_softucb.problems.load_jester` or
            :func:`~torch_softucb.problems.fill_gaps`.
        num_problems: number of bandits B.
        num_arms: number of users K drawn for each, without replacement.
        dim: number of principal components; with ``intercept`` the problem has one feature more.
        target: column of the item whose ratings are the rewards.
        noise_std: standard deviation of the reward noise.
        intercept: append a constant feature, which Appendix G does not have. Without it a linear model cannot represent the
            mean rating.
        generator: source of the seed; torch's default generator if None.
        device: device of the tensors.
        dtype: dtype of arms and means.

    Returns:
        Problems with ``arms`` of shape ``(B, K, d)`` and ``means`` of shape ``(B, K)``.

    Example:
        >>> table = np.random.default_rng(0).random((100, 12))
        >>> problem = rating_problem(table, num_problems=3, num_arms=5, dim=4, generator=torch.Generator().manual_seed(0))
        >>> problem.arms.shape, problem.means.shape
        (torch.Size([3, 5, 4]), torch.Size([3, 5]))
    """
    where = "rating_problem"
    count = check_integer(where, "num_problems", num_problems, low=1)
    num_arms = check_integer(where, "num_arms", num_arms, low=1)
    dim = check_integer(where, "dim", dim, low=1)
    noise_std = check_number(where, "noise_std", noise_std, low=0.0)
    users, items = ratings.shape
    if not np.isfinite(ratings).all():
        raise ValueError(f"{where}: ratings must have no gaps, got {int((~np.isfinite(ratings)).sum())}; use fill_gaps")
    if dim > items - 1 or num_arms > users:
        raise ValueError(
            f"{where}: dim must be at most {items - 1} and num_arms at most {users}, got dim {dim} and num_arms {num_arms}"
        )
    features = user_features(np.delete(ratings, target, axis=1), dim=dim, intercept=intercept)
    return users_problem(
        features,
        ratings[:, target],
        num_problems=count,
        num_arms=num_arms,
        noise_std=noise_std,
        generator=generator,
        device=device,
        dtype=dtype,
    )


class TensorKwargs(TypedDict, total=False):
    """Keyword arguments of torch functions that create tensors."""

    device: torch.device | str | None
    dtype: torch.dtype | None


def users_problem(
    features: NDArray[np.float64],  # (users, d)
    rewards: NDArray[np.float64],  # (users,)
    *,
    num_problems: int,
    num_arms: int = 50,
    noise_std: float = 0.1,
    generator: torch.Generator | None = None,
    **tensor_kwargs: Unpack[TensorKwargs],
) -> BanditProblem:
    """Draw linear bandits whose arms are users with given features and mean rewards.

    This is the second half of :func:`rating_problem`, for callers that compute the features once and draw often.

    Args:
        features: feature vector of every user.
        rewards: mean reward of playing each user.
        num_problems: number of bandits B.
        num_arms: number of users K drawn for each, without replacement.
        noise_std: standard deviation of the reward noise.
        generator: source of the seed; torch's default generator if None.
        **tensor_kwargs: ``device`` and ``dtype`` of the tensors.

    Example:
        >>> features, rewards = np.eye(5), np.linspace(0, 1, 5)
        >>> users_problem(features, rewards, num_problems=3, num_arms=2).means.shape
        torch.Size([3, 2])
    """
    like = torch.empty(0, **tensor_kwargs)
    all_features = torch.as_tensor(features, dtype=like.dtype, device=like.device)
    all_rewards = torch.as_tensor(rewards, dtype=like.dtype, device=like.device)
    key, ids = stream_key(generator, "problem", like.device), torch.arange(num_problems, device=like.device)
    drawn = _draw_users(key, ids, len(features), num_arms)
    return BanditProblem(all_features[drawn], all_rewards[drawn], noise_std)


def _draw_users(key: Tensor, ids: Tensor, users: int, num_arms: int) -> Tensor:  # (), (B,) -> (B, K)
    """Draw users without replacement: keep the first K distinct ones of 2 K draws.

    With fewer than 16 users per arm, 2 K draws could contain too few distinct ones. Then take the K users with the largest
    random numbers, which needs one number per user.
    """
    if users < 16 * num_arms:
        return uniforms(key, ids, start=0, count=users, dtype=torch.float64).topk(num_arms, dim=0).indices.T
    draws = 2 * num_arms
    drawn = (uniforms(key, ids, start=0, count=draws, dtype=torch.float64).T * users).long()
    earlier = torch.ones(draws, draws, dtype=torch.bool, device=ids.device).tril(-1)
    repeated = ((drawn.unsqueeze(-1) == drawn.unsqueeze(-2)) & earlier).any(-1)
    return drawn.gather(-1, repeated.long().argsort(dim=-1, stable=True)[:, :num_arms])
