"""Beta as a module: what it looks at, everywhere the same, learnable, compiled and exported."""

import copy
import math

import pytest
import torch

from torch_softucb import ScheduleBeta, SegmentBeta, SituationBeta, SoftUCBPolicy, rollout, synthetic_problem
from torch_softucb import functional as F
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.finite_difference import common_random_numbers
from torch_softucb.learning.estimators.paper import paper
from torch_softucb.learning.estimators.score_function import trajectory
from torch_softucb.policies.beta.situation import SITUATION
from torch_softucb.simulation.backends.compiled import find_compiler

D = torch.double
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")


def bent(module, seeded):
    """A module that says something else in every situation."""
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=seeded(i)))
    return module


MODULES = {
    "segment": lambda seeded: bent(SegmentBeta(torch.arange(20) % 3, init=0.6), seeded),
    "schedule": lambda seeded: ScheduleBeta(60, init=torch.tensor([1.0, 0.3, 0.5])),
    "situation": lambda seeded: bent(SituationBeta(horizon=60, init=0.7), seeded),
}


def problem_of(seeded, *, masked=False, drift_rate=0.0, count=20):
    problem = synthetic_problem(num_problems=count, num_arms=9, dim=4, drift_rate=drift_rate, generator=seeded(0), dtype=D)
    if not masked:
        return problem
    mask = torch.rand(count, 9, generator=seeded(1)) > 0.4
    mask[:, 2] = True
    return type(problem)(problem.arms, problem.means, 0.5, mask)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.97])
def test_policy_and_rollout_see_the_same_situation(masked, discount, seeded):
    """Round by round: ridge statistics and their tally in the policy, what a rollout carries forward, formulas by hand."""
    problem = problem_of(seeded, masked=masked)
    module = bent(SituationBeta(horizon=60, init=0.7), seeded)
    policy = SoftUCBPolicy(4, beta_init=module, coldness="smooth", ridge_alpha=0.7, dtype=D)
    kind = {"horizon": 25, "generator": seeded(2), "record": ("arm", "reward", "beta"), "scores": True}
    played = rollout(policy, problem, discount=discount, **kind)
    policy.reset(batch_shape=(20,))
    V = 0.7 * torch.eye(4, dtype=D).expand(20, 4, 4)
    b, squares, count = torch.zeros(20, 4, dtype=D), torch.zeros(20, dtype=D), 0.0
    for t in range(25):
        decision = policy(problem.arms, mask=problem.mask)
        torch.testing.assert_close(decision.situation, played.situation[t], atol=1e-9, rtol=0)
        torch.testing.assert_close(decision.beta, played.records["beta"][t], atol=1e-9, rtol=0)
        looked = dict(zip(module.inputs, decision.situation.unbind(-1), strict=True))
        residual = squares - (b * torch.linalg.solve(V, b)).sum(-1)
        torch.testing.assert_close(looked["log_noise"], 0.5 * torch.log((residual + 1) / (count + 1)), atol=1e-9, rtol=0)
        torch.testing.assert_close(looked["log_det"], (torch.logdet(V) - 4 * math.log(0.7)) / 4, atol=1e-9, rtol=0)
        allowed = torch.ones(20, 9, dtype=torch.bool) if problem.mask is None else problem.mask
        for i in range(20):
            width = decision.width[i][allowed[i]]
            want = [float(allowed[i].sum()), width.min(), width.mean(), width.max()]
            names = ("log_arms", "log_width_low", "log_width_mid", "log_width_high")
            for name, value in zip(names, want, strict=True):
                assert float(looked[name][i]) == pytest.approx(math.log(value), abs=1e-9)
        arm, reward = played.records["arm"][t], played.records["reward"][t]
        x = problem.arms[torch.arange(20), arm]
        policy.update(x, reward, discount=discount)
        ridge = (1 - discount) * 0.7 * torch.eye(4, dtype=D)
        V = discount * V + ridge + x.unsqueeze(-1) * x.unsqueeze(-2)
        b = discount * b + x * reward.unsqueeze(-1)
        squares, count = discount * squares + reward**2, discount * count + 1


