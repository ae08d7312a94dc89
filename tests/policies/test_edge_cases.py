"""Half precision, meta, pickles, flags, keywords, absurd lengths: what works, and what is refused with a clear error."""

import pickle

import pytest
import torch

from torch_softucb import EXP3, EpsilonGreedy, LinTS, LinUCB, NumericalError, SoftUCBPolicy
from torch_softucb.policies import BootstrapThompson, LinGiro, LinPHE

HALF = [torch.bfloat16, torch.float16]
SAMPLED = {
    "lin_ts": lambda: LinTS(3),
    "lin_giro": lambda: LinGiro(3, 3),
    "lin_phe": lambda: LinPHE(3, 3),
    "bootstrap_thompson": lambda: BootstrapThompson(3, 3),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dtype", HALF)
def test_a_half_precision_policy_decides_on_one_set_of_arms_in_its_dtype(dtype, grad, seeded):
    policy, arms = SoftUCBPolicy(4, dtype=dtype), torch.eye(4, dtype=dtype)
    with torch.set_grad_enabled(grad):
        decision = policy(arms)
    for name in ("probs", "index", "mu_hat", "width", "beta", "gamma"):
        assert getattr(decision, name).dtype == dtype
    arm = decision.sample(seeded(0))
    policy.update(arms[arm], torch.ones((), dtype=dtype))
    assert policy.statistics.dtype == torch.float64
    assert policy.state.num_observations == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("grad", [False, True])
def test_a_beta_that_is_not_finite_is_named(grad, batch, bad):
    policy = SoftUCBPolicy(5)
    policy.reset(batch_shape=batch)
    policy.raw_beta.data.fill_(bad)
    with torch.set_grad_enabled(grad), pytest.raises(NumericalError, match=r"SoftUCBPolicy: beta must be finite, got 1 NaN"):
        policy(torch.eye(5))


@pytest.mark.parametrize("policy", [SoftUCBPolicy(5), LinUCB(5), LinTS(5), EpsilonGreedy(5)], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", ["root", "b"])
def test_statistics_that_are_not_finite_are_named(name, grad, policy):
    policy.reset()
    getattr(policy.state, name).view(-1)[0] = float("nan")
    with (
        torch.set_grad_enabled(grad),
        pytest.raises(NumericalError, match=r"the statistics \(V, root or b\) must be finite"),
    ):
        policy(torch.eye(5))


def test_an_index_that_overflows_is_reported():
    policy = SoftUCBPolicy(5, beta_init=3e38)
    policy.reset(batch_shape=(2,))
    with pytest.raises(NumericalError, match=r"index mu_hat \+ beta \* width must be finite.*largest beta of 3e\+38"):
        policy(torch.eye(5) * 100)


def test_a_carried_gamma_that_is_not_finite_is_reported():
    policy = SoftUCBPolicy(5, coldness="lagged")
    policy.state.gamma.fill_(float("nan"))
    for grad in (False, True):
        with torch.set_grad_enabled(grad), pytest.raises(NumericalError, match="coldness gamma must be finite"):
            policy(torch.eye(5))


@pytest.mark.parametrize("name", SAMPLED)
def test_a_sampled_decision_can_be_pickled(name, seeded):
    decision = SAMPLED[name]()(torch.eye(3))
    again = pickle.loads(pickle.dumps(decision))
    assert again.sample(seeded(3)).equal(decision.sample(seeded(3)))


@pytest.mark.parametrize("name", SAMPLED)
def test_a_sampled_decision_refuses_to_draw_from_nan(name):
    decision = SAMPLED[name]()(torch.eye(3))
    noise = torch.full((decision.num_normals,), float("nan"))
    with pytest.raises(NumericalError, match="drawn index must be finite"):
        decision.pick(noise)
    with pytest.raises(NumericalError, match="drawn index must be finite"):
        decision.pick_topk(2, noise)


@pytest.mark.parametrize(
    "make",
    [
        lambda **kw: LinUCB(3, **kw),
        lambda **kw: LinTS(3, **kw),
        lambda **kw: EpsilonGreedy(3, **kw),
        lambda **kw: LinGiro(3, 3, **kw),
        lambda **kw: LinPHE(3, 3, **kw),
        lambda **kw: SoftUCBPolicy(3, **kw),
        lambda **kw: EXP3(3, 3, **kw),
    ],
)
def test_memory_is_not_a_keyword_of_a_policy(make):
    with pytest.raises(TypeError, match="memory"):
        make(memory=torch.zeros(2))


@pytest.mark.parametrize("name", ["differentiate_gamma", "learn_delta"])
@pytest.mark.parametrize("value", [1, 0, "yes", None])
def test_flags_are_true_or_false(name, value):
    with pytest.raises(TypeError, match=f"SoftUCBPolicy: {name} must be True or False, got {value!r}"):
        SoftUCBPolicy(3, **{name: value})


def test_exp3_answers_several_requests_at_once(seeded):
    policy = EXP3(3, 4)
    decision = policy(torch.randn(2, 5, 4, 3, generator=seeded(0)))
    assert decision.probs.shape == decision.index.shape == (2, 5, 4)
    assert decision.sample(seeded(1)).shape == (2, 5)


def test_a_pretrained_policy_takes_an_update_of_no_rows():
    policy = SoftUCBPolicy.pretrained(3)
    policy.update(torch.zeros(0, 3), torch.zeros(0))
    assert policy.state.num_observations == 0


def test_a_policy_on_meta_decides_on_shapes_and_refuses_to_learn():
    policy = SoftUCBPolicy(3, device="meta")
    assert policy(torch.empty(4, 3, device="meta")).probs.shape == (4,)
    assert "beta=tensor()" in repr(policy)
    with pytest.raises(ValueError, match=r"got a policy on meta; use policy.to_empty"):
        policy.update(torch.empty(3, device="meta"), torch.empty((), device="meta"))


@pytest.mark.parametrize("many", [False, True])
def test_a_disturbed_cache_is_noticed_with_a_discount_too(many, seeded):
    policy = SoftUCBPolicy(3, dtype=torch.double)
    x = torch.randn(20, 3, generator=seeded(0), dtype=torch.double)
    policy.update(x, x[:, 0])
    policy.state.root.add_(1e-3)
    before = policy.statistics.clone()
    rows = x if many else x[0]
    with pytest.raises(NumericalError, match="ridge cache: root is off by"):
        policy.update(rows, rows[..., 0], discount=0.9)
    assert policy.statistics.equal(before)


@pytest.mark.parametrize("shape", [(), (3,), (2,)], ids=["one", "several at once", "one of a batch"])
def test_features_too_long_for_float64_are_refused_and_change_nothing(shape, seeded):
    policy = SoftUCBPolicy(4, dtype=torch.double)
    if shape == (2,):
        policy.reset(batch_shape=shape)
    x = torch.randn(*shape, 4, generator=seeded(0), dtype=torch.double) * 1e18
    states = [policy.statistics.clone()]

    def update_often():
        for _ in range(6):
            policy.update(x, x[..., 0].clamp(-1, 1))
            states.append(policy.statistics.clone())

    with pytest.raises(NumericalError, match=r"features of length .*e\+18.* normalise the features. Nothing was changed"):
        update_often()
    assert policy.statistics.equal(states[-1])
