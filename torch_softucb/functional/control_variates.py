"""What is subtracted from a reward to go before it credits a draw: less noise, no bias."""

import torch
from torch import Tensor


def leave_one_out(values: Tensor) -> Tensor:  # (T, R, P) -> (T, R, P)
    """Each value minus the mean over the other R trajectories of the same problem; with R = 1, over the other problems.

    Example:
        >>> leave_one_out(torch.tensor([[[1.0], [2.0], [6.0]]])).flatten()  # 1 - 4, 2 - 3.5, 6 - 1.5
        tensor([-3.0000, -1.5000,  4.5000])
    """
    axis = 1 if values.shape[1] > 1 else 2
    count = values.shape[axis]
    return values if count == 1 else (values - values.mean(axis, keepdim=True)) * (count / (count - 1))


_ENOUGH = 4  # trajectories in each half of the problems, for each number of the state


def enough_to_fit(state: Tensor) -> bool:  # (T, R, P, F)
    """Are there enough trajectories to fit from?"""
    return state.shape[1] * (state.shape[2] // 2) >= _ENOUGH * state.shape[3]


def linear_prediction(
    state: Tensor,  # (T, R, P, F) what is known before the draw
    target: Tensor,  # (T, R, P)
) -> Tensor:  # (T, R, P)
    """What a linear function of the state foretells of the target, round by round.

    Fitted on the other half of the problems (the even ones for the odd ones and back), so that no trajectory helps to
    centre its own. Needs two problems.

    Example:
        >>> state = torch.arange(8.0).view(1, 1, 8, 1)
        >>> linear_prediction(state, 3 * state.squeeze(-1)).round(decimals=1).flatten()
        tensor([ 0.,  3.,  6.,  9., 12., 15., 18., 21.])
    """
    half = torch.arange(target.shape[-1], device=target.device) % 2 == 0
    found = torch.empty_like(target)
    for own in (half, ~half):
        found[..., own] = _fitted(state[..., ~own, :], target[..., ~own], state[..., own, :])
    return found


def _fitted(state: Tensor, target: Tensor, at: Tensor) -> Tensor:  # (T, R, p, F), (T, R, p), (T, R, q, F) -> (T, R, q)
    """Least squares of every round; a trace of ridge, as early rounds tell nothing apart."""
    x, y = state.flatten(1, 2).double(), target.flatten(1).double()
    gram = x.mT @ x
    size = gram.diagonal(dim1=-2, dim2=-1)
    ridge = torch.diag_embed(1e-3 * size + 1e-9 * size.amax(-1, keepdim=True) + 1e-30)
    weights: Tensor = torch.linalg.solve(gram + ridge, x.mT @ y.unsqueeze(-1))  # (T, F, 1)
    return (at.flatten(1, 2).double() @ weights).squeeze(-1).view(at.shape[:-1]).to(target.dtype)
