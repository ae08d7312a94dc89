"""Laws of decision ids, open decisions, features and slates, against plain Python."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.recommend.cases import head, requests
from tests.strategies import NUMBERS, SEEDS
from torch_softucb.recommend.features import FeatureMap

D = torch.double


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=8), st.integers(0, 2**28 - 9))
def test_no_id_is_issued_twice_and_each_is_known_afterwards(steps, replica):
    """Through changes of the replica number and restored states."""
    ours, issued = head(), set()
    for i, (count, change) in enumerate(steps):
        if change:
            ours.reseed(replica=replica + i)
        new = ours.serve(ours(*requests(count, 3))).id.tolist()
        assert not issued & set(new)
        issued |= set(new)
        restored = head()
        restored.load_state_dict(ours.state_dict())
        ours = restored
    assert all(ours.has_given(decision) for decision in issued)
    assert all(0 <= decision < 2**62 for decision in issued)
    assert not ours.has_given(-1)
    assert not ours.has_given(max(issued) + 1)


@given(SEEDS, st.integers(1, 4), st.integers(1, 4))
def test_a_draw_depends_on_the_seed_and_the_id_only(seed, first, second):
    """Requests in two calls are drawn as in one."""
    user, items = requests(first + second, 5, seed=seed % 1000)
    one, other = head(seed=seed), head(seed=seed)
    for ours in (one, other):
        ours.reseed(seed, replica=0)
    whole = one.serve(one(user, items))
    parts = [other.serve(other(user[at], items[at])) for at in (slice(0, first), slice(first, None))]
    assert torch.cat([part.arm for part in parts]).equal(whole.arm)
    torch.testing.assert_close(torch.cat([part.propensity for part in parts]), whole.propensity, atol=1e-12, rtol=0)


@given(SEEDS, st.integers(1, 4), st.integers(1, 3))
def test_a_slate_has_different_items_with_the_probabilities_of_plackett_luce(seed, count, k):
    ours = head(seed=seed)
    user, items = requests(count, 5, seed=seed % 1000)
    decision = ours(user, items)
    served = ours.serve(decision, k=k)
    for row in range(count):
        slate, left = served.arm[row].tolist(), 1.0
        assert len(set(slate)) == k
        for arm, stated in zip(slate, served.propensity[row].tolist(), strict=True):
            p = decision.probs[row, arm].item()
            if left > 1e-9:
                assert stated == pytest.approx(p / left, rel=1e-6)
            left -= p
    assert len(ours.pending) == count * k


@given(NUMBERS, st.lists(st.integers(-9, 9), min_size=1, max_size=12))
def test_open_decisions_are_a_dictionary(numbers, steps):
    """A positive step opens so many, a negative one closes so many; the state survives, with the features."""
    ours, plain, n = head(users=20), {}, 0
    for step in steps:
        if step > 0:
            user, items = requests(step, 3, seed=n)
            served = ours.serve(ours(user, items, bandit=user))
            rows = zip(served.id.tolist(), served.x, user.tolist(), strict=True)
            plain |= {decision: (x, owner) for decision, x, owner in rows}
            n += 1
        else:
            close = [sorted(plain)[i] for i in numbers.permutation(len(plain)).tolist()[:-step]]
            ours.drop(torch.tensor(close, dtype=torch.int64))
            plain = {decision: kept for decision, kept in plain.items() if decision not in close}
        restored = head(users=20)
        restored.load_state_dict(ours.state_dict())
        ours = restored
        assert ours.open_decisions.tolist() == sorted(plain)
    ids = torch.tensor(sorted(plain), dtype=torch.int64)
    ours.feedback(ids, torch.ones(len(ids), dtype=D))
    for user in range(20):
        own = sum((torch.outer(x, x) for x, owner in plain.values() if owner == user), torch.eye(4, dtype=D))
        torch.testing.assert_close(ours.policy.state.V[user], own, atol=1e-11, rtol=0)


@given(NUMBERS, st.lists(st.integers(1, 9), min_size=1, max_size=4), st.booleans(), st.floats(-100, 100))
def test_normalised_features_do_not_depend_on_unit_or_batches(numbers, sizes, intercept, level):
    values = numbers.normal(sum(sizes) + 2, 3)
    unit = 10 ** (2 * numbers.uniform(3) - 1)
    one, other = (FeatureMap(3, intercept=intercept, normalise=True) for _ in range(2))
    one.fit([values])
    shifted = values * unit + level
    other.fit(torch.split(shifted[numbers.permutation(len(values))], [*sizes, 2]))
    torch.testing.assert_close(other(shifted), one(values), atol=1e-6, rtol=0)
    assert one(values).square().sum(-1).mean().item() == pytest.approx(1, abs=1e-9)
