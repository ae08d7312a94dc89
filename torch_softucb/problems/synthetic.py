"""The paper's synthetic problem, Sec. 5."""

import torch

from torch_softucb.checks import check_integer, check_number
from torch_softucb.problems._checks import check_plane
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
    """Random linear bandits: arms uniform in [-1, 1]^d, then unit; theta a random unit vector; Gaussian noise.

    The i-th problem depends on the generator's state and on i, not on ``num_problems``; ``first`` is the number of the first
    that is made, so that processes can make a share each. With ``turn`` above 0 the rewards drift: theta turns by so many
    radians a round, in a random plane.

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
    like = torch.empty(0, device=device, dtype=dtype)
    first = check_integer(where, "first", first, low=0)
    key, ids = stream_key(generator, "problem", like.device), torch.arange(first, first + count, device=like.device)
    size = num_arms * dim
    cube = 2 * uniforms(key, ids, start=0, count=size, dtype=like.dtype) - 1  # (K d, B)
    arms = torch.nn.functional.normalize(cube.T.reshape(count, num_arms, dim).contiguous(), dim=-1)
    theta = torch.nn.functional.normalize(normals(key, ids, start=size, count=dim, dtype=like.dtype).T, dim=-1)
    means = (arms @ theta.unsqueeze(-1)).squeeze(-1)
    if not check_number(where, "drift_rate", drift_rate, low=0.0):
        return BanditProblem(arms, means, noise_std, ids=ids)
    check_plane(where, dim)
    other = normals(key, ids, start=size + dim, count=dim, dtype=like.dtype).T
    other = torch.nn.functional.normalize(other - (other * theta).sum(-1, keepdim=True) * theta, dim=-1)
    return BanditProblem(
        arms, means, noise_std, ids=ids, rotated_means=(arms @ other.unsqueeze(-1)).squeeze(-1), drift_rate=drift_rate
    )
