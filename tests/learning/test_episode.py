"""Episodes: the same seeds play the same, stages are disjoint, members bring their own size."""

import itertools

import torch

from torch_softucb import LinUCB, SoftUCBPolicy, synthetic_problem
from torch_softucb.learning.episode import RECORDED_ROUNDS, Episode, stage_seed
from torch_softucb.problems.family import Family


def test_an_episode_plays_the_same_numbers_again(seeded):
    problem = synthetic_problem(num_problems=4, generator=seeded(0))
    one, again, noise, action = (Episode(problem, *seeds) for seeds in ((1, 2), (1, 2), (3, 2), (1, 3)))
    policy = SoftUCBPolicy(10, beta_init=0.3)
    regret = one.play(policy, horizon=30).regret
    assert again.play(policy, horizon=30).regret.equal(regret)
    assert not noise.play(policy, horizon=30).regret.equal(regret)
    assert not action.play(policy, horizon=30).regret.equal(regret)


def test_parts_of_an_episode_play_as_the_whole(seeded):
    problem = synthetic_problem(num_problems=6, generator=seeded(0), dtype=torch.double)
    policy = LinUCB(10, dtype=torch.double)
    whole = Episode(problem, 1, 2).play(policy, horizon=20).regret
    parts = [Episode(problem[rows], 1, 2).play(policy, horizon=20).regret for rows in (slice(2), slice(2, 6))]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-12, rtol=0)


def test_about_sixteen_rounds_are_recorded(seeded):
    problem = synthetic_problem(num_problems=2, generator=seeded(0))
    for horizon in (10, 16, 160, 170):
        kept = Episode(problem, 1, 2).play(LinUCB(10), horizon=horizon, record=("arm",)).records["arm"]
        assert min(horizon, RECORDED_ROUNDS) <= len(kept) <= RECORDED_ROUNDS + 1


def test_every_stage_stream_and_number_has_its_own_seed():
    keys = itertools.product((0, 1), ("train", "validate", "test"), ("problem", "noise", "action"), range(50))
    seeds = [stage_seed(seed, stage, stream, number) for seed, stage, stream, number in keys]
    assert len(set(seeds)) == len(seeds)


def test_an_episode_of_a_member_has_its_horizon_and_forgetting():
    member = Family(drifting=1.0).member(seed=3)
    episode = Episode.of_member(member, 5, seed=3)
    assert episode.horizon == member.horizon
    assert episode.discount == member.discount < 1
    assert episode.problem.batch_shape == (5,)
    assert episode.to(torch.device("cpu")).problem.means.equal(episode.problem.means)
