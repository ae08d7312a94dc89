"""A test of logged draws against the probabilities that were stated for them."""

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_ids, check_float_tensor, check_integer, check_not_negative, check_shape

_ROUNDING = 1e-3  # allowed distance of a row's sum from 1


def propensity_check(
    probs: Tensor,  # (n, K)
    arm: Tensor,  # (n,) int64
    *,
    bins: int = 20,
    seed: int = 0,
) -> tuple[float, float]:
    r"""Test whether arms were drawn with their stated probabilities, which may differ from decision to decision.

    Each draw becomes :math:`u_i = \sum_{a < a_i} p_{i,a} + v_i p_{i,a_i}` with a random :math:`v_i` in [0, 1). If the arms
    follow their probabilities, the :math:`u_i` are independent and uniform; a chi-square test compares their counts in
    equal bins. Raise an alarm if the p-value is below the rate of false alarms that you accept, such as 1e-6.

    With 20 bins and that rate, draws that follow :math:`q` are missed with a probability below 1e-6 if n is at least
    :math:`140 / \sum_j 20 (q_j - 1/20)^2`, where :math:`q_j` is the probability of bin j under :math:`q`. For two arms of
    probability 1/2 of which one is drawn 1% too often (0.51), this is n = 350,000.

    Args:
        probs: probabilities of all arms at each decision, 0 at masked ones.
        arm: arms that were drawn.
        bins: number of bins; n must be at least 5 times this.
        seed: seed of the random numbers v.

    Returns:
        the chi-square statistic with ``bins - 1`` degrees of freedom, and its p-value. An arm that was drawn although its
        probability is 0 gives infinity and 0.

    Example:
        >>> probs = torch.tensor([[0.25, 0.75]]).expand(4000, 2)
        >>> arm = torch.multinomial(probs, 1, generator=torch.Generator().manual_seed(0)).squeeze(-1)
        >>> propensity_check(probs, arm)[1] > 1e-6
        True
        >>> propensity_check(probs.flip(-1), arm)[1] > 1e-6
        False
    """
    where = "propensity_check"
    check_integer(where, "bins", bins, low=2)
    check_integer(where, "seed", seed, low=0)
    check_float_tensor(where, "probs", probs)
    check_shape(where, "probs", probs.shape, probs.dim() == 2 and len(probs) >= 5 * bins, f"(n, K), n >= {5 * bins}")
    check_arm_ids(where, arm, probs.shape[:1], probs.shape[1])
    check_not_negative(where, "probs", probs)
    p = probs.detach().double()
    total = p.sum(-1)
    off = ~((total - 1).abs() < _ROUNDING)
    if bool(off.any()):
        row = int(off.nonzero()[0])
        raise ValueError(f"{where}: probs must sum to 1 in every row, got {float(total[row]):.4g} in row {row}")
    index = arm.unsqueeze(-1)
    own = p.gather(-1, index).squeeze(-1)
    if bool((own == 0).any()):
        return torch.inf, 0.0
    below = p.cumsum(-1).gather(-1, index).squeeze(-1) - own
    v = torch.rand(len(p), generator=torch.Generator().manual_seed(seed), dtype=torch.double).to(p.device)
    cell = (bins * (below + v * own) / total).long().clamp(0, bins - 1)
    expected = len(p) / bins
    statistic = float((torch.bincount(cell, minlength=bins).double() - expected).square().sum() / expected)
    half = torch.tensor([(bins - 1) / 2, statistic / 2], dtype=torch.double)
    return statistic, float(torch.special.gammaincc(half[0], half[1]))
