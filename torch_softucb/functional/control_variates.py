"""Control variates: terms subtracted from the reward-to-go that reduce the variance of the gradient without bias."""

import torch
from torch import Tensor

from torch_softucb.checks import check_shape
from torch_softucb.functional._checks import shape_text

_TRAJECTORIES_PER_FEATURE = 4  # in each half of the problems


def leave_one_out(values: Tensor) -> Tensor:  # (T, R, P) -> (T, R, P)
    """Subtract from each value the mean over the other trajectories of the same problem.

    Args:
        values: one value per round, replicate and problem. With R = 1 the mean is over the other problems instead; with
            R = P = 1 there is nothing to subtract.

    Example:
        >>> leave_one_out(torch.tensor([[[1.0], [2.0], [6.0]]])).flatten()  # 1 - 4, 2 - 3.5, 6 - 1.5
        tensor([-3.0000, -1.5000,  4.5000])
    """
    check_shape("leave_one_out", "values", values.shape, values.dim() == 3, "(T, R, P)")
    axis = 1 if values.shape[1] > 1 else 2
    count = values.shape[axis]
    return values if count == 1 else (values - values.mean(axis, keepdim=True)) * (count / (count - 1))


def enough_to_fit(state: Tensor) -> bool:  # (T, R, P, F)
    """Return whether there are enough trajectories for :func:`linear_prediction`: four per feature in each half."""
    check_shape("enough_to_fit", "state", state.shape, state.dim() == 4, "(T, R, P, F)")
    return state.shape[1] * (state.shape[2] // 2) >= _TRAJECTORIES_PER_FEATURE * state.shape[3]


def linear_prediction(
    state: Tensor,  # (T, R, P, F)
    target: Tensor,  # (T, R, P)
) -> Tensor:  # (T, R, P)
    """Predict the target by a linear function of the state, fitted separately in each round.

    The prediction for even problems is fitted on the odd ones and vice versa, so that no trajectory influences its own
    control variate.

    Args:
        state: features known before the draw.
        target: values to predict, for at least two problems.

    Example:
        >>> state = torch.arange(8.0).view(1, 1, 8, 1)
        >>> linear_prediction(state, 3 * state.squeeze(-1)).round(decimals=1).flatten()
        tensor([ 0.,  3.,  6.,  9., 12., 15., 18., 21.])
    """
    enough = target.dim() == 3 and target.shape[-1] > 1
    check_shape("linear_prediction", "target", target.shape, enough, "(T, R, P) with P >= 2")
    fits = state.dim() == 4 and state.shape[:-1] == target.shape
    check_shape("linear_prediction", "state", state.shape, fits, shape_text(*target.shape, "F"))
    even = torch.arange(target.shape[-1], device=target.device) % 2 == 0
    predicted = torch.empty_like(target)
    for half in (even, ~even):
        predicted[..., half] = _fit_and_predict(state[..., ~half, :], target[..., ~half], state[..., half, :])
    return predicted


def _fit_and_predict(
    state: Tensor,  # (T, R, p, F)
    target: Tensor,  # (T, R, p)
    new_state: Tensor,  # (T, R, q, F)
) -> Tensor:  # (T, R, q)
    """Fit least squares in every round, with a tiny ridge because the states are nearly equal in early rounds."""
    x, y = state.flatten(1, 2).double(), target.flatten(1).double()
    gram = x.mT @ x
    size = gram.diagonal(dim1=-2, dim2=-1)
    ridge = torch.diag_embed(1e-3 * size + 1e-9 * size.amax(-1, keepdim=True) + 1e-30)
    weights: Tensor = torch.linalg.solve(gram + ridge, x.mT @ y.unsqueeze(-1))  # (T, F, 1)
    return (new_state.flatten(1, 2).double() @ weights).squeeze(-1).view(new_state.shape[:-1]).to(target.dtype)
