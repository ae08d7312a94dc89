"""Checks of training runs and checkpoints."""

from collections.abc import Collection

import torch


def check_seed_kept(where: str, mine: int, saved: int) -> None:
    """Raise if a run is resumed with another seed."""
    if mine != saved:
        raise ValueError(
            f"{where}: seed must be {saved}, as in the checkpoint, to continue its run, got {mine}; "
            "use that seed, or start without the checkpoint"
        )


def check_one_episode(where: str, batch: torch.Size, betas: torch.Size) -> None:
    """Raise unless there is one beta per trajectory of the data."""
    if batch != betas:
        raise ValueError(
            f"{where}: num_trajectories must be the number of trajectories of the data, {tuple(batch)}, got {tuple(betas)}"
        )


def check_checkpoint_dim(where: str, mine: int, saved: int) -> None:
    """Raise if the checkpoint has another number of features."""
    if mine != saved:
        raise ValueError(
            f"{where}: dim must be {saved}, as in the checkpoint, got {mine}; use that dim, or another checkpoint"
        )


def check_training_checkpoint(path: object, state: object) -> None:
    """Raise if a file that was loaded is not the checkpoint of a training run."""
    if not isinstance(state, dict) or "state_dict" not in state or "pytorch-lightning_version" not in state:
        raise ValueError(
            f"checkpoint {path}: expected the checkpoint of a training run; load a policy's state with load_state_dict"
        )


def check_checkpoint_state(where: str, mine: Collection[str], saved: Collection[str]) -> None:
    """Raise if the checkpoint has other entries than the module."""
    if set(mine) != set(saved):
        other = sorted(set(mine) ^ set(saved))[0]
        advice = "; give the module that it was trained with as beta_init" if "beta_module" in other else ""
        raise ValueError(
            f"{where}: the checkpoint belongs to another type of training ({other!r} is in one of them only){advice}"
        )


def check_episodes(where: str, one_episode: bool, wanted: bool) -> None:
    """Raise if the data do not have the ``one_episode`` setting that a trainer needs."""
    if one_episode != wanted:
        raise ValueError(f"{where}: the data must have one_episode={wanted}, got {one_episode}")


def check_whole_horizon(where: str, rounds: int, steps: int, horizon: int) -> None:
    """Raise unless the steps play exactly the horizon."""
    if not (steps - 1) * rounds < horizon <= steps * rounds:
        fit = -(-horizon // rounds)
        raise ValueError(
            f"{where}: num_steps must be horizon / rounds_per_step, {fit}, to play all {horizon} rounds, got {steps}"
        )


def check_one_process(where: str, processes: int) -> None:
    """Raise if online learning is started in several processes."""
    if processes > 1:
        raise ValueError(
            f"{where}: online learning runs in one process, got {processes}; "
            "use devices=1, or SoftUCBOffline to learn one beta in several processes"
        )


def check_not_played(where: str, t: int, horizon: int) -> None:
    """Raise if the run is over already."""
    if t >= horizon:
        raise ValueError(f"{where}: all {horizon} rounds have been played; create a new module for another run")
