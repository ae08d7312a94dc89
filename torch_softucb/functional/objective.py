"""Training objectives of beta: offline (Eqs. 10-11) and online (Eqs. 14-15), reward and penalty kept apart (D4)."""

from typing import NamedTuple

from torch import Tensor

from torch_softucb.checks import check_arm_axis, check_mask, check_number, check_shape
from torch_softucb.functional._checks import check_round
from torch_softucb.functional.gradient import expected_reward


class Objective(NamedTuple):
    """Lagrangian of the offline problem, divided by T.

    Attributes:
        reward: ``(*B,)``, mean over rounds of the estimated reward sum_i p_i mu_hat_i.
        penalty: ``(*B,)``, mean over rounds of eta sum_i (beta width_i - |mu_i - mu_hat_i|).
    """

    reward: Tensor  # (*B,)
    penalty: Tensor  # (*B,)


class OnlineGradient(NamedTuple):
    """Gradient of the online objective after one more round.

    Attributes:
        gradient: ``(*B,)``, Eq. 15.
        past: ``(*B,)``, sum of the reward gradients of all rounds so far; pass it to the next round.
    """

    gradient: Tensor  # (*B,)
    past: Tensor  # (*B,)


def sum_width(width: Tensor, *, mask: Tensor | None = None) -> Tensor:  # (*B, K) -> (*B,)
    """Sum of the allowed arms' widths: the derivative in beta of the penalty at eta = 1.

    Example:
        >>> sum_width(torch.tensor([1.0, 2.0]), mask=torch.tensor([True, False]))
        tensor(1.)
    """
    check_arm_axis("sum_width", "width", width)
    check_mask("sum_width", mask, width.shape)
    return _sum_width(width, mask)


def _sum_width(width: Tensor, mask: Tensor | None) -> Tensor:
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

    Departure D4: eta * width is taken inside both sums, over arms and rounds.

    Args:
        beta: confidence width.
        mu_hat: estimated means of every round.
        width: widths of every round.
        gamma: coldness of every round.
        eta: weight of the constraint.
        means: true means, if they are known. They complete the value of the penalty and do not change its gradient.
        mask: allowed arms.

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
    objective = _offline_objective(reward, beta, _sum_width(width, every), eta)
    if means is None:
        return objective
    return objective._replace(penalty=objective.penalty - eta * _sum_width((means - mu_hat).abs(), every).mean(0))


def _offline_objective(
    reward: Tensor,  # (n, *B) estimated reward, per round or already averaged (n = 1)
    beta: Tensor,  # broadcasts to (n, *B)
    widths: Tensor,  # (n, *B) sum of widths, likewise
    eta: float | Tensor,
) -> Objective:
    return Objective(reward.mean(0), (eta * widths * beta).mean(0))  # Eq. 11 over T


def online_objective(
    value: Tensor,  # (*B,) sum_i p_i mu_hat_i of the current round
    past: Tensor,  # (*B,) the same, summed over the rounds s <= t
    *,
    t: int,
    horizon: int,
) -> Tensor:  # (*B,)
    """Average reward as seen from round t, Eq. 14: past rounds, then the current round repeated up to the horizon.

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

    The gradient of each past round enters as it was computed in that round, under the beta of that round.

    Example:
        >>> online_gradient(torch.tensor(-0.5), torch.tensor(-1.0), torch.tensor(4.0), t=2, horizon=4, eta=0.5)
        OnlineGradient(gradient=tensor(-0.1250), past=tensor(-1.5000))
    """
    check_round("online_gradient", t, horizon)
    eta = check_number("online_gradient", "eta", eta, low=0.0)
    return _online_gradient(gradient, past, widths, t, horizon, eta)


def _online_gradient(gradient: Tensor, past: Tensor, widths: Tensor, t: int, horizon: int, eta: float) -> OnlineGradient:
    past = past + gradient
    total = past + (horizon - t) * gradient + eta * widths  # Eq. 15
    return OnlineGradient(total / horizon, past)