@needs_compiler
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("drift_rate", [0.0, 0.01])
@pytest.mark.parametrize("discount", [1.0, 0.97])
@pytest.mark.parametrize("masked", [False, True])
def test_the_native_kernel_plays_modules_drift_and_forgetting_like_eager(name, drift_rate, discount, masked, seeded):
    if masked and drift_rate:
        pytest.skip("masks and drift are tested apart")
    problem = problem_of(seeded, masked=masked, drift_rate=drift_rate)
    policy = SoftUCBPolicy(4, beta_init=MODULES[name](seeded), coldness="smooth", learn_delta=True, dtype=D)
    kind = {"horizon": 40, "scores": True, "gradient": True, "discount": discount}
    eager, native = (rollout(policy, problem, generator=seeded(3), compile=way, **kind) for way in (False, "native"))
    torch.testing.assert_close(native.regret, eager.regret, atol=1e-10, rtol=0)
    torch.testing.assert_close(native.situation, eager.situation, atol=1e-10, rtol=0)
    torch.testing.assert_close(native.gradient, eager.gradient, atol=1e-10, rtol=0)
    for score in eager.scores:
        torch.testing.assert_close(native.scores[score], eager.scores[score], atol=1e-9, rtol=1e-9)


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("name", MODULES)
def test_modules_compile_without_a_break(name, seeded):
    policy = SoftUCBPolicy(4, beta_init=MODULES[name](seeded), coldness="smooth", dtype=D)
    for discount in (1.0, 0.97):
        kind = {"horizon": 20, "discount": discount, "generator": seeded(3)}
        eager = rollout(policy, problem_of(seeded, drift_rate=0.01), **kind)
        kind["generator"] = seeded(3)
        fast = rollout(policy, problem_of(seeded, drift_rate=0.01), compile=True, **kind)
        torch.testing.assert_close(fast.regret, eager.regret, atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", ["schedule", "situation"])
def test_modules_can_be_exported(name, seeded):
    policy = SoftUCBPolicy(4, beta_init=MODULES[name](seeded), coldness="smooth", dtype=D)
    arms = torch.randn(5, 9, 4, dtype=D, generator=seeded(0))
    policy.update(arms[:, 0], arms[:, 0, 0])

    class Probabilities(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.policy = policy

        def forward(self, arms):
            return self.policy(arms).probs

    with torch.no_grad():
        program = torch.export.export(Probabilities(), (arms,))
        torch.testing.assert_close(program.module()(arms), policy(arms).probs, atol=1e-12, rtol=0)


def test_a_plain_number_costs_no_statistics():
    assert SoftUCBPolicy(4).statistics.shape == SoftUCBPolicy(4, beta_init=ScheduleBeta(10)).statistics.shape
    assert len(SoftUCBPolicy(4, beta_init=SituationBeta(horizon=9)).statistics) == len(SoftUCBPolicy(4).statistics) + 2


@pytest.mark.parametrize("repeat", [False, True])
def test_the_tally_counts_every_way_of_updating(repeat, seeded):
    """Rows in batches, one by one, repeated ids a few times and often: the same noise."""
    module = SituationBeta(horizon=60)
    ids = torch.tensor([0, 1, 0, 2] if not repeat else [0, 1, 0, 2] + [0] * 9)
    x = torch.randn(len(ids), 4, dtype=D, generator=seeded(0))
    y = torch.randn(len(ids), dtype=D, generator=seeded(1))
    one, many = (SoftUCBPolicy(4, beta_init=copy.deepcopy(module), dtype=D) for _ in range(2))
    for policy in (one, many):
        policy.reset(batch_shape=(3,))
    many.update(x, y, bandit=ids)
    for i in range(len(ids)):
        one.update(x[i : i + 1], y[i : i + 1], bandit=ids[i : i + 1])
    torch.testing.assert_close(many.state.memory, one.state.memory, atol=1e-12, rtol=0)
    arms = torch.randn(9, 4, dtype=D, generator=seeded(2))
    torch.testing.assert_close(many(arms).situation, one(arms).situation, atol=1e-9, rtol=0)
    assert many.state.memory[0].tolist() == [int((ids == 0).sum()), pytest.approx(float((y[ids == 0] ** 2).sum()))]


def test_segments_share_their_beta(seeded):
    policy = SoftUCBPolicy(4, beta_init=bent(SegmentBeta(torch.tensor([0, 1, 0, 2])), seeded))
    policy.reset(batch_shape=(4,))
    arms = torch.randn(9, 4, generator=seeded(0))
    beta = policy(arms).beta
    assert beta[0] == beta[2]
    assert len(beta.unique()) == 3
    assert torch.equal(policy(arms, bandit=torch.tensor([2, 3])).beta, beta[[2, 3]])
    policy.reset(batch_shape=(5,))
    with pytest.raises(ValueError, match=r"beta has shape \(4,\), which does not fit batch_shape \(5,\)"):
        policy(arms)


def _mean_reward(policy, episode):
    return float(-episode.play(policy, horizon=20).regret.mean())


@pytest.mark.parametrize("name", MODULES)
def test_the_gradient_is_the_slopes_times_what_the_module_says(name, seeded):
    """Chain rule, literally: sum over rounds and trajectories of slope times dbeta / dparameter."""
    module = MODULES[name](seeded)
    policy = SoftUCBPolicy(4, beta_init=module, coldness="smooth", learn_delta=True, dtype=D)
    episode = Episode(problem_of(seeded, count=20), 5, 6)
    signal = trajectory(policy, episode, horizon=20, eta=0.0, record=())
    signal.loss.backward()
    assert policy.raw_delta.grad.abs() > 0
    from torch_softucb.learning.estimators.score_function import slopes

    slope = slopes(signal.trajectory)
    for parameter in policy.beta_module.parameters():
        if parameter.grad.abs().max() == 0:
            continue
        at = int(parameter.grad.abs().argmax())
        literal = 0.0
        beta = policy.beta_along(signal.trajectory.situation, signal.trajectory.regret.dim()).expand(20, 20)
        for t in range(0, 20, 1):
            for i in range(0, 20, 1):
                (rise,) = torch.autograd.grad(beta[t, i], parameter, retain_graph=True, allow_unused=True)
                literal += float(slope[t, i] * rise.view(-1)[at]) / 400
        assert float(parameter.grad.view(-1)[at]) == pytest.approx(-literal, rel=1e-8)
    assert _mean_reward(policy, episode) == pytest.approx(-float(signal.loss.detach()), abs=1e-12)


@pytest.mark.parametrize("name", ["schedule", "segment"])
def test_paper_and_differences_reach_the_same_parameters(name, seeded):
    for estimator in (paper, common_random_numbers):
        policy = SoftUCBPolicy(4, beta_init=MODULES[name](seeded), coldness="smooth", dtype=D)
        episode = Episode(problem_of(seeded), 5, 6)
        estimator(policy, episode, horizon=10, eta=0.01, record=()).loss.backward()
        assert all(parameter.grad.isfinite().all() for parameter in policy.parameters())
        assert any(parameter.grad.abs().max() > 0 for parameter in policy.parameters())


def test_a_schedule_of_one_number_learns_as_the_number_does(seeded):
    episode = Episode(problem_of(seeded), 5, 6)
    number, schedule = (SoftUCBPolicy(4, beta_init=start, dtype=D) for start in (0.7, ScheduleBeta(20, init=0.7, knots=2)))
    for policy in (number, schedule):
        paper(policy, episode, horizon=20, eta=0.01, record=()).loss.backward()
    summed = schedule.beta_module.log_beta.grad.sum() / 0.7  # d beta = beta d log beta
    torch.testing.assert_close(summed, number.raw_beta.grad, atol=1e-7, rtol=0)


def test_a_schedule_that_is_pushed_down_plays_greedily_and_never_at_random(seeded):
    """At beta = 0 nothing is eliminated and play is uniform (D1); less exploration must not lead there."""
    policy = SoftUCBPolicy(4, beta_init=ScheduleBeta(60, init=0.5), coldness="smooth", dtype=D)
    optimizer = torch.optim.SGD(policy.parameters(), lr=1.0)
    for _ in range(8):
        optimizer.zero_grad()
        policy.beta_module.log_beta.sum().backward()
        optimizer.step()
        policy.project_()
    with torch.no_grad():
        policy.update(torch.eye(4, dtype=D).repeat(20, 1), torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=D).repeat(20))
        decision = policy(torch.eye(4, dtype=D))
    assert 0 < decision.beta < 1e-3
    assert decision.probs[0] > 0.99


def test_delta_is_learned_within_its_range():
    policy = SoftUCBPolicy(4, delta=0.9, learn_delta=True)
    assert float(policy.delta) == pytest.approx(0.9)
    with torch.no_grad():
        policy.raw_delta.fill_(-3.0)
    assert float(policy.delta) == 0.5  # D2
    policy.project_()
    assert float(policy.raw_delta) == 0.0
    with torch.no_grad():
        policy.raw_delta.fill_(50.0)
    policy.project_()
    assert float(policy.delta) < 1
    index = torch.tensor([0.2, -0.7])
    assert F.coldness(index, 0.9) == pytest.approx(10.9861, abs=1e-4)


def test_what_cannot_be_is_refused(seeded):
    with pytest.raises(ValueError, match="beta must be a number, or one number per bandit, got ScheduleBeta"):
        _ = SoftUCBPolicy(4, beta_init=ScheduleBeta(10)).beta
    with pytest.raises(ValueError, match="inputs must be one of"):
        SituationBeta(horizon=10, inputs=("weather",))
    with pytest.raises(ValueError, match="segments must be integers >= 0"):
        SegmentBeta(torch.tensor([0.5]))
    with pytest.raises(ValueError, match="init must be"):
        ScheduleBeta(10, init=torch.tensor([-1.0, 1.0]))
    for init in (torch.tensor(1.0), torch.ones(2, 3), torch.ones(0)):
        with pytest.raises(ValueError, match="init must have shape"):
            ScheduleBeta(10, init=init)
    with pytest.raises(TypeError, match="init must be a floating point tensor"):
        ScheduleBeta(10, init=torch.tensor([1, 2]))
    for names in ((), ("num_observations", "num_observations")):
        with pytest.raises(ValueError, match="inputs must be at least one name, each of them once"):
            SituationBeta(horizon=10, inputs=names)
    for wrong, named in ((torch.nn.Linear(2, 1), "Linear"), (ScheduleBeta, "the class ScheduleBeta")):
        with pytest.raises(TypeError, match=f"must be a number, a tensor or a BetaModule instance, got {named}"):
            SoftUCBPolicy(4, beta_init=wrong)
    episode = Episode(problem_of(seeded), 5, 6)
    with pytest.raises(ValueError, match="delta must be fixed"):
        paper(SoftUCBPolicy(4, learn_delta=True, dtype=D), episode, horizon=5, eta=0.0, record=())
    policy = SoftUCBPolicy(4, beta_init=SituationBeta(horizon=10), dtype=D)
    with pytest.raises(ValueError, match="at most 64 numbers can be learned by two rollouts each"):
        common_random_numbers(policy, episode, horizon=5, eta=0.0, record=())


def test_state_goes_through_a_checkpoint(seeded):
    policy = SoftUCBPolicy(4, beta_init=MODULES["situation"](seeded), learn_delta=True)
    policy.update(torch.randn(6, 4, generator=seeded(0)), torch.randn(6, generator=seeded(1)))
    other = SoftUCBPolicy(4, beta_init=SituationBeta(horizon=60, init=0.7), learn_delta=True)
    other.load_state_dict(policy.state_dict())
    arms = torch.randn(9, 4, generator=seeded(2))
    assert torch.equal(policy(arms).probs, other(arms).probs)


def test_the_pretrained_network_comes_with_the_package():
    policy = SoftUCBPolicy.pretrained(10, horizon=500)
    assert policy.beta_module.horizon == 500
    assert policy.delta > 0.99  # learned with it
    assert set(policy.beta_module.inputs) <= set(SITUATION)
    problem = synthetic_problem(num_problems=64, dim=10, generator=torch.Generator().manual_seed(0))
    kind = {"horizon": 300, "generator": torch.Generator().manual_seed(1)}
    learned = rollout(policy, problem, **kind).regret.sum(0).mean()
    kind["generator"] = torch.Generator().manual_seed(1)
    guessed = rollout(SoftUCBPolicy(10, beta_init=3.25), problem, **kind).regret.sum(0).mean()  # Eq. 5's
    assert learned < 0.5 * guessed


def test_a_segment_for_every_bandit_named_or_not(seeded):
    policy = SoftUCBPolicy(2, beta_init=SegmentBeta(torch.tensor([0, 1, 1])))
    policy.reset(batch_shape=(5,))
    for bandit in (None, torch.tensor([0, 2]), torch.tensor([4])):
        with pytest.raises(ValueError, match=r"beta has shape \(3,\), which does not fit batch_shape \(5,\)"):
            policy(torch.eye(2), bandit=bandit)


def test_segments_of_any_integer_type():
    betas = SegmentBeta(torch.tensor([0, 1, 1, 2], dtype=torch.uint8), init=0.5)  # torch would take uint8 for a mask
    assert betas(torch.empty(0)).shape == (4,)


def test_a_module_comes_back_from_below_zero_at_once(seeded):
    """Else both ends of its differences would read as 0, and so would their slope."""
    episode = Episode(problem_of(seeded), 5, 6)
    module = SegmentBeta(torch.arange(20) % 3, init=0.0)
    policy = SoftUCBPolicy(4, beta_init=module, coldness="smooth", dtype=D)
    with torch.no_grad():
        module.raw.fill_(-2.0)
    common_random_numbers(policy, episode, horizon=30, eta=0.0, record=()).loss.backward()
    assert (module.raw == 0).all()
    assert (module.raw.grad < 0).all()  # some exploration is better than none
    number = SoftUCBPolicy(4, beta_init=0.0, coldness="smooth", dtype=D)
    common_random_numbers(number, episode, horizon=30, eta=0.0, record=()).loss.backward()
    one = SegmentBeta(torch.zeros(20, dtype=torch.long), init=0.0)
    policy = SoftUCBPolicy(4, beta_init=one, coldness="smooth", dtype=D)
    common_random_numbers(policy, episode, horizon=30, eta=0.0, record=()).loss.backward()
    torch.testing.assert_close(one.raw.grad[0], number.raw_beta.grad)


@pytest.mark.parametrize("raw", [50.0, -50.0])
def test_delta_needs_no_projection(raw):
    policy = SoftUCBPolicy(2, learn_delta=True)
    policy.update(torch.eye(2).repeat(50, 1), torch.tensor([1.0, 0.0]).repeat(50))
    with torch.no_grad():
        policy.raw_delta.fill_(raw)
    assert policy(torch.eye(2)).probs.isfinite().all()
    assert 0.5 <= policy.delta < 1
    policy.delta.backward(torch.tensor(raw))  # downhill leads back, and no further away
    assert policy.raw_delta.grad * raw > 0
    policy.raw_delta.grad = None
    policy.delta.backward(torch.tensor(-raw))
    assert policy.raw_delta.grad == 0


@needs_compiler
@pytest.mark.parametrize("beta", ["tensor", "segments"])
def test_the_native_kernel_takes_one_beta_a_trajectory_for_no_other(beta, seeded):
    """A batch (n, 1) played for n rounds has betas of the shape of a schedule's; a wrong number of them is refused."""
    problem = problem_of(seeded, count=16)
    tall = type(problem)(problem.arms.unsqueeze(1), problem.means.unsqueeze(1))
    values = torch.linspace(0, 3, 16).view(16, 1)
    module = SegmentBeta(torch.arange(16).view(16, 1))
    module.raw.data.copy_(values.flatten())
    policy = SoftUCBPolicy(4, beta_init=values if beta == "tensor" else module, dtype=D)
    eager, fast = (rollout(policy, tall, horizon=16, generator=seeded(1), compile=how).regret for how in (False, "native"))
    torch.testing.assert_close(fast, eager, atol=1e-10, rtol=0)
    with pytest.raises(ValueError, match="does not fit batch_shape"):
        rollout(policy, problem_of(seeded, count=40), horizon=4, compile="native")
