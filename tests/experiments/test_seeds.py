"""Seeds of the experiments: the published numbers depend on these, so they must not change."""

import itertools

import torch

from experiments.seeds import SCHEMES, generator_for, rollout_generators, seed_for
from torch_softucb.rng import mixed_seed


def test_seeds_are_those_of_the_published_results():
    assert seed_for("train", 3, "noise") == mixed_seed(0, 3, 3)
    assert seed_for("test", 0, "action") == mixed_seed(2, 0, 2)
    assert seed_for("tune", 1, "problem") == mixed_seed(1, 1, 1)
    assert seed_for("tune", 0, "noise", study="coverage") == mixed_seed(0, 0, 3)
    assert seed_for("tune", 5, "action", study="worth") == mixed_seed(17, 1, 5, 2)
    assert seed_for("differences", 4, "problem", study="gradients") == mixed_seed(23, 1, 4, 0)


def test_no_two_streams_of_a_study_share_a_seed():
    for study, scheme in SCHEMES.items():
        seeds = [
            seed_for(split, part, stream, study=study)
            for split, part, stream in itertools.product(scheme.splits, range(20), scheme.streams)
        ]
        assert len(set(seeds)) == len(seeds)


def test_generators_start_at_the_seed():
    pair = rollout_generators("test")
    assert pair["generator"].initial_seed() == seed_for("test", 0, "action")
    assert pair["noise_generator"].initial_seed() == seed_for("test", 0, "noise")
    one, two = (torch.rand(3, generator=generator_for("test", 0, "noise")) for _ in range(2))
    assert one.equal(two)
