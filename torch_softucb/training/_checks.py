"""Checks of training runs and checkpoints."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch

from torch_softucb.learning.episode import Episode


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


def check_checkpoint_dim(where: str, mine: int, saved: object) -> None:
    """Raise if the checkpoint has another number of features."""
    if mine != saved:
        raise ValueError(
            f"{where}: dim must be {saved}, as in the checkpoint, got {mine}; use that dim, or another checkpoint"
        )


def check_training_checkpoint(path: object, state: object) -> None:
    """Raise if a file that was loaded is not the checkpoint of a training run, or names classes that it should not."""
    if not isinstance(state, dict) or not isinstance(state.get("pytorch-lightning_version"), str):
        raise ValueError(
            f"checkpoint {path}: expected the checkpoint of a training run; load a policy's state with load_state_dict"
        )
    for part in (state.get("state_dict"), state.get("hyper_parameters", {})):
        if not isinstance(part, dict) or not all(isinstance(key, str) for key in part):
            raise ValueError(
                f"checkpoint {path}: state_dict and hyper_parameters must be dicts by name, got {type(part).__name__}"
            )
    for name, value in state["state_dict"].items():
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"checkpoint {path}: {name!r} in state_dict must be a tensor, got {type(value).__name__}")
    for class_path in _class_paths(state.get("hyper_parameters")):
        if not isinstance(class_path, str) or not class_path.startswith(_OWN_CLASSES):
            raise ValueError(
                f"checkpoint {path}: names the class {class_path!r}, and would import it; classes of a checkpoint must be "
                f"from {' or '.join(_OWN_CLASSES)}; create the module in your program and load its state_dict"
            )


_OWN_CLASSES = ("torch_softucb.", "torch.optim.", "lightning.pytorch.cli.instantiate_module")


def _class_paths(settings: object, depth: int = 0) -> Iterator[object]:
    """Values of hyperparameters that Lightning takes for the name of a class or function."""
    if depth > 20:
        raise ValueError("checkpoint: hyper_parameters are nested more than 20 deep")
    if isinstance(settings, dict):
        for name, value in settings.items():
            if name in ("class_path", "_class_path", "_instantiator"):
                yield value
            yield from _class_paths(value, depth + 1)
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from _class_paths(value, depth + 1)


def check_declared_sizes(path: object, settings: Mapping[str, Any], state: Mapping[str, torch.Tensor]) -> None:
    """Raise if hyperparameters declare sizes that the tensors of the checkpoint do not have: memory follows them."""
    rows, regrets = state.get("policy.statistics"), state.get("regrets")
    dim, horizon, count = (settings.get(name) for name in ("dim", "horizon", "num_trajectories"))
    if rows is not None:
        size = rows.shape[-1] if rows.dim() else 0
        if type(dim) is not int or not 0 <= size - 2 * dim * dim - dim - 2 <= 2:  # V, root, b, two numbers, at most two sums
            raise ValueError(f"checkpoint {path}: dim must fit its statistics of shape {tuple(rows.shape)}, got {dim!r}")
    if regrets is not None and tuple(regrets.shape) != (horizon, count):
        raise ValueError(
            f"checkpoint {path}: horizon and num_trajectories must be {tuple(regrets.shape)}, got {horizon!r} and {count!r}"
        )


def seeds_of_checkpoint(path: object, state: dict[str, Any]) -> list[int]:
    """Return the seed of each data loader of an interrupted run."""
    try:
        loaders = state["loops"]["fit_loop"]["state_dict"].get("combined_loader", [])
        return [int(loader["seed"]) for loader in loaders]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"checkpoint {path}: has no complete record of the training loop, so the run cannot be resumed; "
            "use a checkpoint that was saved with save_weights_only=False"
        ) from error


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


def check_has_horizon(where: str, batch: object) -> None:
    """Raise unless a batch is an episode with a number of rounds, which meta-learning needs and a problem does not have."""
    if not isinstance(batch, Episode) or batch.horizon is None:
        got = "an Episode without one" if isinstance(batch, Episode) else type(batch).__name__
        raise TypeError(
            f"{where}: a batch must be an Episode with a horizon, got {got}; use FamilyDataModule, or "
            "Episode(problem, noise_seed, action_seed, horizon=1024) per batch"
        )


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


def check_same_start(where: str, mine: str | None, first: str | None, rank: int) -> None:
    """Raise if a process starts from another checkpoint than rank 0."""
    if mine != first:
        raise ValueError(
            f"{where}: all processes must start from the checkpoint of rank 0, {first or 'none'}, but rank {rank} found "
            f"{mine or 'none'}; keep the runs in a folder that all machines share"
        )
