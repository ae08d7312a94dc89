"""The contract of all policies, with every form of beta. What a policy cannot do by design is skipped with the reason."""

import copy
import io

import pytest
import torch

from tests.policies.cases import ALL, MEMORY, NUM_ARMS, ONE_PER_CALL, PER_BANDIT, SAMPLED, build, play, random_numbers
from torch_softucb import Decision, SoftUCBPolicy

DIM, K = 4, NUM_ARMS


@pytest.fixture(params=ALL)
def name(request):
    return request.param


@pytest.fixture
def make(name):
    return lambda **settings: build(name, DIM, **({"dtype": torch.double} | settings))


def _round(policy, arms, x, reward, arm):
    """One round in which the arm does not come from the decision."""
    policy.update(x, reward, decision=policy(arms), arm=torch.full(policy.batch_shape, arm))


def _skip_one_per_call(name):
    if name in ONE_PER_CALL:
        pytest.skip(ONE_PER_CALL[name])


def _same(a, b, tolerance=1e-10):
    torch.testing.assert_close(a.mu_hat, b.mu_hat, atol=tolerance, rtol=0)
    torch.testing.assert_close(a.width, b.width, atol=tolerance, rtol=0)
    torch.testing.assert_close(a.index, b.index, atol=tolerance, rtol=0)
    if a.probs is not None:
        torch.testing.assert_close(a.probs, b.probs, atol=max(1e-8, 10 * tolerance), rtol=0)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_dtypes(make, name, batch, dtype):
    policy = make(dtype=dtype, batch=batch)
    decision = play(policy, torch.randn(K, DIM, dtype=dtype))
    for value in (decision.index, decision.mu_hat, decision.width):
        assert (value.shape, value.dtype) == ((*batch, K), dtype)
    arm = decision.sample()
    assert (arm.shape, arm.dtype) == (batch, torch.int64)
    if name not in SAMPLED:
        torch.testing.assert_close(decision.probs.sum(-1), torch.ones(batch, dtype=dtype))
        assert decision.log_prob(arm).shape == batch
        torch.testing.assert_close(decision.log_prob(arm).exp(), decision.probs.gather(-1, arm[..., None])[..., 0])
        assert (decision.entropy() >= 0).all()


def test_forward_changes_nothing(make):
    policy = make(batch=(3,))
    play(policy, torch.randn(K, DIM, dtype=torch.double))
    before = policy.statistics.clone()
    policy(torch.randn(K, DIM, dtype=torch.double)).sample()
    assert policy.statistics.equal(before)


@pytest.mark.parametrize("batch", [(4,), (2, 2)])
def test_a_batch_is_a_stack_of_singles(make, name, batch):
    g = torch.Generator().manual_seed(0)
    policy = make(ridge_alpha=0.3, batch=batch)
    arms = torch.randn(*batch, K, DIM, generator=g, dtype=torch.double)
    x = torch.randn(3, *batch, DIM, generator=g, dtype=torch.double)
    reward = torch.randn(3, *batch, generator=g, dtype=torch.double)
    for t in range(3):
        _round(policy, arms, x[t], reward[t], arm=t)
    whole = policy(arms)
    for r in range(4):
        single = make(ridge_alpha=0.3)
        if name in PER_BANDIT:
            single = single.with_beta(whole.beta.flatten()[r].item())
        own = arms.reshape(4, K, DIM)[r]
        for t in range(3):
            _round(single, own, x[t].reshape(4, DIM)[r], reward[t].reshape(4)[r], arm=t)
        alone = single(own)
        torch.testing.assert_close(whole.index.reshape(4, K)[r], alone.index, atol=1e-10, rtol=0)
        if alone.probs is not None:
            torch.testing.assert_close(whole.probs.reshape(4, K)[r], alone.probs, atol=1e-8, rtol=0)
        else:
            z = random_numbers(policy)
            drawn = whole.draw(z).reshape(4, K)[r]
            torch.testing.assert_close(drawn, alone.draw(z.flatten(0, -2)[r]), atol=1e-9, rtol=0)


def test_arms_permuted_permutes_the_answer(make, name):
    if name in MEMORY:
        pytest.skip("keeps statistics per arm: arms are known by their position")
    policy = make()
    arms = torch.randn(K, DIM, dtype=torch.double)
    arms[1] = arms[0]  # a tie
    play(policy, arms)
    p = torch.randperm(K)
    a, b = policy(arms), policy(arms[p])
    torch.testing.assert_close(a.index[p], b.index)
    if a.probs is not None:
        torch.testing.assert_close(a.probs[p], b.probs)


