"""A Gaussian prior in every policy, against the literal formulas V = V_0 + sum x x^T and b = V_0 m + sum x (y - c)."""

import copy

import pytest
import torch
from torch import nn

from tests.policies.cases import AUTO, MEMORY, NUM_ARMS, PRIOR, build, play, prior_of
from torch_softucb import (
    AutoSoftUCB,
    DisjointArms,
    EpsilonGreedy,
    GaussianPrior,
    LinGiro,
    LinPHE,
    LinTS,
    LinUCB,
    PhasedElimination,
    SoftUCBHead,
    SoftUCBPolicy,
    load_policy,
    save_policy,
)
from torch_softucb.recommend.refit import Replay

D = torch.double
DIM = 4


def _randn(seeded, *shape, seed=0):
    return torch.randn(shape, generator=seeded(seed), dtype=D)


class Literal:
    """Ridge regression around a prior, written out."""

    def __init__(self, prior):
        self.offset = prior.offset
        self.V_0 = prior.noise_std**2 * torch.linalg.inv(prior.covariance)
        self.b_0 = self.V_0 @ prior.mean
        self.V, self.b = self.V_0.clone(), self.b_0.clone()

    def update(self, x, reward, discount=1.0):
        self.V = discount * self.V + (1 - discount) * self.V_0
        self.b = discount * self.b + (1 - discount) * self.b_0
        for one, y in zip(x.reshape(-1, DIM), reward.reshape(-1), strict=True):
            self.V = self.V + torch.outer(one, one)
            self.b = self.b + one * (y - self.offset)

    def estimate(self, arms):
        theta, inverse = torch.linalg.solve(self.V, self.b), torch.linalg.inv(self.V)
        return self.offset + arms @ theta, torch.einsum("kd,de,ke->k", arms, inverse, arms).sqrt()


@pytest.mark.parametrize("discount", [1.0, 0.8])
@pytest.mark.parametrize("name", PRIOR)
def test_every_policy_is_the_literal_posterior(name, discount, seeded):
    policy, literal = build(name, DIM, dtype=D), Literal(prior_of(DIM))
    arms = _randn(seeded, NUM_ARMS, DIM)
    unit = policy.prior.noise_std if PRIOR[name] in AUTO else 1.0  # auto reports widths in the unit of the rewards
    for t in range(12):
        with torch.no_grad():
            decision = policy(arms)
        for got, want in zip((decision.mu_hat, decision.width / unit), literal.estimate(arms), strict=True):
            torch.testing.assert_close(got, want, atol=1e-10, rtol=1e-10)
        arm, reward = torch.tensor(t % NUM_ARMS), 2 + _randn(seeded, seed=t)
        policy.update(arms[arm], reward, decision=decision, arm=arm, discount=discount)
        literal.update(arms[arm], reward, discount)


