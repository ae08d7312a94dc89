"""Standard errors of means, and ratios of mean regrets on the same problems."""

import math

from torch import Tensor


def standard_error(
    values: Tensor,  # (N,) independent
) -> float:
    """Return the standard error of the mean.

    Example:
        >>> standard_error(torch.tensor([1.0, 3.0]))  # deviation sqrt(2), over sqrt(2)
        1.0
    """
    return float(values.std() / math.sqrt(len(values)))


def ratio(
    ours: Tensor,  # (N,) regret per problem
    theirs: Tensor,  # (N,) regret on the same problems
) -> tuple[float, float, float]:
    """Return the ratio of the mean regrets with the ends of its 95% interval, by the delta method on the pairs."""
    r = float(ours.mean() / theirs.mean())
    error = float((ours - r * theirs).std() / math.sqrt(len(ours)) / theirs.mean())
    return r, r - 1.96 * error, r + 1.96 * error
