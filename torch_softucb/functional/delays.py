"""Distribution of the delays of rewards, of which some have not arrived yet."""

import torch
from torch import Tensor


def delay_probabilities(delay: Tensor, later: Tensor) -> Tensor:  # (n,) int64, (n,) int64 -> (D + 1,)
    """Kaplan-Meier estimate of the probabilities of 0, 1, ... rounds of delay, up to the largest that was seen.

    The chance that a reward arrives after k rounds if it has not arrived before comes from the decisions that were followed
    by more than k rounds. What the probabilities lack to 1 is the share of the rewards that do not arrive.

    Args:
        delay: number of rounds until the reward of each decision arrived; at least ``later`` if it did not.
        later: number of rounds that followed each decision.

    Returns:
        The probabilities, float64; empty if no reward arrived before a later round.

    Example:
        >>> delay_probabilities(torch.tensor([0, 1, 9, 9]), torch.tensor([4, 3, 2, 1]))
        tensor([0.2500, 0.3750], dtype=torch.float64)
    """
    last = torch.minimum(delay, later - 1)  # the last number of rounds after which the reward could be seen to arrive
    at_risk = torch.bincount(last[last >= 0]).flip(0).cumsum(0).flip(0)
    arrived = torch.bincount(delay[delay <= last])
    still_open = (1 - arrived.double() / at_risk[: len(arrived)]).cumprod(0)
    return torch.cat((still_open.new_ones(1), still_open)).diff().neg()
