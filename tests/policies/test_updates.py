"""Batched updates: however observations are grouped, the statistics are those of one after the other."""

import pytest
import torch

from torch_softucb.policies.rows import RowLayout
from torch_softucb.policies.updates import REWARD_SUMS, UpdateRule, updated_rows

D, DIM = torch.double, 3


def _rule(keeps_sums=False, remember=None):
    layout = RowLayout(DIM, 2)
    sums = REWARD_SUMS if keeps_sums else None
    rule = UpdateRule(layout, 0.5, 1024, sums, next_gamma=lambda old: old + 1, remember=remember)
    return rule, layout.fresh((5,), 0.5, torch.zeros(2))


def _one_by_one(rows, x, y, ids, rule):
    rows = rows.clone()
    for i, row in enumerate(ids.tolist()):
        at, _, new = updated_rows(rows, x[i : i + 1], y[i : i + 1], torch.tensor([row]), rule, 1.0)
        rows[at] = new
    return rule.layout.unpack(rows)


@pytest.mark.parametrize("ids", [[3, 1], [3, 1, 3], [0, 3, 1, 3, 3, 3, 0], [2] * 9 + [4]], ids=str)
@pytest.mark.parametrize("keeps_sums", [False, True])
def test_rows_with_repeats(ids, keeps_sums, seeded):
    """No repeats, waves, the largest number of waves, and sums."""
    rule, rows = _rule(keeps_sums)
    before, ids = rows.clone(), torch.tensor(ids)
    x, y = torch.randn(len(ids), DIM, dtype=D, generator=seeded(0)), torch.randn(len(ids), dtype=D, generator=seeded(1))
    at, _, new = updated_rows(rows, x, y, ids, rule, 1.0)
    assert rows.equal(before)
    assert sorted(at.tolist()) == sorted(set(ids.tolist()))
    got = rule.layout.unpack(rows.index_copy(0, at, new))
    want = _one_by_one(rows, x, y, ids, rule)
    for name in ("V", "root", "b", "num_observations", "memory"):
        one, other = getattr(got, name), getattr(want, name)
        if name == "root":
            one, other = one @ one.mT, other @ other.mT  # a factor is not unique
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)
    assert got.gamma.tolist() == [float(i in set(ids.tolist())) for i in range(5)]  # carried once per call


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("ids", [None, [3, 1], [3, 1, 3]], ids=str)
def test_several_observations_per_row(n, ids, seeded):
    rule, rows = _rule(keeps_sums=True)
    count = 5 if ids is None else len(ids)
    x, y = torch.randn(count, n, DIM, dtype=D, generator=seeded(0)), torch.randn(count, n, dtype=D, generator=seeded(1))
    at, _, new = updated_rows(rows, x, y, None if ids is None else torch.tensor(ids), rule, 1.0)
    got = rule.layout.unpack(new if at is None else rows.index_copy(0, at, new))
    each = torch.arange(5) if ids is None else torch.tensor(ids)
    want = _one_by_one(rows, x.flatten(0, 1), y.flatten(), each.repeat_interleave(n), rule)
    torch.testing.assert_close(got.V, want.V, atol=1e-12, rtol=0)
    torch.testing.assert_close(got.b, want.b, atol=1e-12, rtol=0)
    torch.testing.assert_close(got.memory, want.memory, atol=1e-12, rtol=0)
    assert got.num_observations.equal(want.num_observations)


def test_a_row_is_discounted_once_per_call(seeded):
    rule, rows = _rule(keeps_sums=True)
    x, y = torch.randn(3, DIM, dtype=D, generator=seeded(0)), torch.randn(3, dtype=D, generator=seeded(1))
    ids = torch.tensor([2, 0, 2])
    at, _, new = updated_rows(rows, x, y, ids, rule, 1.0)
    rows = rows.index_copy(0, at, new)
    old = rule.layout.unpack(rows)
    at, _, new = updated_rows(rows, x, y, ids, rule, 0.9)
    got = rule.layout.unpack(new)
    row = at.tolist().index(2)
    ridge = 0.05 * torch.eye(DIM, dtype=D)
    torch.testing.assert_close(got.V[row], 0.9 * old.V[2] + ridge + x[0].outer(x[0]) + x[2].outer(x[2]))
    torch.testing.assert_close(
        got.memory[row], 0.9 * old.memory[2] + torch.stack((torch.tensor(2.0, dtype=D), y[0] ** 2 + y[2] ** 2))
    )


def test_the_memory_of_a_policy_is_its_own_function(seeded):
    rule, rows = _rule(remember=lambda memory, reward: memory + reward.unsqueeze(-1))
    y = torch.randn(5, dtype=D, generator=seeded(1))
    _, _, new = updated_rows(rows, torch.zeros(5, DIM, dtype=D), y, None, rule, 1.0)
    assert rule.layout.unpack(new).memory.equal(y.unsqueeze(-1).expand(5, 2))
