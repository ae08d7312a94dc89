"""The state of trajectories with changing candidates: what it starts with, resuming, damage, and rewards on their way."""

import pytest
import torch
from torch import nn

from tests.simulation.cases import needs_compiler
from tests.simulation.contextual_cases import D, play, policy_of, prior_of, world_of
from torch_softucb import NumericalError, SoftUCBHead
from torch_softucb.problems.candidate_draws import draw_candidates, draw_delays
from torch_softucb.rng import derived_key
from torch_softucb.simulation.contextual_state import WAITING
from torch_softucb.simulation.engine import Simulation

BACKENDS = [False, pytest.param("native", marks=needs_compiler)]
NEVER = {"recorded": lambda t: False}


def _simulation(policy="smooth", world="random delays", rounds=7, compile=False, **settings):
    generator = torch.Generator().manual_seed(5)
    simulation = Simulation(policy_of(policy), world_of(world), generator=generator, compile=compile, **settings)
    list(simulation.play(rounds, **NEVER))
    return simulation


def test_the_state_before_the_first_round():
    for world, shape in (
        ("uniform", None),
        ("late", (4, 4, 3)),
        ("lost rewards", (4, 3, 3)),
        ("lost or at once", (4, 1, 3)),
    ):
        state = _simulation(world=world, rounds=0).state
        assert (None if state.waiting is None else tuple(state.waiting.shape)) == shape
        assert state.num_observations.tolist() == [0] * 4
    assert state.statistics.dtype == D


def test_waiting_rewards_are_kept_with_item_reward_and_round():
    """Three rounds late: after round 2 nothing has arrived, after round 4 the rewards of rounds 0 and 1 have."""
    simulation = _simulation(world="late", rounds=0)
    played = [(each.arm, each.reward, simulation.environment.item_of(each.arm)) for each in simulation.play(5)]
    waiting = simulation.state.waiting
    for t in (1, 2, 3, 4):
        row = dict(zip(WAITING, waiting[:, t % 4].unbind(-1), strict=True))
        assert row["item"].long().equal(played[t][2])
        assert row["reward"].equal(played[t][1])
        assert row["due"].tolist() == [t + 4] * 4
    assert simulation.state.num_observations.tolist() == [2] * 4


@pytest.mark.parametrize("compile", BACKENDS)
@pytest.mark.parametrize("world", ["masks", "late", "random delays", "lost rewards"])
@pytest.mark.parametrize("policy", ["smooth", "auto", "LinTS", "ScheduleBeta"])
def test_resuming_changes_nothing(policy, world, compile):
    """Bit for bit, after 7 of 20 rounds, with the state loaded by a new simulation."""
    whole = _simulation(policy, world, 0, compile)
    want = torch.cat(
        [each.regret.clone() for each in whole.play(7, **NEVER)] + [each.regret.clone() for each in whole.play(13, **NEVER)]
    )
    first, second = _simulation(policy, world, 0, compile), _simulation(policy, world, 0, compile)
    parts = [each.regret.clone() for each in first.play(7, **NEVER)]
    second.load_state_dict(first.state_dict())
    parts += [each.regret.clone() for each in second.play(13, **NEVER)]
    assert torch.cat(parts).equal(want)
    for name, value in whole.state_dict().items():
        assert torch.equal(torch.as_tensor(second.state_dict()[name]), torch.as_tensor(value)), name


def _refused(simulation, saved, error, match):
    before = simulation.state_dict()
    with pytest.raises(error, match=match):
        simulation.load_state_dict(saved)
    after = simulation.state_dict()
    assert all(torch.equal(torch.as_tensor(after[name]), torch.as_tensor(before[name])) for name in before)


@pytest.mark.parametrize("name", ["statistics", "waiting", "mu_hat", "width", "noise_key", "action_key"])
def test_tensors_of_another_shape_dtype_or_layout_are_refused(name):
    simulation = _simulation()
    saved = simulation.state_dict()
    simulation.load_state_dict(saved)  # fine as it is
    value = saved[name]
    for shape in ((1,), (3, 0), ()):
        if value.shape != shape:
            _refused(
                simulation, saved | {name: torch.zeros(shape, dtype=value.dtype)}, ValueError, f"{name} must have shape"
            )
    other = torch.float32 if value.is_floating_point() else torch.float64
    _refused(simulation, saved | {name: value.to(other)}, TypeError, f"{name} must have dtype")
    _refused(simulation, saved | {name: 3.0}, TypeError, f"{name} must be a dense tensor, got float")
    _refused(simulation, saved | {name: value.to_sparse()}, TypeError, f"{name} must be a dense tensor, got layout")
    _refused(simulation, {key: entry for key, entry in saved.items() if key != name}, ValueError, "expected the entries")


