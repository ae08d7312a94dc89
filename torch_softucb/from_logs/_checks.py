"""Checks of logs that are learned from."""

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_ids


def check_dense_ids(where: str, rows: int, met: int) -> None:
    """Ids are rows of the statistics: far-off ones would ask for memory that nobody uses."""
    if rows > 64 * met + 4096:
        raise ValueError(
            f"{where}: bandit ids must be rows of the statistics, from 0, got {met} bandits with ids up to {rows - 1}; "
            "number them anew"
        )


def check_one_problem(where: str, batch: torch.Size) -> None:
    if batch:
        raise ValueError(
            f"{where}: problem must be a single one, got a batch {tuple(batch)}; choose one of it, as problem[0]"
        )


def check_chosen(where: str, arm: Tensor, mask: Tensor, features: Tensor | None = None, x: Tensor | None = None) -> None:
    """A log's arm is a place in its candidate list, that of x."""
    check_arm_ids(where, arm, mask.shape[:1], mask.shape[1])
    allowed = mask.gather(1, arm.unsqueeze(-1)).squeeze(-1)
    if not bool(allowed.all()):
        row = int((~allowed).nonzero()[0])
        raise ValueError(f"{where}: arm must be an allowed candidate, got {int(arm[row])} in row {row}, which is not one")
    if features is not None and x is not None:
        same = (features[torch.arange(len(arm), device=arm.device), arm] == x).all(-1)
        if not bool(same.all()):
            row = int((~same).nonzero()[0])
            raise ValueError(
                f"{where}: features must have x at the place of arm, got another vector in row {row} and in "
                f"{int((~same).sum()) - 1} more; arm is a place in the list of candidates, from 0"
            )


def check_rewards_there(where: str, reward: Tensor, dim: int) -> None:
    count = len(reward)
    if count > dim and bool((reward == reward[0]).all()):
        raise ValueError(f"{where}: rewards must differ to say anything of x, got {float(reward[0]):g} in all {count}")
    if count <= dim:
        raise ValueError(
            f"{where}: more rewards are needed than theta has components, {dim}, got {count}; bring a longer log, or fewer "
            "features"
        )


def check_part(where: str, cut: int, count: int) -> None:
    if cut < 2 or count - cut < 2:
        raise ValueError(
            f"{where}: share must leave at least two decisions on either side, got {cut} and {count - cut} of {count}; "
            "bring a longer log, or another share"
        )


def check_offered_known(where: str, known: bool) -> None:
    if not known:
        raise ValueError(
            f"{where}: the log does not say what was on offer, and what the policy would have chosen cannot be known; log "
            "candidates= or features= with the decisions"
        )
