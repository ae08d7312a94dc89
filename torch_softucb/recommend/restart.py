"""A head after a crash: its last checkpoint, and what the log says happened since."""

import os
import pickle
import zipfile
from pathlib import Path

import torch

from torch_softucb.checks import unreadable_checkpoint
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.recommend.head import SoftUCBHead
from torch_softucb.recommend.journal import sync_folder
from torch_softucb.recommend.log import DecisionLog, Place
from torch_softucb.recommend.read import log_records


def save_checkpoint(path: str | os.PathLike[str], head: SoftUCBHead, log: DecisionLog) -> None:
    """Write the head's state and the log's place, whole at every moment: beside the target, synced, then renamed."""
    target = Path(path)
    log.commit()
    temporary = target.with_name(f".{target.name}.tmp")
    with temporary.open("wb") as file:
        torch.save({"head": head.state_dict(), "segment": log.place.segment, "record": log.place.record}, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(target)
    sync_folder(target.parent)


def restart(head: SoftUCBHead, folder: str | os.PathLike[str], checkpoint: str | os.PathLike[str] | None = None) -> int:
    """Bring a head to where the log in ``folder`` ends; returns the number of records that came after the checkpoint.

    Without a checkpoint the whole log is played. Statistics, open decisions and ids are those of a run that was not
    interrupted, and beta is the one of the last decision. Call it before the folder is opened by a new DecisionLog.
    """
    start = Place(0, 0)
    if checkpoint is not None:
        try:
            saved = torch.load(checkpoint, weights_only=True)
            start = Place(saved["segment"], saved["record"])
        except (RuntimeError, EOFError, KeyError, zipfile.BadZipFile, pickle.UnpicklingError, OSError) as error:
            raise unreadable_checkpoint(checkpoint, error) from error
        head.load_state_dict(saved["head"])
    count = 0
    for kind, columns in log_records(folder, start):
        rows = {name: torch.from_numpy(values.copy()) for name, values in columns.items()}
        count += 1
        if kind == "rewards":
            head.feedback(rows["id"], rows["reward"], on_repeat="ignore")
            continue
        bandit = rows["bandit"] if head.policy.batch_shape else None
        head.pending.add(rows["id"], rows["x"], bandit)
        head.stream[1] = int(rows["id"].max()) + 1
        if isinstance(head.policy, SoftUCBPolicy) and not head.policy.raw_beta.dim():
            head.policy.beta = float(rows["beta"][-1])
    return count