@pytest.mark.parametrize("grad", [False, True], ids=["numpy", "torch"])
@pytest.mark.parametrize("name", ["soft_ucb", "auto", "auto_summary"])
def test_one_request_at_a_time_is_the_same_as_a_batch(name, grad, seeded):
    one, many = (build(f"{name}_prior", DIM, dtype=D, batch=batch) for batch in ((), (1,)))
    arms = _randn(seeded, NUM_ARMS, DIM)
    for t in range(15):
        with torch.set_grad_enabled(grad):
            a, b = one(arms), many(arms)
        for field in ("probs", "mu_hat", "width", "index"):
            torch.testing.assert_close(getattr(a, field), getattr(b, field).squeeze(0), atol=1e-10, rtol=1e-10)
        x, reward = _randn(seeded, DIM, seed=t), _randn(seeded, seed=50 + t)
        one.update(x, reward)
        many.update(x.unsqueeze(0), reward.unsqueeze(0))
    torch.testing.assert_close(one.statistics, many.statistics[0], atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", [base for base in PRIOR.values() if base not in AUTO])
def test_ridge_one_is_no_prior(name, seeded):
    with_prior, without = build(name, DIM, dtype=D, prior=GaussianPrior.ridge(DIM)), build(name, DIM, dtype=D)
    arms = _randn(seeded, NUM_ARMS, DIM)
    a, b = play(with_prior, arms), play(without, arms)
    assert with_prior.statistics.equal(without.statistics)
    assert a.index.equal(b.index)
    if a.probs is None:
        z = _randn(seeded, a.num_normals)
        torch.testing.assert_close(a.draw(z), b.draw(z), atol=1e-12, rtol=0)
    else:
        assert a.probs.equal(b.probs)


def test_ridge_alpha_is_a_prior(seeded):
    a, b = LinUCB(DIM, prior=GaussianPrior.ridge(DIM, 0.3), dtype=D), LinUCB(DIM, ridge_alpha=0.3, dtype=D)
    arms = _randn(seeded, NUM_ARMS, DIM)
    for field in ("mu_hat", "width", "probs"):
        torch.testing.assert_close(getattr(play(a, arms), field), getattr(play(b, arms), field), atol=1e-12, rtol=0)


def test_pending_observations_narrow_the_width_only(seeded):
    policy, literal, arms = build("lin_ucb_prior", DIM, dtype=D), Literal(prior_of(DIM)), _randn(seeded, NUM_ARMS, DIM)
    x, reward = _randn(seeded, 3, DIM, seed=1), _randn(seeded, 3, seed=2)
    policy.update(x, reward)
    literal.update(x, reward)
    mean = literal.estimate(arms)[0]
    waiting = _randn(seeded, 2, DIM, seed=3)
    literal.update(waiting, torch.zeros(2))
    decision = policy(arms, pending=waiting.T @ waiting)
    torch.testing.assert_close(decision.mu_hat, mean, atol=1e-10, rtol=0)
    torch.testing.assert_close(decision.width, literal.estimate(arms)[1], atol=1e-10, rtol=0)


def test_thompson_draws_have_the_posterior_covariance(seeded):
    policy, literal = LinTS(DIM, prior=prior_of(DIM), dtype=D), Literal(prior_of(DIM))
    x, reward = _randn(seeded, 3, DIM, seed=1), _randn(seeded, 3, seed=2)
    policy.update(x, reward)
    literal.update(x, reward)
    decision = policy(torch.eye(DIM, dtype=D))
    centre = decision.draw(torch.zeros(DIM, dtype=D))
    root = torch.stack([decision.draw(z) - centre for z in torch.eye(DIM, dtype=D)])  # rows: images of the unit vectors
    torch.testing.assert_close(root.T @ root, torch.linalg.inv(literal.V), atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", ["lin_phe", "lin_giro"])
def test_pseudo_rewards_are_fitted_around_the_prior(name, seeded):
    """At z = 0 a draw is the fit to each reward and its pseudo-rewards at their mean, with prior weight (1 + a) V_0."""
    build_one, extra = {"lin_phe": (LinPHE, 2.0), "lin_giro": (LinGiro, 2.0)}[name]
    own = {"perturbation": 2.0} if name == "lin_phe" else {"pseudo": 1.0}
    prior, arms = prior_of(DIM), _randn(seeded, NUM_ARMS, DIM)
    policy = build_one(DIM, NUM_ARMS, reward_low=-1.0, reward_high=2.0, prior=prior, dtype=D, **own)
    base = Literal(prior)
    V, b = (1 + extra) * base.V_0, (1 + extra) * base.b_0
    for t in range(8):
        arm, reward = torch.tensor(t % NUM_ARMS), _randn(seeded, seed=t)
        policy.update(arms[arm], reward, decision=policy(arms), arm=arm)
        for y in (reward, *[0.5] * 2):  # 0.5: the middle of the range
            V, b = V + torch.outer(arms[arm], arms[arm]), b + arms[arm] * (y - prior.offset)
    draw = policy(arms).draw(torch.zeros(NUM_ARMS, dtype=D))
    torch.testing.assert_close(draw, arms @ torch.linalg.solve(V, b), atol=1e-10, rtol=0)


def test_phases_drop_arms_by_their_own_mean_not_by_the_residual(seeded):
    """Arms 0 and 1 are exactly as good as the prior says: residuals are 0, and only the prior's part tells them apart."""
    prior = GaussianPrior(torch.tensor([5.0, 0.0]), torch.eye(2), offset=1.0)
    policy, arms = PhasedElimination(2, 2, subgaussian_r=0.1, prior=prior), torch.eye(2)
    for _ in range(300):
        decision = policy(arms)
        arm = decision.probs.argmax()
        policy.update(arms[arm], torch.tensor([6.0, 1.0])[arm], decision=decision, arm=arm)
    assert policy(arms).probs.tolist() == [1.0, 0.0]


def test_exp3_weighs_rewards_as_they_are():
    with_prior, without = (build("exp3", DIM, prior=prior) for prior in (prior_of(DIM), None))
    arms = torch.eye(DIM).repeat(2, 1)[:NUM_ARMS]
    play(with_prior, arms), play(without, arms)
    assert with_prior.state.memory.equal(without.state.memory)


@pytest.mark.parametrize("name", ["auto", "auto_summary", "soft_ucb_situation"])
def test_units_do_not_matter(name, seeded):
    """Rewards a y + k and the prior (a m, a^2 Sigma, a s, a c + k): the same decisions."""
    a, k, prior = 40.0, -7e3, prior_of(DIM)
    other = GaussianPrior(
        a * prior.mean, a**2 * prior.covariance, noise_std=a * prior.noise_std, offset=a * prior.offset + k
    )
    arms, first, second = _randn(seeded, NUM_ARMS, DIM), *(build(name, DIM, dtype=D, prior=p) for p in (prior, other))
    for t in range(30):
        p, q = first(arms), second(arms)
        if name.startswith("auto"):
            torch.testing.assert_close(p.probs, q.probs, atol=1e-8, rtol=0)
            torch.testing.assert_close(q.mu_hat, a * p.mu_hat + k, atol=1e-8, rtol=1e-8)
        else:  # widths of other policies are in units of the noise
            torch.testing.assert_close(p.width, q.width, atol=1e-10, rtol=0)
        x, y = arms[t % NUM_ARMS], 2 + _randn(seeded, seed=t)
        first.update(x, y)
        second.update(x, a * y + k)


def test_auto_reports_the_prior_from_the_first_decision_on(seeded):
    prior = prior_of(DIM)
    policy = SoftUCBPolicy.auto(DIM, prior=prior, dtype=D)
    policy.reset(batch_shape=(3,))
    for _ in range(2):
        assert policy.offset.tolist() == [prior.offset] * 3
        assert policy.noise_std.tolist() == [prior.noise_std] * 3
        want = prior.covariance.diagonal().mean().sqrt()
        torch.testing.assert_close(policy.prior_std, want.expand(3))
        policy.update(_randn(seeded, 3, 5, DIM), _randn(seeded, 3, 5))
    assert SoftUCBPolicy.auto(DIM, prior=prior, pooled=True).noise_std.shape == ()
    pretrained = SoftUCBPolicy.pretrained(DIM, prior=prior)
    assert pretrained.prior == prior


def test_with_disjoint_arms_each_theta_has_the_prior(seeded):
    prior = prior_of(DIM)
    for policy in (LinUCB(DIM, beta=0.3, prior=prior, dtype=D), SoftUCBPolicy(DIM, prior=prior, dtype=D)):
        disjoint, literal = DisjointArms(policy, num_arms=3), [Literal(prior) for _ in range(3)]
        for t in range(9):
            context, arm = _randn(seeded, DIM, seed=t), torch.tensor(t % 2)
            for context_of in (context, context.unsqueeze(0)):  # in numpy, and several requests
                with torch.no_grad():
                    decision = disjoint(context_of)
                found = [one.estimate(context.unsqueeze(0)) for one in literal]
                mu_hat, width = (torch.cat(values) for values in zip(*found, strict=True))
                torch.testing.assert_close(decision.mu_hat.flatten(), mu_hat, atol=1e-10, rtol=0)
                torch.testing.assert_close(decision.width.flatten(), width, atol=1e-10, rtol=0)
            reward = _randn(seeded, seed=90 + t)
            disjoint.update(context, arm, reward)
            literal[int(arm)].update(context, reward)
    disjoint.reset(batch_shape=(2,), prior=None)
    assert policy.prior is None


def test_auto_with_disjoint_arms_in_numpy_and_in_torch(seeded):
    prior = prior_of(DIM)
    one = DisjointArms(SoftUCBPolicy.auto(DIM, prior=prior, dtype=D), num_arms=3)
    many = DisjointArms(SoftUCBPolicy.auto(DIM, prior=prior, dtype=D), num_arms=3)
    many.reset(batch_shape=(1,))
    for t in range(20):
        context, arm, reward = _randn(seeded, DIM, seed=t), torch.tensor(t % 3), _randn(seeded, seed=90 + t)
        with torch.no_grad():
            a, b = one(context), many(context.unsqueeze(0))
        for field in ("probs", "mu_hat", "width", "beta"):
            torch.testing.assert_close(getattr(a, field), getattr(b, field).squeeze(0), atol=1e-10, rtol=1e-10)
        one.update(context, arm, reward)
        many.update(context.unsqueeze(0), arm.unsqueeze(0), reward.unsqueeze(0))


@pytest.mark.parametrize("name", PRIOR)
def test_the_prior_is_part_of_the_state(name, tmp_path, seeded):
    policy, arms = build(name, DIM, dtype=torch.float32), _randn(seeded, NUM_ARMS, DIM).float()
    play(policy, arms)
    save_policy(tmp_path / "policy", policy)
    fresh = build(PRIOR[name], DIM, dtype=torch.float32, prior=prior_of(DIM, seed=9, noise_std=3.0, offset=-1.0))
    fresh.load_state_dict(policy.state_dict())
    for other in (load_policy(tmp_path / "policy"), copy.deepcopy(policy), fresh):
        assert other.prior == policy.prior
        assert torch.equal(other.prior.factor, policy.prior.factor)
        a, b = play(copy.deepcopy(policy), arms), play(other, arms)
        assert a.index.equal(b.index)
        assert a.mu_hat.equal(b.mu_hat)


def test_loading_a_state_leaves_the_prior_of_others_alone():
    prior, other = prior_of(DIM), prior_of(DIM, seed=9)
    first, second = (LinUCB(DIM, prior=prior) for _ in range(2))
    first.load_state_dict(LinUCB(DIM, prior=other).state_dict())
    assert first.prior == other
    assert second.prior == prior == prior_of(DIM)


def test_a_state_with_and_one_without_a_prior_do_not_mix():
    plain, informed = LinUCB(DIM), LinUCB(DIM, prior=prior_of(DIM))
    assert not [name for name in plain.state_dict() if "prior" in name]
    for policy, state in ((plain, informed.state_dict()), (informed, plain.state_dict())):
        fix = "; build the policy with any prior=" if policy is plain else "'prior_covariance'"
        with pytest.raises(ValueError, match=fix):
            policy.load_state_dict(state)
    half = {name: value for name, value in informed.state_dict().items() if name != "prior_numbers"}
    with pytest.raises(ValueError, match="must have all of prior_mean, prior_covariance, prior_numbers or none"):
        informed.load_state_dict(half, strict=False)
    broken = informed.state_dict() | {"prior_covariance": torch.ones(DIM, DIM, dtype=D)}
    with pytest.raises(ValueError, match="must be positive definite"):
        informed.load_state_dict(broken)
    assert informed.prior == prior_of(DIM)


def test_the_prior_stays_float64_in_a_float32_policy():
    policy = SoftUCBPolicy.auto(DIM, prior=prior_of(DIM), dtype=D).float()
    assert {value.dtype for value in policy.prior_tensors} == {D}
    assert policy.prior == prior_of(DIM)
    policy.reset()
    assert policy.scales.noise_std == policy.prior.noise_std  # all digits


def test_a_policy_on_meta_gets_its_prior_with_its_state():
    policy = LinUCB(DIM, prior=prior_of(DIM), device="meta")
    assert policy(torch.empty(3, DIM, device="meta")).mu_hat.shape == (3,)
    policy.to_empty(device="cpu")
    policy.load_state_dict(LinUCB(DIM, prior=prior_of(DIM)).state_dict())
    assert policy.prior == prior_of(DIM)


def test_reset_keeps_replaces_or_removes_the_prior():
    policy = EpsilonGreedy(DIM, prior=prior_of(DIM))
    policy.reset(batch_shape=(2,))
    assert policy.prior == prior_of(DIM)
    policy.reset(batch_shape=(2,), prior=prior_of(DIM, seed=8))
    assert policy.prior == prior_of(DIM, seed=8)
    policy.reset(prior=None)
    assert policy.prior is None
    assert list(policy.state_dict()) == ["statistics"]


def test_another_beta_keeps_prior_and_statistics(seeded):
    policy, arms = SoftUCBPolicy(DIM, prior=prior_of(DIM)), _randn(seeded, NUM_ARMS, DIM).float()
    play(policy, arms)
    other = policy.with_beta(0.2)
    assert other.prior == policy.prior
    assert other(arms).mu_hat.equal(policy(arms).mu_hat)


def test_a_head_refits_around_the_prior(seeded):
    prior, items = prior_of(DIM), _randn(seeded, 20, DIM).float()
    embedding = nn.Embedding.from_pretrained(items)
    head = SoftUCBHead(embedding, SoftUCBPolicy(DIM, prior=prior))
    candidates = torch.arange(20).view(4, 5)
    for _ in range(3):
        served = head.serve(head(candidates))
        head.feedback(served.id, torch.arange(4.0))
    head.refit([Replay((candidates,), torch.tensor([0, 1, 2, 3]), torch.arange(4.0))])
    literal = Literal(prior)
    literal.update(items[torch.tensor([0, 6, 12, 18])].double(), torch.arange(4.0).double())
    mu_hat, _ = literal.estimate(items[:5].double())
    torch.testing.assert_close(head(torch.arange(5)).mu_hat.detach().double(), mu_hat, atol=2e-5, rtol=0)


def test_a_model_last_layer_is_a_prior(seeded):
    layer, x = nn.Linear(DIM, 1), _randn(seeded, 50, DIM).float()
    prior = GaussianPrior.from_linear(layer, strength=20.0, noise_std=0.3, features=x)
    predicted = prior.predict(x) + prior.offset
    torch.testing.assert_close(predicted, layer(x).squeeze(-1).detach())
    torch.testing.assert_close(prior.precision, 20 * (x.double().T @ x.double()) / 50, atol=1e-10, rtol=1e-10)
    assert GaussianPrior.from_linear(nn.Linear(DIM, 1, bias=False), strength=1.0, noise_std=1.0).offset == 0.0


def test_factor_precision_and_whitening():
    prior = prior_of(DIM)
    torch.testing.assert_close(prior.factor @ prior.factor.T, prior.covariance / prior.noise_std**2, atol=1e-12, rtol=0)
    assert prior.factor.equal(prior.factor.tril())
    eye = torch.eye(DIM, dtype=D)
    torch.testing.assert_close(prior.precision @ prior.covariance, prior.noise_std**2 * eye, atol=1e-10, rtol=0)
    assert prior.whiten(torch.ones(2, DIM)).dtype == torch.float32
    assert prior.predict(eye).equal(prior.mean)


def test_a_prior_is_a_value():
    mean = torch.zeros(DIM)
    prior = GaussianPrior(mean, torch.eye(DIM))
    mean += 1
    assert prior == GaussianPrior(torch.zeros(DIM), torch.eye(DIM))
    assert hash(prior) == hash(GaussianPrior.ridge(DIM))
    assert prior != GaussianPrior.ridge(DIM, 2.0)
    assert prior != "a prior"
    with pytest.raises(AttributeError):
        prior.offset = 1.0


EYE = torch.eye(2)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((torch.zeros(2), torch.ones(2, 2)), "covariance must be positive definite.*fit_prior, which shrinks"),
        ((torch.zeros(2), -EYE), "covariance must be positive definite"),
        ((torch.zeros(2), torch.tensor([[1.0, 0.3], [0.0, 1.0]])), "covariance must be symmetric"),
        ((torch.zeros(2), EYE * torch.nan), "covariance must be finite"),
        ((torch.tensor([0.0, torch.inf]), EYE), "mean must be finite"),
        ((torch.zeros(3), EYE), r"covariance must have shape \(3, 3\)"),
        ((torch.zeros(1, 2), EYE), r"mean must have shape \(d,\)"),
    ],
)
def test_bad_priors_are_refused(arguments, match):
    with pytest.raises(ValueError, match=f"^GaussianPrior: {match}"):
        GaussianPrior(*arguments)


