"""Rollouts of a policy that estimates its scales: a plain loop, all backends, units, resuming."""

import pytest
import torch

from torch_softucb import AutoSoftUCB, BanditProblem, SummaryBeta, rollout, synthetic_problem
from torch_softucb.simulation.engine import Simulation

D = torch.double
ROUNDS, BATCH, K, d = 70, 21, 8, 4


def _problem(*, shared=True, masked=False, scale=1.0, shift=0.0):
    problem = synthetic_problem(num_problems=BATCH, num_arms=K, dim=d, generator=torch.Generator().manual_seed(0)).to(D)
    arms = problem.arms if problem.shared_arms else problem.arms[0]
    if not shared:
        arms = torch.randn(BATCH, K, d, dtype=D, generator=torch.Generator().manual_seed(1))
    mask = torch.rand(BATCH, K, generator=torch.Generator().manual_seed(2)) < 0.7 if masked else None
    if mask is not None:
        mask[:, 0] = True
    return BanditProblem(arms, scale * problem.means + shift, noise_std=scale * 0.5, mask=mask)


def _policy(beta="number"):
    if beta == "number":
        return AutoSoftUCB(d, beta_init=1.2, delta=0.99, dtype=D)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = SummaryBeta(horizon=ROUNDS, init=1.2)
        for parameter in module.parameters():
            parameter.data.add_(0.2 * torch.randn_like(parameter))
    return AutoSoftUCB(d, beta_init=module, delta=0.99, dtype=D)


def _seed(seed=3):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("beta", ["number", "module"])
@pytest.mark.parametrize("discount", [1.0, 0.95])
def test_a_rollout_is_a_plain_loop_over_the_policy(beta, discount):
    problem, policy = _problem(shared=False, masked=True), _policy(beta)
    record = ("arm", "reward", "probs", "mu_hat", "width", "beta")
    played = rollout(policy, problem, horizon=ROUNDS, generator=_seed(), record=record, discount=discount).records
    policy.reset(batch_shape=(BATCH,))
    rows = torch.arange(BATCH)
    for t in range(ROUNDS):
        decision = policy(problem.arms, mask=problem.mask)
        for name in ("probs", "mu_hat", "width"):
            torch.testing.assert_close(getattr(decision, name), played[name][t], atol=1e-10, rtol=1e-10)
        torch.testing.assert_close(decision.beta.expand(BATCH), played["beta"][t].expand(BATCH), atol=1e-10, rtol=1e-10)
        arm = played["arm"][t]
        policy.update(problem.arms[rows, arm], played["reward"][t], discount=discount)


@pytest.mark.parametrize("beta", ["number", "module"])
@pytest.mark.parametrize("discount", [1.0, 0.95])
@pytest.mark.parametrize(("shared", "masked"), [(True, False), (False, True)])
def test_the_native_backend_plays_like_eager(beta, discount, shared, masked):
    problem, policy = _problem(shared=shared, masked=masked), _policy(beta)
    eager, native = (
        rollout(
            policy,
            problem,
            horizon=ROUNDS,
            generator=_seed(),
            discount=discount,
            scores=True,
            gradient=True,
            compile=compile,
        )
        for compile in (False, "native")
    )
    torch.testing.assert_close(native.regret, eager.regret, atol=1e-10, rtol=0)
    for name, value in eager.scores.items():
        torch.testing.assert_close(native.scores[name], value, atol=1e-8, rtol=1e-8, msg=name)
    for ours, theirs in zip(native.gradient, eager.gradient, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-8)
    if beta == "module":
        torch.testing.assert_close(native.situation, eager.situation, atol=1e-8, rtol=1e-8)


@pytest.mark.slow
def test_the_compiled_backend_plays_like_eager():
    problem, policy = _problem(), _policy()
    eager, compiled = (rollout(policy, problem, horizon=ROUNDS, generator=_seed(), compile=c) for c in (False, True))
    torch.testing.assert_close(compiled.regret, eager.regret, atol=1e-10, rtol=0)


@pytest.mark.parametrize("compile", [False, "native"])
def test_units_of_the_rewards_change_no_regret(compile):
    one = rollout(_policy(), _problem(), horizon=ROUNDS, generator=_seed(), compile=compile).regret
    problem = _problem(scale=0.01, shift=3.0)
    other = rollout(_policy(), problem, horizon=ROUNDS, generator=_seed(), compile=compile).regret
    torch.testing.assert_close(other / 0.01, one, atol=1e-8, rtol=1e-8)


def test_float32_stays_close():
    single = rollout(_policy().float(), _problem().to(torch.float32), horizon=20, generator=_seed(), compile="native")
    double = rollout(_policy(), _problem(), horizon=20, generator=_seed(), compile="native")
    assert (single.regret.double() - double.regret).abs().mean() < 1e-2  # a few draws may differ


@pytest.mark.parametrize("compile", [False, "native"])
def test_a_simulation_continues_bit_by_bit(compile):
    whole = Simulation(_policy(), _problem(), generator=_seed(), compile=compile)
    regret = torch.cat([played.regret for played in whole.play(50, recorded=lambda t: False)])
    first = Simulation(_policy(), _problem(), generator=_seed(), compile=compile)
    before = torch.cat([played.regret for played in first.play(23, recorded=lambda t: False)])
    second = Simulation(_policy(), _problem(), generator=_seed(9), compile=compile)
    second.load_state_dict(first.state_dict())
    after = torch.cat([played.regret for played in second.play(27, recorded=lambda t: False)])
    assert torch.cat((before, after)).equal(regret)


def test_rewards_that_are_all_equal_keep_the_noise_unknown():
    problem = BanditProblem(torch.eye(3, dtype=D), torch.ones(5, 3, dtype=D), noise_std=0.0)
    simulation = Simulation(AutoSoftUCB(3, dtype=D), problem, generator=_seed(), compile="native")
    for _ in simulation.play(40, recorded=lambda t: False):
        pass
    assert simulation.state.scales[2].eq(0).all()
    counts = simulation.state.arm_sums[..., 0]
    assert counts.min() > 5  # ranked by width alone: all arms are played
