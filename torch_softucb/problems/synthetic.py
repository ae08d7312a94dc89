"""Synthetic linear bandits (Sec. 5), with an optional drift of the rewards."""

import torch
from torch.nn.functional import normalize

from torch_softucb.checks import check_integer, check_number
from torch_softucb.problems._checks import check_rotation_dim
from torch_softucb.problems.base import BanditProblem
from torch_softucb.rng import normals, stream_key, uniforms


def synthetic_problem(
    *,
    num_problems: int = 1,
    num_arms: int = 50,
    dim: int = 10,
    noise_std: float = 0.5,
    drift_rate: float = 0.0,
    first: int = 0,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> BanditProblem:
    """Draw random linear bandits with Gaussian noise (Sec. 5).

    Arms are drawn uniformly from [-1, 1]^d and scaled to length 1; theta is a random unit vector. The i-th problem depends
    on the state of the generator and on i, not on ``num_problems``.

    Args:
        num_problems: number of bandits B.
        num_arms: number of arms K of each.
        dim: number of features d.
        noise_std: standard deviation of the reward noise.
        drift_rate: angle in radians per round by which theta rotates in a random plane; 0 for rewards that do not drift.
        first: index of the first problem to generate. Processes that share a batch each generate their own part of it.
        generator: source of the seed; torch's default generator if None.
        device: device of the tensors.
        dtype: dtype of arms and means.

    Returns:
        Problems with ``arms`` of shape ``(B, K, d)``, ``means`` of shape ``(B, K)`` and ids counted from ``first``.

    Example:
        >>> problem = synthetic_problem(num_problems=3, generator=torch.Generator().manual_seed(0))
        >>> problem.arms.shape, problem.means.shape
        (torch.Size([3, 50, 10]), torch.Size([3, 50]))
    """
    where = "synthetic_problem"
    count = check_integer(where, "num_problems", num_problems, low=1)
    num_arms = check_integer(where, "num_arms", num_arms, low=1)
    dim = check_integer(where, "dim", dim, low=1)
    noise_std = check_number(where, "noise_std", noise_std, low=0.0)
    drift_rate = check_number(where, "drift_rate", drift_rate, low=0.0)
    first = check_integer(where, "first", first, low=0)
    if drift_rate:
        check_rotation_dim(where, dim)
    like = torch.empty(0, device=device, dtype=dtype)
    key, ids = stream_key(generator, "problem", like.device), torch.arange(first, first + count, device=like.device)
    size = num_arms * dim
    cube = 2 * uniforms(key, ids, start=0, count=size, dtype=like.dtype) - 1  # (K d, B)
    arms = normalize(cube.T.reshape(count, num_arms, dim).contiguous(), dim=-1)
    theta = normalize(normals(key, ids, start=size, count=dim, dtype=like.dtype).T, dim=-1)
    means = (arms @ theta.unsqueeze(-1)).squeeze(-1)
    if not drift_rate:
        return BanditProblem(arms, means, noise_std, ids=ids)
    other = normals(key, ids, start=size + dim, count=dim, dtype=like.dtype).T
    rotated = normalize(other - (other * theta).sum(-1, keepdim=True) * theta, dim=-1)  # unit and orthogonal to theta
    rotated_means = (arms @ rotated.unsqueeze(-1)).squeeze(-1)
    return BanditProblem(arms, means, noise_std, ids=ids, rotated_means=rotated_means, drift_rate=drift_rate)
