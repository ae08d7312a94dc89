"""Restore a head after a crash, from its last checkpoint and the log records written since."""

import copy
import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torch_softucb.atomic_io import unreadable_file
from torch_softucb.checked_files import load_checked, save_checked
from torch_softucb.errors import JournalError
from torch_softucb.policies.guard import load_whole
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.recommend.head import SoftUCBHead
from torch_softucb.recommend.ids import issued_ends
from torch_softucb.recommend.log.codec import Columns
from torch_softucb.recommend.log.manifests import load_durable
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
    place = log.place  # before the state: records that other threads add meanwhile are replayed, which counts nothing twice
    state = {"log": log.id, "segment": place.segment, "record": place.record, "head": head.state_dict()}
    if learner is not None:
        state["learner"] = learner.state_dict()
    save_checked(path, state)


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
        ValueError: if there is no log, the checkpoint cannot be read, or it is of another log or ahead of this one. The head
            is then unchanged.
        JournalError: if the log is damaged.
    """
    folder = Path(folder)
    if not segments(folder):
        raise ValueError(f"restart: {folder} holds no decision log; use the folder of the head's DecisionLog")
    saved = None if checkpoint is None else _load(checkpoint, folder)
    start = None if saved is None else Place(saved["segment"], saved["record"])
    records = log_records(folder, start)
    try:
        first = [next(records)]  # raises if the log does not reach the checkpoint, before the head is changed
    except StopIteration:
        first = []
    except JournalError:
        raise
    except ValueError as error:
        raise _mismatch(checkpoint, folder, str(error)) from error
    try:
        scratch = _scratch(head, None if saved is None else saved["head"])
        count = _replay(scratch, chain(first, records))
        _commit(head, scratch, learner, saved or {})
    except JournalError:
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:  # a forged state may raise any
        raise ValueError(f"restart: {checkpoint or folder}: {error}; the head is unchanged") from error
    return count


def _scratch(head: SoftUCBHead, saved: dict[str, Any] | None) -> SoftUCBHead:
    """Return a copy of a head without its encoder, in the saved state if there is one."""
    scratch = copy.deepcopy(head, {id(head.encoder): nn.Identity()})
    if saved is not None:
        scratch.load_state_dict({name: value for name, value in saved.items() if not name.startswith("encoder.")})
    return scratch


def _commit(head: SoftUCBHead, scratch: SoftUCBHead, learner: OnlineBeta | None, saved: dict[str, Any]) -> None:
    """Give the head, and its learner, the state that the replay has led to, as one change."""
    encoder = {name: value for name, value in saved.get("head", {}).items() if name.startswith("encoder.")}

    def load() -> None:
        head.load_state_dict(scratch.state_dict() | encoder, strict=bool(saved))
        if learner is not None and "learner" in saved:
            learner.load_state_dict(saved["learner"])

    load_whole(head.guard, nn.ModuleList([head, *([] if learner is None else [learner])]), load)


def _replay(head: SoftUCBHead, records: Iterable[tuple[str, Columns]]) -> int:
    """Apply the records of a log to a head; returns their number."""
    issued = issued_ends(head.stream, head.replicas)  # before the replay: threads may log ids out of order
    count, betas = 0, None
    for record_type, columns in records:
        rows = {name: torch.from_numpy(values.copy()) for name, values in columns.items()}
        count += 1
        if record_type == "rewards":
            _repeat_feedback(head, rows["id"], rows["reward"])
            continue
        new = head.restore_open(rows["id"], rows["x"], rows["bandit"], issued=issued)
        known = new & ~rows["beta"].isnan()
        if bool(known.any()) and isinstance(head.policy, SoftUCBPolicy) and head.policy.beta_module is None:
            betas = head.policy.beta.detach().clone() if betas is None else betas
            _set_betas(betas, rows["beta"][known], rows["bandit"][known])
    if betas is not None:
        head.policy.beta = betas
    return count


def _mismatch(checkpoint: str | os.PathLike[str] | None, folder: Path, reason: str) -> ValueError:
    return ValueError(
        f"restart: the checkpoint {checkpoint} and the log in {folder} do not belong together: {reason}; use the folder "
        "that the checkpoint was saved with; the head is unchanged"
    )


def _load(checkpoint: str | os.PathLike[str], folder: Path) -> dict[str, Any]:
    """Return the contents of a checkpoint, which must be of this log."""
    saved: dict[str, Any] = load_checked(checkpoint)
    try:
        log, segment, record = saved["log"], saved["segment"], saved["record"]
        if not (isinstance(log, str) and type(segment) is int and type(record) is int and isinstance(saved["head"], dict)):
            raise KeyError("log, segment, record or head")
        if segment < 0 or record < 0:
            raise KeyError("segment and record must not be negative")
    except (KeyError, TypeError) as error:
        raise unreadable_file(checkpoint, error) from error
    durable = load_durable(folder)
    if log != durable.log:
        raise _mismatch(checkpoint, folder, f"the checkpoint is of log {log}, and this is log {durable.log}")
    if segment > max(segments(folder)):
        raise _mismatch(checkpoint, folder, f"the checkpoint is ahead of the log, in segment {segment}")
    return saved


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
