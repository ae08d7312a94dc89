"""Packed statistics: layout, one observation, many, forgetting, and a cache that is off."""

from itertools import chain

import pytest
import torch

from torch_softucb import NumericalError
from torch_softucb.policies.rows import (
    RidgeState,
    RowLayout,
    cache_errors,
    check_cache,
    forget,
    observe_many,
    observe_one,
    pack,
)

D = torch.double


def _state(seeded, batch=(4,), dim=3, memory=2):
    layout = RowLayout(dim, memory)
    rows = layout.fresh(batch, 0.5, torch.tensor([7.0, 8.0][:memory]))
    x = torch.randn(*batch, 5, dim, dtype=D, generator=seeded(0))
    old = layout.unpack(rows)
    zeros = torch.zeros(batch, dtype=D)
    return observe_many(old, x.mT @ x, x.sum(-2), zeros + 5, zeros + 0.25)


@pytest.mark.parametrize("memory", [0, 3])
def test_the_layout_names_every_position_once(memory):
    layout = RowLayout(2, memory)
    row = list(range(layout.size))
    parts = [row[layout.V], row[layout.root], row[layout.b], row[layout.memory]]
    assert [*chain(*parts), layout.num_observations, layout.gamma] == row
    assert [len(part) for part in parts] == [4, 4, 2, memory]


def test_pack_and_unpack_agree_with_the_slices(seeded):
    state = _state(seeded)
    layout, rows = RowLayout(3, 2), pack(state)
    assert rows.shape == (4, layout.size)
    for part, again in zip(state, layout.unpack(rows), strict=True):
        assert part.equal(again)
    row = rows[1].numpy()
    for name in ("V", "root", "b", "memory"):
        assert (row[getattr(layout, name)] == getattr(state, name)[1].flatten().numpy()).all()
    assert (row[layout.num_observations], row[layout.gamma]) == (5.0, 0.25)


def test_unpack_gives_views():
    layout = RowLayout(2, 0)
    rows = layout.fresh((3,), 1.0, torch.empty(0))
    layout.unpack(rows).b[1, 0] = 9.0
    assert rows[1, layout.b][0] == 9.0


def test_fresh_rows_know_nothing():
    state = RowLayout(2, 3).unpack(RowLayout(2, 3).fresh((2,), 4.0, torch.tensor([1.0, 2.0, 0.3], dtype=D)))
    assert state.V[0].equal(4 * torch.eye(2, dtype=D))
    assert state.root[1].equal(torch.eye(2, dtype=D) / 2)
    assert state.memory.tolist() == [[1.0, 2.0, 0.3]] * 2
    assert [part.abs().sum() for part in (state.b, state.num_observations, state.gamma)] == [0, 0, 0]


@pytest.mark.parametrize("refresh_every", [1, 3, 1000])
def test_one_observation_is_the_definition(refresh_every, seeded):
    old = _state(seeded)
    x, y = torch.randn(4, 3, dtype=D, generator=seeded(1)), torch.randn(4, dtype=D, generator=seeded(2))
    new = observe_one(old, x, y, old.gamma, refresh_every)
    for i in range(4):
        V = old.V[i] + torch.outer(x[i], x[i])
        torch.testing.assert_close(new.V[i], V)
        torch.testing.assert_close(new.root[i] @ new.root[i].T, torch.linalg.inv(V), atol=1e-12, rtol=0)
        torch.testing.assert_close(new.b[i], old.b[i] + x[i] * y[i])
    assert new.num_observations.tolist() == [6.0] * 4


def test_forgetting_keeps_the_ridge(seeded):
    old = _state(seeded)
    new = forget(old, 0.9, 0.5)
    torch.testing.assert_close(new.V, 0.9 * old.V + 0.05 * torch.eye(3, dtype=D))
    torch.testing.assert_close(new.b, 0.9 * old.b)
    torch.testing.assert_close(new.root @ new.root.mT, torch.linalg.inv(new.V), atol=1e-12, rtol=0)
    for _ in range(500):
        new = forget(new, 0.9, 0.5)
    torch.testing.assert_close(new.V, (0.5 * torch.eye(3, dtype=D)).expand(4, 3, 3))


