"""Expected regret of a round (Eq. 2), computed from the true means and never from noisy rewards."""

from torch import Tensor

from torch_softucb.checks import check_arm_axis, check_mask, check_same_shape
from torch_softucb.functional.softmax import masked


def expected_regret(
    probs: Tensor,  # (*B, K)
    means: Tensor,  # (*B, K)
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B,)
    """Best allowed mean minus the policy's expected mean, mu_star - sum_i p_i mu_i: one round of Eq. 2.

    Args:
        probs: the policy's probabilities.
        means: true mean reward of each arm.
        mask: True = allowed.

    Example:
        >>> expected_regret(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
        tensor(0.5000)
    """
    check_arm_axis("expected_regret", "probs", probs)
    check_same_shape("expected_regret", "means", means, "probs", probs)
    check_mask("expected_regret", mask, means.shape)
    return _expected_regret(probs, means, masked(means, mask).amax(-1), dim=-1)


def _expected_regret(
    probs: Tensor,  # (*B, K), or (K, *B)
    means: Tensor,  # the same shape
    best: Tensor,  # (*B,) largest allowed mean
    *,
    dim: int,  # the arm axis
) -> Tensor:  # (*B,)
    return best - (probs * means).sum(dim)  # Eq. 2
