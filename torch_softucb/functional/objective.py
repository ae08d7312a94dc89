"""What beta is trained on: offline Eqs. 10-11, online Eqs. 14-15, reward and penalty always apart (departure D4)."""

from typing import NamedTuple

from torch import Tensor

from torch_softucb.checks import check_arm_axis, check_mask, check_number, check_shape
from torch_softucb.functional._checks import check_round
from torch_softucb.functional.gradient import expected_reward


class Objective(NamedTuple):
    reward: Tensor  # (*B,) mean over rounds of sum_i p_i mu_hat_i
    penalty: Tensor  # (*B,) mean over rounds of eta sum_i (beta width_i - |mu_i - mu_hat_i|)


class OnlineGradient(NamedTuple):
    gradient: Tensor  # (*B,) Eq. 15
    past: Tensor  # (*B,) sum of the reward gradients of the rounds so far: carry it to the next round


def sum_width(width: Tensor, *, mask: Tensor | None = None) -> Tensor:  # (*B, K) -> (*B,)
    """Sum of the allowed arms' widths: the gradient in beta of the penalty at eta = 1.

    Example:
        >>> sum_width(torch.tensor([1.0, 2.0]), mask=torch.tensor([True, False]))
        tensor(1.)
    """
    return (width if mask is None else width.masked_fill(~mask, 0.0)).sum(-1)


def offline_objective(
    beta: Tensor,  # () or (*B,)
    mu_hat: Tensor,  # (T, *B, K)
    width: Tensor,  # (T, *B, K)
    gamma: Tensor,  # (T, *B)
    *,
    eta: float,
    means: Tensor | None = None,  # (*B, K)
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Objective:
    """Lagrangian of the offline problem, Eq. 11, divided by T; its gradient in beta is Eq. 13 / T.

    Departure D4: eta * width is read inside both sums, over arms and rounds. ``means`` completes the penalty's value when
    the truth is known; it does not change the gradient.

    Example:
        >>> mu_hat, width = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, 1.0]]])  # T = B = 1, K = 2
        >>> offline_objective(torch.tensor(1.0), mu_hat, width, torch.tensor([[2.0]]), eta=0.1)
        Objective(reward=tensor([0.5000]), penalty=tensor([0.1000]))
    """
    where = "offline_objective"
    eta = check_number(where, "eta", eta, low=0.0)
    check_arm_axis(where, "mu_hat", mu_hat)
    check_shape(where, "mu_hat", mu_hat.shape, mu_hat.dim() >= 2, "(T, *B, K)")
    batch = mu_hat.shape[1:-1]
    check_shape(where, "beta", beta.shape, beta.shape in ((), batch), f"() or {tuple(batch)}")
    check_mask(where, mask, mu_hat.shape[1:])
    every = None if mask is None else mask.expand(mu_hat.shape)
    reward = expected_reward(beta.expand(mu_hat.shape[:-1]), mu_hat, width, gamma, mask=every)
    slack = beta.unsqueeze(-1) * width
    if means is not None:
        slack = slack - (means - mu_hat).abs()
    return Objective(reward.mean(0), eta * sum_width(slack, mask=every).mean(0))


def online_objective(
    value: Tensor,  # (*B,) sum_i p_i mu_hat_i of the current round
    past: Tensor,  # (*B,) the same, summed over the rounds s <= t
    *,
    t: int,
    horizon: int,
) -> Tensor:  # (*B,)
    """Average reward as seen from round t, Eq. 14: what was had, and the current round repeated to the horizon.

    Example:
        >>> online_objective(torch.tensor(0.5), torch.tensor(0.8), t=2, horizon=4)  # (0.8 + 2 * 0.5) / 4
        tensor(0.4500)
    """
    check_round("online_objective", t, horizon)
    return (past + (horizon - t) * value) / horizon  # Eq. 14


def online_gradient(
    gradient: Tensor,  # (*B,) reward gradient of the current round
    past: Tensor,  # (*B,) sum of those of the rounds s < t
    widths: Tensor,  # (*B,) sum_width of the current round
    *,
    t: int,
    horizon: int,
    eta: float,
) -> OnlineGradient:
    """Gradient of Eq. 14 with its penalty, Eq. 15, in O(1) memory in t (departure D10).

    Each past round's gradient enters as it was computed then, under the beta of that round.

    Example:
        >>> online_gradient(torch.tensor(-0.5), torch.tensor(-1.0), torch.tensor(4.0), t=2, horizon=4, eta=0.5)
        OnlineGradient(gradient=tensor(-0.1250), past=tensor(-1.5000))
    """
    check_round("online_gradient", t, horizon)
    eta = check_number("online_gradient", "eta", eta, low=0.0)
    past = past + gradient
    total = past + (horizon - t) * gradient + eta * widths  # Eq. 15
    return OnlineGradient(total / horizon, past)
