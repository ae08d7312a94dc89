"""Expected regret of a round, Eq. 2, from the true means: never from noisy rewards."""

from torch import Tensor

from torch_softucb.checks import check_arm_axis, check_mask, check_shape
from torch_softucb.functional.softmax import masked


def expected_regret(
    probs: Tensor,  # (*B, K)
    means: Tensor,  # (*B, K)
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B,)
    """Best allowed mean less the policy's: mu_star - sum_i p_i mu_i, one round of Eq. 2.

    Example:
        >>> expected_regret(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
        tensor(0.5000)
    """
    check_arm_axis("expected_regret", "probs", probs)
    check_shape("expected_regret", "means", means.shape, means.shape == probs.shape, f"of probs {tuple(probs.shape)}")
    check_mask("expected_regret", mask, means.shape)
    return _expected_regret(probs, means, masked(means, mask).amax(-1), dim=-1)


def _expected_regret(
    probs: Tensor,  # (*B, K), or (K, *B)
    means: Tensor,  # the same shape
    best: Tensor,  # (*B,) largest allowed mean
    *,
    dim: int,  # where the arms are
) -> Tensor:  # (*B,)
    return best - (probs * means).sum(dim)  # Eq. 2
