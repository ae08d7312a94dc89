"""BanditProblem: checks at construction, selecting, repeating and converting."""

from dataclasses import replace

import pytest
import torch

from torch_softucb import BanditProblem, synthetic_problem

FIELDS = ("arms", "means", "noise_std", "mask", "ids", "rotated_means", "drift_rate")


@pytest.fixture
def full(seeded):
    """Five bandits in which every field has an entry per bandit."""
    problem = synthetic_problem(num_problems=5, num_arms=6, dim=3, drift_rate=0.1, generator=seeded(0))
    mask = torch.rand(5, 6, generator=seeded(1)) < 0.7
    mask[:, 0] = True
    return replace(problem, mask=mask, noise_std=torch.linspace(0.1, 0.5, 5), drift_rate=torch.linspace(0.0, 0.4, 5))


def test_rows_keep_their_ids_and_repeats_get_new_ones(seeded):
    problem = synthetic_problem(num_problems=9, generator=seeded(4))
    part = problem[3:5]
    assert part.ids.tolist() == [3, 4]
    assert part.means.equal(problem.means[3:5])
    assert problem[2].batch_shape == ()
    again = problem[2].repeat(7)
    assert again.batch_shape == (7,)
    assert again.shared_arms
    assert again.ids.tolist() == list(range(7))
    assert problem.repeat(4).means.shape == (4, 9, 50)


def test_to_moves_everything(seeded):
    problem = synthetic_problem(num_problems=2, generator=seeded(0)).to(torch.double)
    assert problem.arms.dtype == problem.means.dtype == torch.double
    assert problem.ids.dtype == torch.int64


def test_drift_survives_slices_copies_and_casts(seeded):
    problem = synthetic_problem(num_problems=5, num_arms=6, dim=3, drift_rate=0.1, generator=seeded(0))
    want = problem.means_at(7)
    torch.testing.assert_close(problem[2].means_at(7), want[2])
    torch.testing.assert_close(problem[1:4].means_at(7), want[1:4])
    torch.testing.assert_close(problem.repeat(3).means_at(7), want.expand(3, 5, 6))
    torch.testing.assert_close(problem.to(torch.double).means_at(7).float(), want)
    with pytest.raises(ValueError, match="rotated_means must have shape of means"):
        BanditProblem(problem.arms, problem.means, rotated_means=problem.means[0])


@pytest.mark.parametrize(
    ("drift_rate", "match"),
    [
        (float("nan"), "drift_rate must be in"),
        ("fast", "drift_rate must be a number"),
        (torch.ones(3), r"drift_rate must have shape \(\) or \(5,\)"),
        (torch.full((5,), float("inf")), "drift_rate must be finite"),
    ],
)
def test_a_drift_that_cannot_be_is_refused(drift_rate, match, seeded):
    problem = synthetic_problem(num_problems=5, num_arms=6, dim=3, generator=seeded(0))
    with pytest.raises((TypeError, ValueError), match=match):
        BanditProblem(problem.arms, problem.means, rotated_means=problem.means, drift_rate=drift_rate)
    with pytest.raises(ValueError, match="drift_rate must be 0 without rotated_means"):
        BanditProblem(problem.arms, problem.means, drift_rate=0.1)


@pytest.mark.parametrize("rows", [2, slice(1, 4), torch.tensor([3, 0, 3])])
def test_selection_takes_the_same_rows_of_every_field(full, rows):
    part = full[rows]
    for name in FIELDS:
        assert getattr(part, name).equal(getattr(full, name)[rows]), name


def test_selection_leaves_shared_fields_alone(full):
    shared = BanditProblem(full.arms[0], full.means, torch.tensor(0.3), full.mask[0])
    part = shared[1:3]
    assert part.arms is shared.arms
    assert part.mask is shared.mask
    assert part.noise_std is shared.noise_std
    assert part.means.equal(full.means[1:3])


def test_repeats_copy_every_field_that_differs_between_bandits(full):
    copies = full.repeat(3)
    assert copies.ids.equal(torch.arange(15).reshape(3, 5))
    for name in set(FIELDS) - {"ids"}:
        value = getattr(full, name)
        assert getattr(copies, name).equal(value.expand(3, *value.shape)), name
    single = full[2]
    copies = single.repeat(4)
    assert copies.arms is single.arms
    assert copies.mask is single.mask
    assert copies.drift_rate is single.drift_rate
    assert copies.means.equal(single.means.expand(4, 6))
    assert copies.rotated_means.equal(single.rotated_means.expand(4, 6))


def test_conversion_keeps_the_type_of_masks_and_ids(full):
    double = full.to(torch.double)
    for name in FIELDS:
        want = getattr(full, name) if name in ("mask", "ids") else getattr(full, name).double()
        assert getattr(double, name).dtype == want.dtype
        assert getattr(double, name).equal(want), name
    assert full.to("cpu").mask.equal(full.mask)


def test_replace_keeps_ids_and_checks_again(full):
    part = replace(full[3:], noise_std=0.0)
    assert part.ids.tolist() == [3, 4]
    with pytest.raises(ValueError, match="noise_std must be in"):
        replace(full, noise_std=-1.0)


def test_problems_compare_and_hash_by_identity(full):
    """Equality field by field would compare tensors, which have no single truth value."""
    copy = replace(full)
    assert full != copy
    assert len({full, copy}) == 2


def test_the_best_mean_is_that_of_an_allowed_arm():
    means = torch.tensor([[3.0, 1.0, 2.0]])
    assert BanditProblem(torch.eye(3), means).best_mean.tolist() == [3.0]
    assert BanditProblem(torch.eye(3), means, mask=torch.tensor([False, True, True])).best_mean.tolist() == [2.0]


def test_a_single_problem_cannot_be_indexed(full):
    with pytest.raises(IndexError, match="a single problem cannot be indexed"):
        full[0][0]


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"ids": torch.zeros(5)}, r"ids must be an int64 tensor, got dtype torch.float32"),
        ({"ids": torch.arange(4)}, r"ids must have shape \(5,\), got \(4,\)"),
        ({"noise_std": torch.ones(4)}, r"noise_std must have shape \(\) or \(5,\)"),
        ({"means": torch.zeros(5, 6).double()}, r"means must have the arms' dtype"),
        ({"means": torch.full((5, 6), float("nan"))}, r"means must be finite"),
        ({"mask": torch.zeros(5, 6, dtype=torch.bool)}, r"mask must allow at least one arm"),
    ],
)
def test_fields_that_do_not_fit_are_named(full, wrong, match):
    with pytest.raises((TypeError, ValueError), match=f"BanditProblem: {match}"):
        replace(full, **wrong)