def test_values_that_no_simulation_has_are_refused():
    simulation = _simulation()
    saved = simulation.state_dict()

    def changed(name, *at, value):
        copy = saved[name].clone()
        copy[at] = value
        return saved | {name: copy}

    for item in (-1.0, 20.0, 1e300):
        _refused(
            simulation, changed("waiting", 0, 1, 0, value=item), ValueError, "items that wait for a reward must be below 20"
        )
    for bad in (torch.nan, torch.inf):
        for name in ("waiting", "statistics", "mu_hat", "width"):
            _refused(simulation, changed(name, 0, value=bad), ValueError, f"{name} must be finite")
    _refused(
        simulation,
        changed("statistics", 0, 0, value=-1.0),
        ValueError,
        "statistics are impossible: V is not symmetric|positive",
    )
    _refused(simulation, changed("statistics", 0, -2, value=-1.0), ValueError, "the number of observations is negative")
    _refused(simulation, saved | {"t": -1}, ValueError, "t must be")
    _refused(simulation, 3, ValueError, "expected the entries")


def test_a_state_of_another_start_is_refused():
    """The native backend counts observations from the start."""
    started = policy_of("smooth")
    started.update(torch.ones(2, 3, dtype=D), torch.ones(2, dtype=D))
    for world in ("uniform", "late"):
        simulation, other = _simulation(world=world), _simulation(world=world, start=started)
        _refused(simulation, other.state_dict(), ValueError, "numbers of observations do not fit t = 7; .* same start")
        _refused(simulation, simulation.state_dict() | {"t": 8}, ValueError, "numbers of observations do not fit t = 8")
        other.load_state_dict(other.state_dict())
        fresh = _simulation(world=world, rounds=0, start=started)
        fresh.load_state_dict(other.state_dict())
        assert fresh.t == 7


def test_estimates_that_cannot_be_right_raise():
    simulation = _simulation(world="uniform")
    simulation.state.width = torch.tensor([0.1, -1.0, 0.2, float("nan")], dtype=D)
    with pytest.raises(NumericalError, match="not positive definite, or a width is NaN, in 2 of 4 trajectories at round 8"):
        simulation.state.check_widths(7)
    simulation.state.width.fill_(0.1)
    simulation.state.mu_hat[1] = float("inf")
    with pytest.raises(NumericalError, match="mu_hat at round 3 must be finite, got 1 NaN or infinite of 4"):
        simulation.state.check_estimates(2)


# --- the same rewards through a served head


@pytest.mark.parametrize("compile", BACKENDS)
@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("world", ["late", "random delays", "lost rewards"])
@pytest.mark.parametrize("policy", ["smooth", "auto"])
def test_statistics_are_those_of_a_head_that_gets_the_same_feedback(policy, world, discount, compile, monkeypatch):
    simulation = Simulation(
        policy_of(policy), world_of(world), generator=torch.Generator().manual_seed(5), discount=discount, compile=compile
    )
    problem, rounds, key = simulation.problem, 20, simulation.state.noise_key
    candidates = draw_candidates(problem, derived_key(key, "candidates"), start=0, count=rounds)
    late = torch.full((rounds, 4), 3)
    if world != "late":
        late = draw_delays(problem, derived_key(key, "delay"), start=0, count=rounds)
    draws, noise, users = simulation._draws(0, rounds), simulation._noise(0, rounds), torch.arange(4)
    served_by = policy_of(policy)
    served_by.reset(batch_shape=(4,))
    head, open_rewards = SoftUCBHead(nn.Identity(), served_by, discount=discount, seed=0, replica=0), []
    for t in range(rounds):
        monkeypatch.setattr(
            "torch_softucb.recommend.head.draw_items",
            lambda decision, *_, t=t, **__: (
                arm := decision.pick(draws[t]),
                decision.probs.gather(-1, arm.unsqueeze(-1)).squeeze(-1),
            ),
        )
        with torch.no_grad():
            served = head.serve(head(problem.arms[candidates[t]], bandit=users))
        item = candidates[t].gather(-1, served.arm.unsqueeze(-1)).squeeze(-1)
        reward = problem.means.gather(-1, item.unsqueeze(-1)).squeeze(-1) + noise[t]
        open_rewards += [(t + int(late[t, b]), served.id[b], reward[b]) for b in range(4) if late[t, b] <= problem.max_delay]
        arrived = [(id, value) for due, id, value in open_rewards if due == t]
        if arrived:
            head.feedback(*(torch.stack(column) for column in zip(*arrived, strict=True)))
    list(simulation.play(rounds, **NEVER))
    torch.testing.assert_close(simulation.state_dict()["statistics"], head.policy.statistics, atol=1e-9, rtol=1e-9)


def test_a_prior_is_not_part_of_the_state():
    """It is the simulation's: a state loads into one with the same prior and plays on as before."""
    one, two = (_simulation("smooth", "late", rounds, start=prior_of()) for rounds in (7, 0))
    two.load_state_dict(one.state_dict())
    rest = [torch.cat([each.regret.clone() for each in simulation.play(5)]) for simulation in (one, two)]
    assert rest[0].equal(rest[1])
    assert not rest[0].equal(play(policy_of("smooth"), world_of("late"), horizon=12)[0][7:])
