"""Checks of a log that a policy is learned from."""

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_ids, check_number, check_shape
from torch_softucb.functional.scales import ALL_EQUAL, RegressionSums
from torch_softucb.problems._checks import check_delay_probabilities, check_rounds_late


def check_dense_ids(where: str, num_rows: int, num_bandits: int) -> None:
    """Require bandit ids that are close to 0 .. num_bandits - 1, since memory is allocated up to the largest id."""
    if num_rows > 64 * num_bandits + 4096:
        raise ValueError(
            f"{where}: bandit ids must be rows of the statistics, from 0, got {num_bandits} bandits with ids up to "
            f"{num_rows - 1}; renumber them, for example with torch.unique(bandit, return_inverse=True)"
        )


def check_user_ids(where: str, user: object, count: int) -> None:
    """Require one int64 id of at least 0 per row."""
    if not isinstance(user, Tensor) or user.dtype != torch.int64:
        got = f"dtype {user.dtype}" if isinstance(user, Tensor) else type(user).__name__
        raise TypeError(f"{where}: user must be an int64 tensor of user ids, got {got}")
    check_shape(where, "user", user.shape, user.shape == (count,), f"({count},), one per row of x")
    if bool((user < 0).any()):
        row = int((user < 0).nonzero()[0])
        raise ValueError(f"{where}: user ids must be at least 0, got {int(user[row])} in row {row}")


def check_several_users(where: str, count: int) -> None:
    """Require at least two users with separate rewards."""
    if count < 2:
        raise ValueError(
            f"{where}: the rewards of at least two users are needed to see how users differ, got {count}; for statistics "
            "that all users share, use GaussianPrior.from_linear with a model that was trained on all of them"
        )


def check_one_problem(where: str, batch: torch.Size) -> None:
    """Require a single problem."""
    if batch:
        raise ValueError(f"{where}: problem must be a single one, got a batch {tuple(batch)}; use problem[0]")


def check_chosen_arms(
    where: str,
    arm: Tensor,  # (n,)
    mask: Tensor,  # (n, K)
    features: Tensor | None = None,  # (n, K, d)
    x: Tensor | None = None,  # (n, d)
) -> None:
    """Require that every arm is the position of an allowed candidate whose features are x."""
    check_arm_ids(where, arm, mask.shape[:1], mask.shape[1])
    allowed = mask.gather(1, arm.unsqueeze(-1)).squeeze(-1)
    if not bool(allowed.all()):
        row = int((~allowed).nonzero()[0])
        raise ValueError(
            f"{where}: arm must be an allowed candidate, got {int(arm[row])} in row {row}, whose candidate id is negative"
        )
    if features is not None and x is not None:
        same = (features[torch.arange(len(arm), device=arm.device), arm] == x).all(-1)
        if not bool(same.all()):
            row = int((~same).nonzero()[0])
            raise ValueError(
                f"{where}: features must have x at position arm, got another vector in row {row} and in "
                f"{int((~same).sum()) - 1} more; arm counts the candidates of a decision from 0"
            )


def check_enough_rewards(where: str, sums: RegressionSums) -> None:
    """Require more rewards than features, and rewards that are not all equal."""
    dim, count = sums.sum_x.shape[-1], int(sums.num_observations.sum())
    if count <= dim:
        raise ValueError(
            f"{where}: the number of rewards must be above the number of features, {dim}, got {count}; use a longer log, or "
            "fewer features"
        )
    mean, energy = float(sums.sum_y.sum()) / count, float(sums.energy.sum())
    if energy - count * mean**2 <= ALL_EQUAL * energy:
        raise ValueError(
            f"{where}: rewards must differ, got {mean:g} in all {count} decisions; nothing can be learned from them"
        )


def check_split(where: str, cut: int, count: int) -> None:
    """Require two decisions on either side of the split, the least for a standard deviation."""
    if cut < 2 or count - cut < 2:
        raise ValueError(
            f"{where}: share must leave at least two decisions on either side, got {cut} and {count - cut} of {count}; "
            "use a longer log, or another share"
        )


def check_candidates_known(where: str, known: bool) -> None:
    """Require candidate sets that were offered, not random ones."""
    if not known:
        raise ValueError(
            f"{where}: the log does not contain the candidates of the decisions with their features, so the choice of "
            "another policy is unknown; log candidates= or features= with the decisions"
        )


def check_delay(where: str, delay: object) -> int | Tensor:  # (D + 1,)
    """Check a number of rounds, or the probabilities of 0, 1, ... rounds, and return it."""
    if isinstance(delay, str):
        raise TypeError(f"{where}: delay must be a number or probabilities, got {delay!r}; use logged_delays(folder)")
    if not isinstance(delay, list | tuple | Tensor):
        return check_rounds_late(where, delay)
    values = delay if isinstance(delay, Tensor) else [check_number(where, "delay", each, low=0.0) for each in delay]
    chances = torch.as_tensor(values, dtype=torch.float64)
    check_delay_probabilities(where, chances, chances.device)
    return chances
