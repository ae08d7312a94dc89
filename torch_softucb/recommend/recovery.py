"""Restore a head after a crash, from its last checkpoint and the log records written since."""

import os
import pickle
import zipfile
from pathlib import Path

import torch
from torch import Tensor

from torch_softucb.atomic_io import unreadable_file, whole_file
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.recommend.head import SoftUCBHead
from torch_softucb.recommend.log.reader import log_records
from torch_softucb.recommend.log.segments import Place, segments
from torch_softucb.recommend.log.writer import DecisionLog
from torch_softucb.recommend.online_beta import OnlineBeta


def save_checkpoint(
    path: str | os.PathLike[str], head: SoftUCBHead, log: DecisionLog, learner: OnlineBeta | None = None
) -> None:
    """Write the head's state and its place in the log; a crash leaves the old file or the new one, never a part.

    Args:
        path: file to write.
        head: head to save.
        log: log of the head's decisions; it is committed first.
        learner: learner of the head's beta, if there is one.
    """
    log.commit()
    state = {"head": head.state_dict(), "segment": log.place.segment, "record": log.place.record}
    if learner is not None:
        state["learner"] = learner.state_dict()
    with whole_file(path) as file:
        torch.save(state, file)


def restart(
    head: SoftUCBHead,
    folder: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str] | None = None,
    learner: OnlineBeta | None = None,
) -> int:
    """Bring a head to the end of the log in ``folder``.

    Statistics, open decisions and ids are then those of a run without interruption, and beta is that of the last decision.
    What the log does not record is as it was at the checkpoint: calibration, refits and the learner's sums. Call this
    before a new DecisionLog opens the folder.

    Args:
        head: head with the settings of the one that was interrupted.
        folder: folder of its DecisionLog.
        checkpoint: file of :func:`save_checkpoint`; without it the whole log is processed.
        learner: learner of the head's beta, if there is one.

    Returns:
        The number of log records after the checkpoint.

    Raises:
        ValueError: if there is no log, the checkpoint cannot be read, or the two do not belong together.
    """
    start = Place(0, 0) if checkpoint is None else _load(checkpoint, head, learner)
    numbers = segments(Path(folder))
    if not numbers:
        raise ValueError(f"restart: {folder} holds no decision log; use the folder of the head's DecisionLog")
    if start.segment > max(numbers):
        raise ValueError(
            f"restart: the checkpoint is ahead of the log in {folder}: they do not belong together; use the folder that "
            "the checkpoint was saved with"
        )
    count, betas = 0, None
    for record_type, columns in log_records(folder, start):
        rows = {name: torch.from_numpy(values.copy()) for name, values in columns.items()}
        count += 1
        if record_type == "rewards":
            _repeat_feedback(head, rows["id"], rows["reward"])
            continue
        new = head.restore_open(rows["id"], rows["x"], rows["bandit"])
        known = new & ~rows["beta"].isnan()
        if bool(known.any()) and isinstance(head.policy, SoftUCBPolicy) and head.policy.beta_module is None:
            betas = head.policy.beta.detach().clone() if betas is None else betas
            _set_betas(betas, rows["beta"][known], rows["bandit"][known])
    if betas is not None:
        head.policy.beta = betas
    return count


def _load(checkpoint: str | os.PathLike[str], head: SoftUCBHead, learner: OnlineBeta | None) -> Place:
    try:
        saved = torch.load(checkpoint, weights_only=True)
        place = Place(saved["segment"], saved["record"])
    except (RuntimeError, EOFError, KeyError, zipfile.BadZipFile, pickle.UnpicklingError, OSError) as error:
        raise unreadable_file(checkpoint, error) from error
    head.load_state_dict(saved["head"])
    if learner is not None and "learner" in saved:
        learner.load_state_dict(saved["learner"])
    return place


def _repeat_feedback(head: SoftUCBHead, ids: Tensor, reward: Tensor) -> None:  # (n,), (n,)
    """Apply logged rewards to the decisions that are open; NaN marks one that was dropped."""
    head.drop(ids[reward.isnan()])
    still = head.is_open(ids)
    if bool(still.any()):
        head.feedback(ids[still], reward[still], on_repeat="ignore")


def _set_betas(betas: Tensor, logged: Tensor, bandit: Tensor) -> None:  # () or (*B,), (n,), (n,)
    """Overwrite betas, one for all or one per bandit, with those of logged decisions."""
    if betas.dim():
        betas[bandit] = logged.to(betas)
    else:
        betas.copy_(logged[-1])