@pytest.mark.parametrize("factor", [1.001, float("nan")])
def test_a_cache_that_is_off_is_reported_with_the_count(factor, seeded):
    state = _state(seeded)
    check_cache(state)
    root = state.root.clone()
    root[2] *= factor
    with pytest.raises(NumericalError, match=r"root is off by .* in 1 of 4 bandits, the first after 5 observations"):
        check_cache(RidgeState(state.V, root, state.b, state.num_observations, state.gamma, state.memory))


def test_the_allowed_error_of_a_cache_grows_with_the_condition_between_two_limits():
    """For diag(1, c) it is rounding times c: less than 1e-6 up to a c of 5e9, more than 1e-4 from 5e11 on."""
    c = torch.tensor([1.0, 1e8, 1e10, 1e11, 1e13], dtype=D)
    V, root = torch.zeros(5, 2, 2, dtype=D), torch.zeros(5, 2, 2, dtype=D)
    V[:, 0, 0] = root[:, 0, 0] = 1
    V[:, 1, 1], root[:, 1, 1] = c, c.rsqrt()
    n = torch.zeros(5, dtype=D)
    error, allowed = cache_errors(RidgeState(V, root, n.unsqueeze(-1), n, n, n.unsqueeze(-1)))
    assert error.max() < 1e-15
    want = [1e-6, 1e-6, 2.2204e-16 * 1e10, 2.2204e-16 * 1e11, 1e-4]
    torch.testing.assert_close(allowed, torch.tensor(want, dtype=D), rtol=1e-4, atol=0)


@pytest.mark.parametrize("off", [0.4e-6, 1.1e-6])
def test_a_cache_may_be_off_by_one_millionth(off, seeded):
    state = _state(seeded)
    state = state._replace(root=state.root * (1 + off) ** 0.5)  # root^T V root = (1 + off) I
    if off < 1e-6:
        check_cache(state)
    else:
        with pytest.raises(NumericalError, match=r"off by 1.1e-06 \(allowed 1e-06\) in 4 of 4 bandits"):
            check_cache(state)


def test_a_refresh_recomputes_only_the_rows_that_are_due(seeded):
    old = _state(seeded)
    old = old._replace(root=old.root * (1 + 1e-7), num_observations=torch.tensor([3.0, 4.0, 5.0, 9.0], dtype=D))
    x, y = torch.zeros(4, 3, dtype=D), torch.zeros(4, dtype=D)
    new = observe_one(old, x, y, old.gamma, 5)  # the rows with 4 and 9 observations get another one
    error = cache_errors(new)[0]
    assert (error > 1e-8).tolist() == [True, False, True, False]
    assert (error < 1e-12).tolist() == [False, True, False, True]
    one = RidgeState(*(part[1] for part in old))
    assert cache_errors(observe_one(one, x[1], y[1], one.gamma, 5))[0] < 1e-12
    broken = old._replace(root=old.root * 1.1)
    observe_one(broken, x, y, old.gamma, 7)  # no row is due
    with pytest.raises(NumericalError, match="in 2 of 2 bandits, the first after 5 observations"):
        observe_one(broken, x, y, old.gamma, 5)
    for again in (lambda: forget(broken, 0.9, 0.5), lambda: observe_many(broken, old.V * 0, old.b * 0, y, old.gamma)):
        with pytest.raises(NumericalError, match="in 4 of 4 bandits"):
            again()


def test_features_too_long_for_float64_are_refused_with_their_row(seeded):
    old = _state(seeded, batch=(2, 2), memory=0)
    x, y = torch.randn(2, 2, 3, dtype=D, generator=seeded(1)), torch.zeros(2, 2, dtype=D)
    direction = torch.tensor([1.0, 2.0, 3.0], dtype=D) / 14**0.5
    for length, refused in ((2e4, False), (1e7, True)):  # the error of the inverse grows with length^2
        x[1, 0] = length * direction
        for observe in (
            lambda: observe_one(old, x, y, y, 1024),
            lambda: observe_many(old, x.unsqueeze(-1) * x.unsqueeze(-2), x, y + 1, y),
        ):
            if refused:
                with pytest.raises(NumericalError, match=r"features of length 1.0e\+07 in row \(1, 0\) are too long"):
                    observe()
            else:
                observe()


def test_one_observation_of_one_bandit_is_refused_without_a_row(seeded):
    one = RidgeState(*(part[0] for part in _state(seeded)))
    with pytest.raises(NumericalError, match=r"features of length 1.7e\+10 are too long"):
        observe_one(one, torch.full((3,), 1e10, dtype=D), one.gamma, one.gamma, 1024)
