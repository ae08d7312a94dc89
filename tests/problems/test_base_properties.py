"""Laws of problems: rows, copies, drift, and families."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import NUMBERS, SEEDS
from torch_softucb import synthetic_problem
from torch_softucb.problems import Family


def _problem(seed, count, **kind):
    g = torch.Generator().manual_seed(seed)
    return synthetic_problem(num_problems=count, generator=g, dtype=torch.double, **({"num_arms": 5, "dim": 3} | kind))


@given(SEEDS, st.integers(1, 12), st.data())
def test_a_problem_does_not_depend_on_the_others(seed, count, data):
    first = data.draw(st.integers(0, count - 1))
    whole, part = _problem(seed, count), _problem(seed, count - first, first=first)
    assert whole[first:].arms.equal(part.arms)
    torch.testing.assert_close(whole[first:].means, part.means, atol=1e-15, rtol=0)  # products of other batch sizes
    assert whole[first:].ids.equal(part.ids)


@given(SEEDS, st.integers(1, 6), st.integers(1, 6))
def test_arms_are_unit_vectors_and_means_are_linear(seed, arms, dim):
    problem = _problem(seed, 3, num_arms=arms, dim=dim)
    torch.testing.assert_close(problem.arms.norm(dim=-1), torch.ones(3, arms, dtype=torch.double), atol=1e-12, rtol=0)
    assert (problem.means.abs() <= 1 + 1e-12).all()
    theta = torch.linalg.lstsq(problem.arms, problem.means.unsqueeze(-1)).solution
    torch.testing.assert_close((problem.arms @ theta).squeeze(-1), problem.means, atol=1e-8, rtol=0)


@given(SEEDS, st.floats(1e-3, 1), st.integers(0, 1000))
def test_drifting_means_are_those_of_a_theta_of_constant_length(seed, rate, t):
    problem = _problem(seed, 2, num_arms=8, drift_rate=rate)
    theta = torch.linalg.lstsq(problem.arms, problem.means_at(t).unsqueeze(-1)).solution.squeeze(-1)
    assert theta.norm(dim=-1).tolist() == pytest.approx([1, 1], abs=1e-6)
    start = torch.linalg.lstsq(problem.arms, problem.means.unsqueeze(-1)).solution.squeeze(-1)
    assert (theta * start).sum(-1).tolist() == pytest.approx([math.cos(rate * t)] * 2, abs=1e-6)


@given(NUMBERS, SEEDS, st.integers(1, 5))
def test_rows_of_rows_are_rows(numbers, seed, count):
    problem = _problem(seed, count, drift_rate=0.1)
    one, other = numbers.integers(count, 4), numbers.integers(4, 3)
    twice, once = problem[one][other], problem[one[other]]
    for field in ("arms", "means", "rotated_means", "ids"):
        assert getattr(twice, field).equal(getattr(once, field))
    copies = problem.repeat(2)
    assert copies.batch_shape == (2, count)
    assert copies.best_mean.equal(problem.best_mean.expand(2, count))
    assert len(set(copies.ids.flatten().tolist())) == 2 * count


@given(SEEDS)
def test_members_lie_in_their_family(seed):
    family = Family(num_arms=(3, 40), dim=(2, 9), horizon=(10, 200), noise_std=(0.1, 2.0), drifting=0.5)
    member = family.member(seed=seed)
    assert 3 <= member.num_arms <= 40
    assert 2 <= member.dim <= 9
    assert 10 <= member.horizon <= 200
    assert (member.drift_rate > 0) == (member.discount < 1)
    problem = member.problem(3, seed=seed)
    assert ((problem.noise_std >= 0.1 - 1e-6) & (problem.noise_std <= 2.0 + 1e-5)).all()