def test_bad_numbers_are_refused():
    with pytest.raises(ValueError, match="noise_std must be in"):
        GaussianPrior(torch.zeros(2), EYE, noise_std=0.0)
    with pytest.raises(ValueError, match="offset must be in"):
        GaussianPrior(torch.zeros(2), EYE, offset=torch.inf)
    with pytest.raises(TypeError, match="mean must be a floating point tensor"):
        GaussianPrior([0.0], EYE)
    with pytest.raises(ValueError, match=r"from_linear: layer must be an nn\.Linear with one output, got 2 outputs"):
        GaussianPrior.from_linear(nn.Linear(2, 2), strength=1.0, noise_std=1.0)
    with pytest.raises(ValueError, match=r"the mean of x x\^T over features must be positive definite.*more varied"):
        GaussianPrior.from_linear(nn.Linear(2, 1), strength=1.0, noise_std=1.0, features=torch.ones(9, 2))


@pytest.mark.parametrize("name", [*PRIOR.values()])
def test_policies_refuse_what_is_no_prior_for_them(name):
    with pytest.raises(TypeError, match="prior must be a GaussianPrior or None, got str"):
        build(name, DIM, prior="learned")
    with pytest.raises(ValueError, match="prior must be over the policy's 4 features, got one over 3"):
        build(name, DIM, prior=prior_of(3))
    if name not in AUTO:
        with pytest.raises(ValueError, match="ridge_alpha must not be given together with prior"):
            build(name, DIM, prior=prior_of(DIM), ridge_alpha=0.5)
    policy = build(name, DIM)
    before = policy.statistics.clone()
    with pytest.raises(TypeError, match=r"reset: prior must be a GaussianPrior or None, got str"):
        policy.reset(batch_shape=(3,), prior="learned")
    assert policy.statistics.equal(before)


def test_every_policy_of_the_package_is_tested_with_a_prior():
    from torch_softucb import policies

    tested = {type(build(name, DIM)).__name__ for name in PRIOR}
    assert tested == set(policies.__all__) - {"ArmPolicy", "BanditPolicy"}
    assert set(MEMORY) - {"exp3_theoretical"} <= set(PRIOR.values())
    assert isinstance(build("auto_prior", DIM), AutoSoftUCB)
