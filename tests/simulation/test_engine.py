"""The engine: blocks of rounds, recorded rounds, resuming, warnings."""

import warnings

import pytest
import torch

from tests.simulation.cases import DIM, needs_compiler, problem_of, situated
from torch_softucb import LinUCB, SituationBeta, SoftUCBPolicy, rollout, synthetic_problem
from torch_softucb.errors import CompileWarning
from torch_softucb.simulation.backends.compiled import find_compiler
from torch_softucb.simulation.engine import Simulation


@pytest.mark.parametrize("compile", [False, "native"])
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_play_goes_on_from_a_saved_state(compile, discount, seeded):
    """With a tally, drift and forgetting; the saved state can be loaded again: play does not write into it."""
    if compile and find_compiler() is None:
        pytest.skip("needs a C++ compiler")
    problem = synthetic_problem(num_problems=6, num_arms=5, dim=3, drift_rate=0.1, generator=seeded(0))
    policy = SoftUCBPolicy(3, beta_init=SituationBeta.pretrained(horizon=20), coldness="lagged")

    def opened(seed):
        return Simulation(policy, problem, generator=seeded(seed), discount=discount, compile=compile)

    def regret(simulation, rounds):
        return torch.cat([play.regret.clone() for play in simulation.play(rounds, recorded=lambda t: False)])

    whole, begun = regret(opened(1), 20), opened(1)
    regret(begun, 9)
    state = begun.state_dict()
    for _ in range(2):
        resumed = opened(2)
        resumed.load_state_dict(state)
        assert torch.equal(regret(resumed, 11), whole[9:])


def _blocks(simulation, rounds, **settings):
    return [(played.t, len(played.regret)) for played in simulation.play(rounds, **settings)]


def test_recorded_rounds_are_played_alone_and_carry_their_decision(seeded):
    simulation = Simulation(LinUCB(DIM, dtype=torch.double), problem_of("own arms", seeded), generator=seeded(1))
    for played in simulation.play(5, recorded=lambda t: t == 2):
        assert played.decision is not None  # an eager simulation has the decision of every round
    assert simulation.t == 5


@needs_compiler
def test_native_blocks_end_at_recorded_rounds_and_at_the_stretch(seeded):
    def opened(policy):
        return Simulation(policy, problem_of("own arms", seeded), generator=seeded(1), compile="native")

    policy = LinUCB(DIM, dtype=torch.double)
    assert _blocks(opened(policy), 10, recorded=lambda t: t == 4) == [(0, 4), (4, 1), (5, 5)]
    assert _blocks(opened(policy), 7, recorded=lambda t: False, stretch=3) == [(0, 3), (3, 3), (6, 1)]
    assert _blocks(opened(situated(DIM, dtype=torch.double)), 3, recorded=lambda t: False) == [(0, 1), (1, 1), (2, 1)]
    recorded = [played.decision is not None for played in opened(policy).play(6, recorded=lambda t: t == 4)]
    assert recorded == [False, True, False]


def test_play_continues_where_it_stopped(seeded):
    def opened():
        return Simulation(LinUCB(DIM, dtype=torch.double), problem_of("drift", seeded), generator=seeded(1))

    whole, parts = opened(), opened()
    at_once = [played.regret.clone() for played in whole.play(12)]
    in_parts = [played.regret.clone() for rounds in (5, 7) for played in parts.play(rounds)]
    assert torch.cat(in_parts).equal(torch.cat(at_once))


def test_present_means_follow_the_drift(seeded):
    simulation = Simulation(LinUCB(DIM, dtype=torch.double), problem_of("drift", seeded), generator=seeded(1))
    for played in simulation.play(4):
        torch.testing.assert_close(simulation.present_means, simulation.problem.means_at(played.t))


def test_equal_generators_draw_different_numbers_for_noise_and_actions(seeded):
    simulation = Simulation(
        LinUCB(DIM), problem_of("own arms", seeded, torch.float32), generator=seeded(1), noise_generator=seeded(1)
    )
    assert not simulation.state.noise_key.equal(simulation.state.action_key)


@needs_compiler
@pytest.mark.parametrize("compile", ["native", pytest.param(True, marks=pytest.mark.slow)])
def test_recording_more_than_half_of_the_rounds_warns_once(compile, seeded):
    policy, problem = LinUCB(DIM, dtype=torch.double), problem_of("own arms", seeded)
    simulation = Simulation(policy, problem, generator=seeded(1), compile=compile)

    def play():
        return [list(simulation.play(3, recorded=lambda t: t % 3 < 2)) for _ in range(3)]

    with pytest.warns(CompileWarning, match=r"more than half of the rounds are recorded.*playing eagerly") as caught:
        play()
    assert len([warning for warning in caught if warning.category is CompileWarning]) == 1  # torch.compile warns, too


@needs_compiler
def test_recording_half_of_the_rounds_or_fewer_does_not_warn(seeded):
    policy, problem = LinUCB(DIM, dtype=torch.double), problem_of("own arms", seeded)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CompileWarning)
        rollout(policy, problem, horizon=48, record=["arm"], record_every=48 // 16, compile="native")
        rollout(policy, problem, horizon=8, record=["arm"], record_every=2, compile="native")
        rollout(policy, problem, horizon=4, record=["arm"])  # eager was requested
    assert not [warning for warning in caught if warning.category is CompileWarning]


@pytest.mark.parametrize(
    ("policy", "error", "match"),
    [
        (LinUCB(3, dtype=torch.double), ValueError, "policy has dim 3, problem has 4"),
        (
            LinUCB(DIM),
            TypeError,
            r"policy has dtype torch.float32, problem has torch.float64; use policy.to\(torch.float64\)",
        ),
    ],
)
def test_a_policy_that_does_not_fit_the_problem_is_refused(policy, error, match, seeded):
    with pytest.raises(error, match=match):
        Simulation(policy, problem_of("own arms", seeded))


def test_an_unknown_option_is_refused(seeded):
    with pytest.raises(TypeError, match="options are gradient, scores, discount, compile, horizon, got gradeint"):
        Simulation(SoftUCBPolicy(10), synthetic_problem(num_problems=2, generator=seeded(0)), gradeint=True)
