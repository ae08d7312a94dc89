"""Seeds of all experiments, derived from the study, the split, the part of the split and the random stream."""

from dataclasses import dataclass
from typing import TypedDict

import torch

from torch_softucb.rng import mixed_seed

TRAIN, TUNE, TEST = "train", "tune", "test"


@dataclass(frozen=True)
class SeedScheme:
    """Numbers that one study mixes into its seeds. They differ between studies and are part of the published results.

    Attributes:
        prefix: numbers that come first; they keep the study apart from the others.
        splits: the study's splits; a split is known by its position.
        streams: number of each random stream ("problem", "noise", "action").
    """

    prefix: tuple[int, ...]
    splits: tuple[str, ...]
    streams: dict[str, int]


_PROBLEM_FIRST = {"problem": 0, "noise": 1, "action": 2}
SCHEMES = {
    "paper": SeedScheme((), (TRAIN, TUNE, TEST), {"problem": 1, "noise": 3, "action": 2}),
    "coverage": SeedScheme((), (TUNE, TEST), {"problem": 1, "noise": 3, "action": 2}),
    "worth": SeedScheme((17,), (TRAIN, TUNE, TEST), _PROBLEM_FIRST),
    "exam": SeedScheme((29,), (TEST,), _PROBLEM_FIRST),
    "gradients": SeedScheme((23,), ("estimator", "differences"), _PROBLEM_FIRST),
}


def seed_for(
    split: str,
    part: int,
    stream: str,
    *,
    study: str = "paper",
) -> int:
    """Return the seed of one random stream.

    Args:
        split: "train", "tune" or "test"; the gradient study has "estimator" and "differences".
        part: number of the batch within the split, for example the training step.
        stream: "problem", "noise" or "action".
        study: key of :data:`SCHEMES`.

    Example:
        >>> seed_for("train", 0, "noise") == seed_for("train", 0, "noise")
        True
        >>> len({seed_for(split, 0, "noise") for split in ("train", "tune", "test")})
        3
    """
    scheme = SCHEMES[study]
    return mixed_seed(*scheme.prefix, scheme.splits.index(split), part, scheme.streams[stream])


def generator_for(split: str, part: int, stream: str, *, study: str = "paper") -> torch.Generator:
    """Return a generator that starts at :func:`seed_for` of the same arguments."""
    return torch.Generator().manual_seed(seed_for(split, part, stream, study=study))


class RolloutGenerators(TypedDict):
    """Keyword arguments of :func:`torch_softucb.rollout`."""

    generator: torch.Generator
    noise_generator: torch.Generator


def rollout_generators(split: str, *, study: str = "paper") -> RolloutGenerators:
    """Return the generators of action draws and reward noise that all policies of a comparison share."""
    return {
        "generator": generator_for(split, 0, "action", study=study),
        "noise_generator": generator_for(split, 0, "noise", study=study),
    }
