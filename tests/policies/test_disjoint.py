"""One theta per arm: against one big bandit with block features, batches against singles, what is refused."""

import pytest
import torch

from torch_softucb import AutoSoftUCB, DisjointArms, EpsilonGreedy, LinTS, LinUCB, SoftUCBPolicy

D = torch.double
K, d = 4, 3


def _block(context):
    """Features under which disjoint arms are one bandit: the context in the block of the arm, (K, K d)."""
    arms = torch.zeros(K, K, d, dtype=D)
    arms[torch.arange(K), torch.arange(K)] = context
    return arms.view(K, K * d)


@pytest.mark.parametrize(
    "make",
    [
        lambda dim: SoftUCBPolicy(dim, beta_init=0.5, dtype=D),
        lambda dim: SoftUCBPolicy(dim, beta_init=0.5, coldness="smooth", dtype=D),
        lambda dim: LinUCB(dim, beta=0.5, dtype=D),
        lambda dim: EpsilonGreedy(dim, epsilon=0.1, dtype=D),
    ],
)
def test_it_is_one_bandit_with_block_features(make):
    g = torch.Generator().manual_seed(0)
    arms, whole = DisjointArms(make(d), num_arms=K), make(K * d)
    for _ in range(30):
        context = torch.randn(d, dtype=D, generator=g)
        ours, theirs = arms(context), whole(_block(context))
        for name in ("probs", "mu_hat", "width", "index"):
            torch.testing.assert_close(getattr(ours, name), getattr(theirs, name))
        arm, reward = ours.sample(g), torch.randn((), dtype=D, generator=g)
        arms.update(context, arm, reward)
        whole.update(_block(context)[arm], reward)
    assert arms.policy.statistics.shape[0] == K


def test_auto_is_one_bandit_with_block_features():
    """Same offset, noise and ridge weight: the evidence of the blocks is that of the whole."""
    g = torch.Generator().manual_seed(0)
    arms, whole = DisjointArms(AutoSoftUCB(d, dtype=D), num_arms=K), AutoSoftUCB(K * d, dtype=D)
    for _ in range(60):
        context = torch.randn(d, dtype=D, generator=g)
        ours, theirs = arms(context), whole(_block(context))
        torch.testing.assert_close(ours.probs, theirs.probs, atol=1e-8, rtol=0)
        torch.testing.assert_close(ours.mu_hat, theirs.mu_hat)
        torch.testing.assert_close(ours.width, theirs.width)
        arm, reward = ours.sample(g), 20 + torch.randn((), dtype=D, generator=g)
        arms.update(context, arm, reward)
        whole.update(_block(context)[arm], reward)
    torch.testing.assert_close(arms.policy.noise_std[0], whole.noise_std)


@pytest.mark.parametrize("make", [lambda: LinUCB(d, beta=0.5, dtype=D), lambda: AutoSoftUCB(d, dtype=D)])
def test_a_batch_of_bandits_is_a_stack_of_singles(make):
    g = torch.Generator().manual_seed(0)
    batch, singles = DisjointArms(make(), num_arms=K), [DisjointArms(make(), num_arms=K) for _ in range(3)]
    batch.reset(batch_shape=(3,))
    for t in range(30):
        context, reward = torch.randn(3, d, dtype=D, generator=g), torch.randn(3, dtype=D, generator=g)
        decision = batch(context)
        for i, single in enumerate(singles):
            torch.testing.assert_close(decision.probs[i], single(context[i]).probs)
            single.update(context[i], torch.tensor(t % K), reward[i])
        batch.update(context, torch.full((3,), t % K), reward)
    some = batch(context[:2], bandit=torch.tensor([2, 0]))
    torch.testing.assert_close(some.probs[0], singles[2](context[0]).probs)


def test_requests_of_one_bandit_and_masks():
    arms = DisjointArms(LinUCB(d, dtype=D), num_arms=K)
    arms.update(torch.ones(5, d, dtype=D), torch.tensor([0, 1, 1, 2, 3]), torch.arange(5.0, dtype=D))
    assert arms.policy.state.num_observations.tolist() == [1, 2, 1, 1]
    mask = torch.tensor([False, True, True, False])
    decision = arms(torch.randn(6, d, dtype=D), mask=mask)
    assert decision.probs.shape == (6, K)
    assert bool((decision.probs[:, ~mask] == 0).all())


def test_bad_input_is_refused_and_changes_nothing():
    arms = DisjointArms(LinUCB(d), num_arms=K)
    before = arms.policy.statistics.clone()
    with pytest.raises(ValueError, match=r"DisjointArms: context must have shape \(\*N, 3\)"):
        arms(torch.ones(2))
    with pytest.raises(ValueError, match="arm"):
        arms.update(torch.ones(d), torch.tensor(K), torch.tensor(1.0))
    with pytest.raises(ValueError, match="reward"):
        arms.update(torch.ones(d), torch.tensor(0), torch.ones(2))
    with pytest.raises(ValueError, match="must decide on means and widths alone, got LinTS"):
        DisjointArms(LinTS(d), num_arms=K)
    with pytest.raises(ValueError, match="batch_shape must be"):
        arms.reset(batch_shape=(2, 3))
    assert arms.policy.statistics.equal(before)
