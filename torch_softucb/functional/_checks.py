"""Checks of logged columns, regression sums and rounds."""

import torch
from torch import Tensor

from torch_softucb.checks import (
    check_arm_ids,
    check_finite,
    check_float_tensor,
    check_integer,
    check_not_negative,
    check_same_shape,
    check_shape,
)
from torch_softucb.errors import NumericalError


def shape_text(*sizes: int | str) -> str:
    """Format a shape that contains names, such as ``(3, K)``, for an error message."""
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"


def check_log(
    where: str,
    reward: Tensor | None,  # (n,)
    arm: Tensor | None,  # (n,)
    propensity: Tensor | None,  # (n,)
    target_probs: Tensor,  # (n, K)
    reward_hat: Tensor | None,  # (n, K)
) -> None:
    """Check the columns of a log, a target policy's probabilities and a model's rewards; None skips a column."""
    check_shape(
        where, "target_probs", target_probs.shape, target_probs.dim() == 2 and len(target_probs) > 1, "(n, K), n >= 2"
    )
    check_log_columns(where, reward, arm, propensity, target_probs.shape)
    if reward_hat is not None:
        check_same_shape(where, "reward_hat", reward_hat, "target_probs", target_probs)
        check_finite(where, "reward_hat", reward_hat)
    check_not_negative(where, "target_probs", target_probs)
    total = target_probs.detach().sum(-1)
    off = (total - 1).abs() >= 1e-3
    if bool(off.any()):
        row = int(off.nonzero()[0])
        raise ValueError(f"{where}: target_probs must sum to 1 in every row, got {float(total[row]):.4g} in row {row}")


def check_log_columns(
    where: str,
    reward: Tensor | None,  # (n,)
    arm: Tensor | None,  # (n,)
    propensity: Tensor | None,  # (n,)
    shape: torch.Size,  # (n, K, ...)
) -> None:
    """Check that the columns of a log have one finite value per decision; None skips a column."""
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


def check_overlap(where: str, weights: Tensor) -> None:  # (n,)
    """Check that the target policy could have taken at least one logged action."""
    if not bool((weights > 0).any()):
        raise ValueError(
            f"{where}: no logged action has a weight above 0: the target policy never takes a logged action, so the log "
            "holds no evidence about it; use direct_method, or a log with more exploration"
        )


def check_regression_sums(
    where: str,
    gram: Tensor,  # (*B, d, d)
    moment: Tensor,  # (*B, d)
    energy: Tensor,  # (*B,)
    count: Tensor,  # (*B,)
) -> None:
    """Check X^T X, X^T y, y^T y and n of a linear regression, or of a batch of them."""
    for name, value in (("gram", gram), ("moment", moment), ("energy", energy)):
        check_float_tensor(where, name, value)
        check_finite(where, name, value)
    d, batch = moment.shape[-1:], moment.shape[:-1]
    check_shape(where, "gram", gram.shape, moment.dim() >= 1 and gram.shape == (*batch, *d, *d), f"{(*batch, *d, *d)}")
    check_shape(where, "energy", energy.shape, energy.shape == batch, str(tuple(batch)))
    check_shape(where, "count", count.shape, count.shape == batch, str(tuple(batch)))
    if float(count.sum()) < 2 or float(count.min()) < 0:
        raise ValueError(f"{where}: count must be at least 2 observations in total, got {float(count.sum()):g}")
    if not float(energy.sum()) > 0:
        raise ValueError(
            f"{where}: energy must be above 0, got {float(energy.sum()):g}: all rewards are 0, so nothing can be estimated"
        )
    lowest, largest = (float(v) for v in torch.linalg.eigvalsh(gram.double()).aminmax())
    asymmetry = float((gram - gram.mT).abs().max())
    if not largest > 0 or lowest < -1e-6 * largest or asymmetry > 1e-6 * largest:
        raise ValueError(
            f"{where}: gram must be X^T X, symmetric and positive semi-definite but not 0, got eigenvalues from "
            f"{lowest:g} to {largest:g} and an asymmetry of {asymmetry:g}"
        )


def check_evidence(where: str, *, unexplained: float, no_effect: bool) -> None:
    """Check that the noise estimate is numerically meaningful.

    Args:
        where: function that error messages begin with.
        unexplained: share of y^T y that the model leaves unexplained.
        no_effect: the evidence is largest at theta = 0.
    """
    if no_effect:
        raise ValueError(
            f"{where}: the rewards show no dependence on x: the most likely theta is 0, so there is nothing to explore; "
            "check that x and reward belong together, or use more data"
        )
    if unexplained < 1e-12:
        raise NumericalError(
            f"{where}: the rewards follow x without noise, to rounding ({unexplained:.1g} of y^T y is unexplained); a "
            "posterior needs noise, and without noise there is nothing to explore"
        )


def check_round(where: str, t: int, horizon: int) -> None:
    """Check that round ``t`` is in [1, horizon]."""
    check_integer(where, "horizon", horizon, low=1)
    check_integer(where, "t", t, low=1)
    if t > horizon:
        raise ValueError(f"{where}: t must be in [1, horizon], got t {t} and horizon {horizon}")
