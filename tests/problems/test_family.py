"""Families of problems: members drawn from ranges, problems drawn from a member."""

import math
from dataclasses import replace

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


WIDE = Family(
    num_arms=(4, 8),
    dim=(2, 5),
    horizon=(10, 30),
    features=("sphere", "correlated", "one_hot"),
    misfit=(0.5, 2.0),
    offset=10.0,
)


def _member(**match):
    members = (WIDE.member(seed=seed) for seed in range(999))
    return next(member for member in members if all(getattr(member, name) == value for name, value in match.items()))


def test_members_have_one_of_the_features_and_half_of_them_fit():
    members = [WIDE.member(seed=seed) for seed in range(300)]
    counts = [sum(member.features == name for member in members) for name in WIDE.features]
    assert min(counts) > 60  # a third each, within 5 standard deviations
    others = [member for member in members if member.features != "one_hot"]
    misfits = [member.misfit for member in others if member.misfit]
    assert 0.3 < len(misfits) / len(others) < 0.7
    assert all(0.5 <= misfit <= 2.0 for misfit in misfits)


def test_the_first_settings_of_a_member_are_those_of_a_plain_family():
    plain = Family(num_arms=(4, 8), dim=(2, 5), horizon=(10, 30))
    for seed in range(20):
        one, other = WIDE.member(seed=seed), plain.member(seed=seed)
        assert one.horizon == other.horizon
        if one.features != "one_hot":
            assert (one.num_arms, one.dim) == (other.num_arms, other.dim)


def test_arms_without_features_have_one_theta_each():
    member = _member(features="one_hot")
    problem = member.problem(6, seed=1)
    assert problem.arms.equal(torch.eye(member.dim))
    assert problem.means.shape == (6, member.num_arms)
    assert member.num_arms == member.dim <= 5


def test_correlated_features_have_unequal_sizes_and_linear_means():
    problem = _member(features="correlated", misfit=0.0, dim=5).problem(400, seed=1)
    sizes = problem.arms.square().mean((0, 1))
    assert (sizes.diff() < 0).all()
    centred = problem.means - problem.means.mean(-1, keepdim=True)
    design = problem.arms - problem.arms.mean(-2, keepdim=True)
    left = centred.unsqueeze(-1) - design @ torch.linalg.lstsq(design, centred.unsqueeze(-1)).solution
    assert left.abs().max() < 1e-3


def test_misfit_is_relative_to_the_linear_part_and_offsets_differ():
    member = next(m for seed in range(999) if (m := WIDE.member(seed=seed)).misfit > 1.5 and m.num_arms == 8)
    linear, bent = (
        replace(member, misfit=misfit, offset=0.0).problem(2000, seed=3).means for misfit in (0.0, member.misfit)
    )
    share = (bent - linear).std() / linear.std(-1).mean()
    assert share == pytest.approx(member.misfit, rel=0.15)
    assert member.problem(2000, seed=3).means.mean(-1).std() == pytest.approx(10.0, rel=0.15)


@pytest.mark.parametrize("wrong", [{"features": "sphere"}, {"features": ()}, {"misfit": (2.0, 1.0)}, {"offset": -1.0}])
def test_further_settings_are_checked(wrong):
    with pytest.raises(ValueError, match=f"Family: {next(iter(wrong))} must be"):
        Family(**wrong)


def test_an_unknown_kind_of_features_is_refused():
    with pytest.raises(ValueError, match="Family: features must be one of"):
        Family(features=("round",))


def test_members_with_one_arm_and_a_whole_number_for_no_misfit():
    for seed in range(8):
        Family(misfit=0).member(seed=seed)
    family = Family(num_arms=(1, 1), dim=(2, 2), with_prior=1.0, misfit=(0.1, 0.5))
    assert all(family.member(seed=seed).problem(3, seed=seed).means.isfinite().all() for seed in range(8))
