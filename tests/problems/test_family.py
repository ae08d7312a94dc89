"""Families of problems: members drawn from ranges, problems drawn from a member."""

import math

import pytest
import torch

from tests.statistics_checks import FALSE_ALARM, assert_frequencies, every_seed, frequency_p
from torch_softucb.problems._checks import check_range
from torch_softucb.problems.family import Family

SMALL = Family(num_arms=(4, 8), dim=(2, 5), horizon=(10, 30), noise_std=(0.1, 1.0), drifting=0.5)


def test_members_lie_within_the_family_and_depend_on_their_seed():
    members = [SMALL.member(seed=seed) for seed in range(200)]
    assert {member.dim for member in members} == {2, 3, 4, 5}
    assert {member.num_arms for member in members} == {4, 5, 6, 7, 8}
    assert all(10 <= member.horizon <= 30 for member in members)
    drifting = [member for member in members if member.drift_rate > 0]
    assert 60 <= len(drifting) <= 140  # a half, within 5.7 standard deviations
    assert all(0.001 <= member.drift_rate <= 0.01 and 0.98 <= member.discount <= 0.995 for member in drifting)
    assert all(member.discount == 1.0 for member in members if not member.drift_rate)
    assert SMALL.member(seed=3) == members[3]


@every_seed
def test_settings_are_uniform_on_a_logarithmic_scale(seed):
    """Each factor of 10 within (1, 10000) has a quarter of 400 draws, by chi-square; false alarms 1e-6."""
    family = Family(horizon=(1, 10_000))
    horizons = torch.tensor([float(family.member(seed=400 * seed + i).horizon) for i in range(400)])
    # a horizon is rounded: those below 9.5 are the single digits
    shares = torch.tensor([1, 9.5, 99.5, 999.5, 10_000]).log10().diff() / 4
    counts = torch.histogram(horizons, torch.tensor([0.0, 9.5, 99.5, 999.5, 1e5])).hist
    assert_frequencies(counts.tolist(), shares.tolist())
    assert frequency_p([100 * count for count in (1, 9, 90, 300)], shares.tolist()) < FALSE_ALARM  # uniform ones


def test_problems_of_a_member_have_its_size_its_drift_and_their_own_noise():
    member = next(member for seed in range(99) if (member := SMALL.member(seed=seed)).drift_rate)
    problem = member.problem(16, seed=7)
    assert problem.arms.shape == (16, member.num_arms, member.dim)
    assert problem.drift_rate == member.drift_rate
    assert len(problem.noise_std.unique()) == 16
    assert 0.1 <= problem.noise_std.min() <= problem.noise_std.max() <= 1.0
    assert member.problem(16, seed=7).noise_std.equal(problem.noise_std)
    assert not member.problem(16, seed=8).means.equal(problem.means)


@pytest.mark.parametrize(
    "wrong", [{"dim": (0, 3)}, {"horizon": (30, 10)}, {"noise_std": 0.5}, {"drifting": 1.5}, {"discount": (0.9, 1.0)}]
)
def test_a_family_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match=f"Family: {next(iter(wrong))} must be"):
        Family(**wrong)


def test_drift_needs_a_plane():
    with pytest.raises(ValueError, match="Family: dim must be at least 2 for theta to rotate, got 1"):
        Family(dim=(1, 5), drifting=0.1)


@pytest.mark.parametrize("value", [(1, 2), [1.0, 1.0], (1, 2.9)])
def test_ranges(value):
    check_range("f", "size", value, low=1.0, high=3.0)


@pytest.mark.parametrize("value", [(2, 1), (0.5, 2), (1, 3), (1, math.nan), (1,), (1, 2, 2), 1, "12", ("a", "b"), None])
def test_wrong_ranges(value):
    with pytest.raises(
        ValueError, match=r"f: size must be \(low, high\) with low >= 1 and high not below low and below 3, got"
    ):
        check_range("f", "size", value, low=1.0, high=3.0)


def test_a_range_from_zero_excludes_zero():
    check_range("f", "noise_std", (0.1, 2), low=0.0)
    with pytest.raises(ValueError, match=r"low > 0 and high not below low, got \(0.0, 2\)"):
        check_range("f", "noise_std", (0.0, 2), low=0.0)
