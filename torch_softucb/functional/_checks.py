"""Checks of logged columns, sums and rounds."""

import torch
from torch import Tensor

from torch_softucb.checks import (
    check_arm_ids,
    check_finite,
    check_float_tensor,
    check_integer,
    check_not_negative,
    check_shape,
)
from torch_softucb.errors import NumericalError


def check_log(
    where: str,
    reward: Tensor | None,
    arm: Tensor | None,
    propensity: Tensor | None,
    target_probs: Tensor,
    reward_hat: Tensor | None,
) -> None:
    """Columns of a log, and what a target policy and a model say of them."""
    check_shape(
        where, "target_probs", target_probs.shape, target_probs.dim() == 2 and len(target_probs) > 1, "(n, K), n >= 2"
    )
    check_log_columns(where, reward, arm, propensity, target_probs.shape)
    if reward_hat is not None:
        shape = target_probs.shape
        check_shape(where, "reward_hat", reward_hat.shape, reward_hat.shape == shape, str(tuple(shape)))
        check_finite(where, "reward_hat", reward_hat)
    check_not_negative(where, "target_probs", target_probs)
    total = target_probs.detach().sum(-1)
    if not bool(((total - 1).abs() < 1e-3).all()):
        row = int(((total - 1).abs() >= 1e-3).nonzero()[0])
        raise ValueError(f"{where}: target_probs must sum to 1 in every row, got {float(total[row]):.4g} in row {row}")


def check_log_columns(
    where: str, reward: Tensor | None, arm: Tensor | None, propensity: Tensor | None, shape: torch.Size
) -> None:
    rows = shape[:1]
    for name, value in (("reward", reward), ("propensity", propensity)):
        if value is not None:
            check_shape(where, name, value.shape, value.shape == rows, str(tuple(rows)))
            check_finite(where, name, value)
    if arm is not None:
        check_arm_ids(where, arm, rows, shape[1])
    if propensity is not None and not bool(((propensity > 0) & (propensity <= 1)).all()):
        row = int((~((propensity > 0) & (propensity <= 1))).nonzero()[0])
        raise ValueError(f"{where}: propensity must be in (0, 1], got {float(propensity[row])} in row {row}")


def check_overlap(where: str, weights: Tensor) -> None:
    if not bool((weights > 0).any()):
        raise ValueError(
            f"{where}: no logged action has a weight above 0: the target policy never plays what was logged, and the log "
            "says nothing about it; use direct_method, or a log that explored more"
        )


def check_regression_sums(where: str, gram: Tensor, moment: Tensor, energy: Tensor, count: Tensor) -> None:
    """X^T X, X^T y, y^T y and n of a linear regression, or of a batch of them."""
    for name, value in (("gram", gram), ("moment", moment), ("energy", energy)):
        check_float_tensor(where, name, value)
        check_finite(where, name, value)
    d, batch = moment.shape[-1:], moment.shape[:-1]
    check_shape(where, "gram", gram.shape, moment.dim() >= 1 and gram.shape == (*batch, *d, *d), f"{(*batch, *d, *d)}")
    check_shape(where, "energy", energy.shape, energy.shape == batch, str(tuple(batch)))
    check_shape(where, "count", count.shape, count.shape == batch, str(tuple(batch)))
    if float(count.sum()) < 2 or float(count.min()) < 0:
        raise ValueError(f"{where}: count must be at least 2 observations in all, got {float(count.sum()):g}")
    if not float(energy.sum()) > 0:
        raise ValueError(
            f"{where}: energy must be above 0, got {float(energy.sum()):g}: every reward is 0, which says nothing"
        )
    lowest, largest = (float(v) for v in torch.linalg.eigvalsh(gram.double()).aminmax())
    uneven = float((gram - gram.mT).abs().max())
    if not largest > 0 or lowest < -1e-6 * largest or uneven > 1e-6 * largest:
        raise ValueError(
            f"{where}: gram must be X^T X, symmetric with eigenvalues of at least 0 and some above, got eigenvalues from "
            f"{lowest:g} to {largest:g}"
        )


def check_evidence(where: str, *, share: float, no_effect: bool) -> None:
    """What the data say of the noise can be said with the digits that there are."""
    if no_effect:
        raise ValueError(
            f"{where}: the rewards show no dependence on x: the likeliest theta is 0, and there is nothing to explore; "
            "check that x and reward belong together, or bring more data"
        )
    if share < 1e-12:
        raise NumericalError(
            f"{where}: the rewards follow x without noise, to rounding ({share:.1g} of y^T y is left); a posterior needs "
            "noise: without it there is nothing to explore"
        )


def check_round(where: str, t: int, horizon: int) -> None:
    check_integer(where, "horizon", horizon, low=1)
    check_integer(where, "t", t, low=1)
    if t > horizon:
        raise ValueError(f"{where}: t must be in [1, horizon], got t {t} and horizon {horizon}")