def test_masked_arms_are_never_played_and_never_matter(make, name):
    policy = make()
    arms = torch.randn(K, DIM, dtype=torch.double)
    play(policy, arms)
    mask = torch.tensor([False, True, True, False, True, False])
    decision = policy(arms, mask=mask)
    drawn = {decision.sample(torch.Generator().manual_seed(s)).item() for s in range(200)}
    assert drawn <= {1, 2, 4}
    if name not in SAMPLED:
        assert (decision.probs[~mask] == 0).all()
        if name not in MEMORY:  # these know no other set of arms
            torch.testing.assert_close(decision.probs[mask], policy(arms[mask]).probs)
        assert decision.log_probs[~mask].isneginf().all()
        assert decision.entropy().isfinite()
    only = torch.zeros(K, dtype=torch.bool)
    only[3] = True
    assert policy(arms, mask=only).sample() == 3


def test_one_arm_one_feature(name):
    policy = build(name, 1, num_arms=1)
    assert policy(torch.ones(1, 1)).sample() == 0


def test_a_zero_feature_vector_is_harmless(make):
    policy = make()
    decision = play(policy, torch.zeros(K, DIM, dtype=torch.double))
    assert decision.width.eq(0).all()
    assert decision.index.isfinite().all()


def test_many_observations_at_once_equal_single_ones_in_any_order(name):
    _skip_one_per_call(name)
    g = torch.Generator().manual_seed(1)
    x, reward = torch.randn(3, 20, DIM, generator=g).double(), torch.randn(3, 20, generator=g).double()
    arms = torch.randn(K, DIM, generator=g).double()
    many, single = (build(name, DIM, batch=(3,), ridge_alpha=2.5, dtype=torch.double) for _ in range(2))
    many.update(x, reward)
    for t in torch.randperm(20, generator=g).tolist():
        single.update(x[:, t], reward[:, t])
    _same(many(arms), single(arms))
    assert many.state.num_observations.tolist() == [20, 20, 20]


def test_one_bandit_many_requests(name):
    _skip_one_per_call(name)
    g = torch.Generator().manual_seed(1)
    policy, other = (build(name, DIM, dtype=torch.double) for _ in range(2))
    requests = torch.randn(2, 5, K, DIM, generator=g).double()
    decision = policy(requests)
    arm = decision.sample(g)
    assert arm.shape == (2, 5)
    x = requests.gather(-2, arm[..., None, None].expand(2, 5, 1, DIM)).squeeze(-2)
    reward = torch.randn(2, 5, generator=g).double()
    policy.update(x, reward)
    for i in range(2):
        for j in range(5):
            other.update(x[i, j], reward[i, j])
    assert policy.state.num_observations == 10
    whole = policy(requests)
    for i in range(2):
        torch.testing.assert_close(whole.index[i, 3], other(requests[i, 3]).index, atol=1e-10, rtol=0)


def test_rows_by_bandit_id_with_repeats(name):
    _skip_one_per_call(name)
    g = torch.Generator().manual_seed(2)
    policy, other = (build(name, DIM, batch=(7,), dtype=torch.double) for _ in range(2))
    ids = torch.tensor([5, 0, 5, 3, 5])
    x, reward = torch.randn(5, DIM, generator=g).double(), torch.randn(5, generator=g).double()
    policy.update(x, reward, bandit=ids)
    for i in range(5):
        other.update(x[i : i + 1], reward[i : i + 1], bandit=ids[i : i + 1])
    torch.testing.assert_close(policy.state.V, other.state.V, atol=1e-12, rtol=0)
    assert policy.state.num_observations.tolist() == [1, 0, 0, 1, 0, 3, 0]
    arms = torch.randn(K, DIM, generator=g).double()
    _same(policy(arms, bandit=ids), other(arms, bandit=ids))
    whole = policy(arms)
    torch.testing.assert_close(policy(arms, bandit=ids).index, whole.index[ids], atol=1e-12, rtol=0)
    own = torch.randn(5, K, DIM, generator=g).double()
    assert policy(own, bandit=ids).index.shape == (5, K)
    policy.update(own[:, :3], torch.randn(5, 3, generator=g).double(), bandit=ids)
    assert policy.state.num_observations.tolist() == [4, 0, 0, 4, 0, 12, 0]


def test_rows_by_bandit_id_leave_the_others_alone(make):
    """Rows 5, 0 and 3 of a batch learn as a batch of the three does."""
    policy, ids = make(batch=(7,)), torch.tensor([5, 0, 3])
    before = policy.statistics.clone()
    arms = torch.randn(K, DIM, dtype=torch.double)
    play(policy, arms, bandit=ids)
    rest = torch.tensor([1, 2, 4, 6])
    assert policy.statistics[rest].equal(before[rest])
    assert policy.state.num_observations.tolist() == [5, 0, 0, 5, 0, 5, 0]
    _same(policy(arms, bandit=ids), _rows(policy(arms), ids))


