"""Feedback in any order and batching, and numbers that stay accurate."""

import pytest
import torch
from torch import nn

from tests.recommend.cases import Towers, head
from torch_softucb import SoftUCBHead, SoftUCBPolicy

D = torch.double


@pytest.mark.parametrize("users", [None, 20])
def test_any_order_and_batching_gives_the_samestate_of(users, seeded):
    """10,000 rewards in 20 random orders, cut at random; compared in V, b, counts and V^-1."""
    g = seeded(0)
    served, rewards = [], torch.randn(10_000, dtype=D, generator=g)
    start = head(users=users)
    for _ in range(10):
        user = torch.randint(20, (1000,), generator=g)
        items = torch.randint(50, (1000, 6), generator=g)
        served.append(start.serve(start(user, items, bandit=user if users else None)).id)
    ids, saved = torch.cat(served), start.state_dict()
    ends, worst = [], 0.0
    for order in range(20):
        ours = head(users=users)
        ours.load_state_dict(saved)
        permuted = torch.randperm(10_000, generator=seeded(order))
        cuts = torch.randint(1, 10_000, (60,), generator=seeded(order)).sort().values.tolist()
        for part in torch.tensor_split(permuted, cuts):
            if order % 2:  # twice: the second is passed over
                ours.feedback(ids[part], rewards[part], on_repeat="ignore")
            assert ours.feedback(ids[part], rewards[part], on_repeat="ignore") == (0 if order % 2 else len(part))
        assert not len(ours.pending)
        state = ours.policy.state
        ends.append(torch.cat([state.V.flatten(), state.b.flatten(), (state.root @ state.root.mT).flatten()]))
        worst = max(worst, float((ends[-1] - ends[0]).abs().max()))
        assert state.num_observations.sum() == 10_000
    print(f"20 orders: states within {worst:.1e}")
    assert worst < 1e-9


def test_feedback_may_never_come_or_come_twice():
    ours = SoftUCBHead(nn.Identity(), SoftUCBPolicy(2))
    served = ours.serve(ours(torch.randn(4, 3, 2)))
    ours.drop(served.id[3:])
    assert ours.feedback(served.id[:2], torch.ones(2)) == 2
    for again in (served.id[:1], served.id[3:]):
        with pytest.raises(ValueError, match="was answered or dropped before"):
            ours.feedback(again, torch.ones(1))
    assert ours.feedback(served.id, torch.ones(4), on_repeat="ignore") == 1
    assert ours.policy.state.num_observations == 3


@pytest.mark.long
def test_unscaled_correlated_features_in_float32(seeded):
    """Scales 1e-3 to 1e3, correlated, 100,000 updates: width within 1e-3 of a float64 oracle that solves from V."""
    g = seeded(0)
    mix = torch.linalg.qr(torch.randn(8, 8, dtype=D, generator=g)).Q * torch.logspace(-3, 3, 8, dtype=D)
    policy = SoftUCBPolicy(8)
    ours = SoftUCBHead(nn.Identity(), policy)
    V = torch.eye(8, dtype=D)
    with torch.no_grad():
        for _ in range(1000):
            features = (torch.randn(100, 5, 8, dtype=D, generator=g) @ mix.T).float()
            served = ours.serve(ours(features))
            assert served.propensity.isfinite().all()
            for part in served.id.split(7):  # small batches: the worst for a cache
                ours.feedback(part, torch.randn(len(part), generator=g))
            x = served.x.double()
            V += x.T @ x
        candidates = (torch.randn(64, 8, dtype=D, generator=g) @ mix.T).float()
        width = ours(candidates).width.double()
    root = torch.linalg.cholesky(V)
    want = torch.linalg.solve_triangular(root, candidates.double().T, upper=False).norm(dim=0)
    error = float(((width - want) / want).abs().max())
    print(f"cond(V) {torch.linalg.cond(V):.1e}, width off by {error:.1e}")
    assert error < 1e-3


def test_a_batch_for_100_000_users_updates_only_its_rows(seeded):
    policy = SoftUCBPolicy(4)
    policy.reset(batch_shape=(100_000,))
    ours = SoftUCBHead(Towers(4, users=100_000, dtype=torch.float32), policy)
    user = torch.randint(100_000, (1024,), generator=seeded(0))
    ours.feedback(ours.serve(ours(user, torch.randint(50, (1024, 5)), bandit=user)).id, torch.ones(1024))
    touched = policy.state.num_observations > 0
    assert touched.nonzero().squeeze(-1).equal(user.unique())
