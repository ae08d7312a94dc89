"""Encoding and decoding is the identity, whatever the shapes; joined rewards are the first ones."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import NUMBERS
from torch_softucb.recommend.log.codec import Entry, decode, encode_decisions, encode_rewards
from torch_softucb.recommend.log.logged_decisions import join_rewards
from torch_softucb.recommend.serving import Served

SIZES = st.integers(1, 4)


def _served(numbers, n, k, arms, dim, dtype, bandits, beta):
    shape = (n,) if k is None else (n, k)
    return Served(
        id=numbers.integers(2**40, *shape),
        arm=numbers.integers(arms, *shape),
        propensity=numbers.uniform(*shape).to(dtype) + 0.01,
        x=numbers.normal(*shape, dim).to(dtype),
        beta=numbers.uniform().to(dtype) if beta else None,
        bandit=numbers.integers(9, n) if bandits else None,
        mask=None,
        k=k,
        num_arms=arms,
    )


@given(
    numbers=NUMBERS,
    n=SIZES,
    k=st.none() | SIZES,
    dim=SIZES,
    entries=st.integers(1, 3),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    flags=st.tuples(*[st.booleans()] * 5),
    version=st.integers(0, 2**40),
)
def test_decisions_come_back_as_they_were(numbers, n, k, dim, entries, dtype, flags, version):
    bandits, beta, context, candidates, features = flags
    arms, wide = 5, k or 1
    kept = [
        Entry(
            _served(numbers, n, k, arms, dim, dtype, bandits, beta),
            version,
            numbers.integers(99, n) if context else None,
            numbers.integers(99, n, arms) if candidates or features else None,
            numbers.normal(n, arms, dim).to(dtype) if features else None,
        )
        for _ in range(entries)
    ]
    kind, columns = decode(encode_decisions(kept))
    assert kind == "decisions"

    def stacked(values):
        return np.concatenate([value.numpy() for value in values])

    for name in ("id", "arm", "propensity"):
        want = stacked([getattr(entry.served, name).reshape(-1) for entry in kept])
        np.testing.assert_array_equal(columns[name], want)
    np.testing.assert_array_equal(columns["x"], stacked([entry.served.x.reshape(-1, dim) for entry in kept]))
    np.testing.assert_array_equal(columns["position"], list(range(wide)) * (n * entries))
    assert set(columns["version"]) == {version}
    for name, given_, absent in (("bandit", bandits, -1), ("context", context, -1), ("beta", beta, np.nan)):
        if not given_:
            np.testing.assert_array_equal(columns[name], np.full(n * wide * entries, absent))
    if bandits:
        np.testing.assert_array_equal(columns["bandit"], stacked([e.served.bandit.repeat_interleave(wide) for e in kept]))
    if features:
        want = stacked([entry.features.repeat_interleave(wide, 0) for entry in kept])
        np.testing.assert_array_equal(columns["features"], want)
    else:
        assert columns["features"].shape[1] == 0


@given(NUMBERS, st.integers(0, 20))
def test_rewards_come_back_as_they_were(numbers, n):
    ids, reward = numbers.integers(2**62, n), numbers.normal(n)
    reward[::3] = torch.nan  # decisions that were dropped
    kind, columns = decode(encode_rewards(ids, reward))
    assert kind == "rewards"
    np.testing.assert_array_equal(columns["id"], ids)
    np.testing.assert_array_equal(columns["reward"], reward)


@given(NUMBERS, st.integers(1, 12), st.lists(st.integers(0, 6), max_size=4))
def test_the_first_reward_of_a_decision_counts(numbers, n, sizes):
    ids = numbers.permutation(2 * n)[:n].numpy()
    parts, first = [], {}
    for size in sizes:
        part = {"id": numbers.integers(2 * n, size).numpy(), "reward": numbers.normal(size).numpy()}
        parts.append(part)
        for decision, reward in zip(part["id"].tolist(), part["reward"].tolist(), strict=True):
            first.setdefault(decision, reward)
    want = [first.get(decision, np.nan) for decision in ids.tolist()]
    np.testing.assert_array_equal(join_rewards(ids, parts), want)
