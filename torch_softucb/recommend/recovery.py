"""A head after a crash: its last checkpoint, and what the log says happened since."""

import os
import pickle
import zipfile
from pathlib import Path

import torch
from torch import Tensor

from torch_softucb.atomic_io import unreadable_file, whole_file
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.recommend._checks import check_log_place
from torch_softucb.recommend.head import SoftUCBHead
from torch_softucb.recommend.log.reader import log_records
from torch_softucb.recommend.log.writer import DecisionLog, Place, segments
from torch_softucb.recommend.online_beta import OnlineBeta


def save_checkpoint(
    path: str | os.PathLike[str], head: SoftUCBHead, log: DecisionLog, learner: OnlineBeta | None = None
) -> None:
    """Write the head's state and the log's place, whole at every moment."""
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
    """Bring a head to where the log in ``folder`` ends; returns the number of records that came after the checkpoint.

    Without a checkpoint the whole log is played. Statistics, open decisions and ids are those of a run that was not
    interrupted, and beta is the one of the last decision. What no log entry tells is as it was at the checkpoint:
    calibration, refits and the learner's sums. Call it before the folder is opened by a new DecisionLog.
    """
    start = Place(0, 0)
    if checkpoint is not None:
        try:
            saved = torch.load(checkpoint, weights_only=True)
            start = Place(saved["segment"], saved["record"])
        except (RuntimeError, EOFError, KeyError, zipfile.BadZipFile, pickle.UnpicklingError, OSError) as error:
            raise unreadable_file(checkpoint, error) from error
        head.load_state_dict(saved["head"])
        if learner is not None and "learner" in saved:
            learner.load_state_dict(saved["learner"])
    known = segments(Path(folder))
    check_log_place("restart", folder, there=bool(known), beyond=start.segment > max(known, default=0))
    count = 0
    for kind, columns in log_records(folder, start):
        rows = {name: torch.from_numpy(values.copy()) for name, values in columns.items()}
        count += 1
        if kind == "rewards":
            _take_in(head, rows["id"], rows["reward"])
        else:
            _open(head, rows)
    return count


def _take_in(head: SoftUCBHead, ids: Tensor, reward: Tensor) -> None:
    """Rewards of decisions that are open; NaN says that one was dropped."""
    head.drop(ids[reward.isnan()])
    still = torch.tensor([i in head.pending for i in ids.tolist()])
    if bool(still.any()):
        head.feedback(ids[still], reward[still], on_repeat="ignore")


def _open(head: SoftUCBHead, rows: dict[str, Tensor]) -> None:
    new = torch.tensor([not head.has_given(i) for i in rows["id"].tolist()])
    if not bool(new.any()):  # served before the checkpoint, logged after it
        return
    ids, x, bandit, beta = (rows[name][new] for name in ("id", "x", "bandit", "beta"))
    head.pending.add(ids, x, bandit if head.policy.batch_shape else None)
    head.continue_after(int(ids[-1]))
    if isinstance(head.policy, SoftUCBPolicy) and head.policy.beta_module is None:
        raw = head.policy.raw_beta.data
        raw[bandit if raw.dim() else ()] = beta.to(raw) if raw.dim() else beta[-1].to(raw)