def _rows(decision, ids):
    """Rows of a decision; a draw is left out."""
    probs = None if decision.probs is None else decision.probs[ids]
    return Decision(probs, decision.index[ids], decision.mu_hat[ids], decision.width[ids])


def test_state_dict_deepcopy_and_to(make):
    policy = make(batch=(3,))
    arms = torch.randn(K, DIM, dtype=torch.double)
    want = play(policy, arms)
    file = io.BytesIO()
    torch.save(policy.state_dict(), file)
    file.seek(0)
    fresh = make(batch=(3,))
    fresh.load_state_dict(torch.load(file, weights_only=True))
    _same(fresh(arms), want, 0)
    _same(copy.deepcopy(policy)(arms), want, 0)
    short = copy.deepcopy(policy).float()
    assert short.dtype == torch.float32
    assert short.statistics.dtype == torch.float64
    assert short.statistics.equal(policy.statistics)
    assert short(arms.float()).index.dtype == torch.float32
    _same(short.double()(arms), want, 1e-6)


def test_the_same_generator_the_same_arms(make):
    policy = make(batch=(50,))
    arms = torch.randn(K, DIM, dtype=torch.double)
    draws = [policy(arms).sample(torch.Generator().manual_seed(3)) for _ in range(2)]
    assert draws[0].equal(draws[1])


def test_reset_forgets(make):
    policy = make()
    fresh = policy.statistics.clone()
    play(policy, torch.randn(K, DIM, dtype=torch.double))
    assert not policy.statistics.equal(fresh)
    policy.reset()
    assert policy.statistics.equal(fresh)


def test_it_says_what_it_is(make):
    policy = make()
    assert f"dim={DIM}" in repr(policy)
    if not isinstance(policy, SoftUCBPolicy):  # shows beta, delta and coldness
        shown = set(policy.settings) - {"refresh_every", "device", "dtype"}
        assert all(f"{name}=" in repr(policy) for name in shown)


def test_settings_reproduce_the_policy(make):
    policy = make(ridge_alpha=0.3, refresh_every=7, batch=(3,))
    beta = {}
    if isinstance(policy, SoftUCBPolicy):  # settings have all but beta
        beta["beta_init"] = policy.beta.detach() if policy.beta_module is None else policy.beta_module
    other = type(policy)(policy.dim, **policy.settings, **beta)
    assert other.settings == policy.settings
    other.reset(batch_shape=(3,))
    arms = torch.randn(K, DIM, dtype=torch.double)
    _same(play(other, arms), play(policy, arms), 0)


def test_fresh_memory_is_what_a_reset_writes(make):
    policy = make(batch=(3,))
    assert policy.fresh_memory((3,)).shape == policy.state.memory.shape
    assert policy.fresh_memory((3,)).double().equal(policy.state.memory)


def test_a_decision_outlives_the_update_that_follows_it(make, name):
    """decide, update, then backward or draw: neither sees what the update wrote."""
    policy = make()
    arms = torch.randn(K, DIM, dtype=torch.double, requires_grad=True)
    with torch.no_grad():
        play(policy, arms)
    decision = policy(arms)
    z = random_numbers(policy)
    before = decision.draw(z).detach().clone() if name in SAMPLED else None
    policy.update(arms[0].detach(), torch.tensor(1.0, dtype=torch.double), decision=decision, arm=torch.tensor(0))
    if name in SAMPLED:
        assert decision.draw(z).equal(before)
        decision.draw(z).sum().backward()
    else:
        decision.mu_hat.sum().backward(retain_graph=True)
        decision.width.sum().backward(retain_graph=True)
        if decision.gamma is not None:
            decision.log_prob(torch.tensor(0)).backward()
    assert arms.grad.isfinite().all()


def test_no_observations_change_nothing(name):
    _skip_one_per_call(name)
    policy = build(name, DIM, batch=(3,))
    before = policy.statistics.clone()
    policy.update(torch.zeros(3, 0, DIM), torch.zeros(3, 0))
    policy.update(torch.zeros(2, 0, DIM), torch.zeros(2, 0), bandit=torch.tensor([1, 1]))
    policy.update(torch.zeros(0, DIM), torch.zeros(0), bandit=torch.zeros(0, dtype=torch.int64))
    torch.testing.assert_close(policy.statistics, before)
