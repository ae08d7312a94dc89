"""One protocol, three backends: they agree on every policy, problem and way to learn."""

import warnings

import pytest
import torch

from tests.simulation.cases import DIM, POLICIES, needs_compiler, problem_of, situated
from torch_softucb import SoftUCBPolicy
from torch_softucb.errors import CompileWarning
from torch_softucb.simulation.backends import BACKENDS, choose_backend
from torch_softucb.simulation.backends.base import warn_eager
from torch_softucb.simulation.backends.eager import Eager
from torch_softucb.simulation.engine import Simulation

ALL = {**POLICIES, "situated": situated}
SHAPES = ["own arms", "shared arms", "masked", "drift", "masked drift"]
FAST = ["native", pytest.param(True, marks=pytest.mark.slow, id="compiled")]


def _play(compile, policy, problem, generator, discount, rounds):
    """Blocks of at most three rounds, straight through ``Backend.play``, without the engine's loop."""
    soft = isinstance(policy, SoftUCBPolicy)
    simulation = Simulation(policy, problem, generator=generator, gradient=soft, discount=discount, compile=compile)
    backend, state = simulation.backend, simulation.state
    assert type(backend) is BACKENDS[compile]  # not silently another one
    noise, draws = simulation._noise(0, rounds), simulation._draws(0, rounds)
    longest = backend.max_rounds or 3
    regret, terms = [], [torch.zeros(problem.batch_shape, dtype=torch.double)] * 3
    with torch.no_grad():
        while state.t < rounds:
            before, block = state.t, slice(state.t, min(state.t + longest, rounds))
            simulation.environment.apply_drift(before)
            for played in backend.play(state, noise[block], draws[block]):
                assert played.t == before
                regret.append(played.regret.clone())
                terms = [total + now for total, now in zip(terms, played.gradient or terms, strict=True)] if soft else []
            assert state.t == block.stop
    return [torch.cat(regret), *terms, *state.state_dict().values()]


@needs_compiler
@pytest.mark.parametrize("compile", FAST)
@pytest.mark.parametrize("discount", [1.0, 0.9], ids=["remember", "forget"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ALL)
def test_backends_agree(name, shape, discount, compile, seeded):
    if compile is True and shape != "own arms" and name not in ("soft_ucb", "situated", "lin_ts"):
        pytest.skip("every graph takes seconds to compile; these three policies cover the operations")
    policy, problem = ALL[name](DIM, ridge_alpha=0.3, dtype=torch.double), problem_of(shape, seeded)
    eager, fast = (_play(mode, policy, problem, seeded(9), discount, 24) for mode in (False, compile))
    for want, got in zip(eager, fast, strict=True):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=0)


def test_the_registry_has_one_class_per_value_of_compile():
    assert set(BACKENDS) == {False, True, "native"}
    assert len(set(BACKENDS.values())) == 3


def test_a_backend_that_cannot_play_is_replaced_after_one_warning(monkeypatch, seeded):
    setup = Simulation(POLICIES["lin_ucb"](DIM, dtype=torch.double), problem_of("single", seeded)).backend.setup
    monkeypatch.setattr(BACKENDS["native"], "unsupported", classmethod(lambda cls, setup: "because of a test"))
    with pytest.warns(CompileWarning, match="rollout: because of a test; playing eagerly, with the same numbers") as caught:
        assert isinstance(choose_backend(setup, "native"), Eager)
    assert len(caught) == 1


def test_python_shows_each_reason_once():
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for reason in ("first", "first", "second"):
            warn_eager(reason)
    assert [str(warning.message).split(";")[0] for warning in caught] == ["rollout: first", "rollout: second"]


@pytest.mark.parametrize("compile", BACKENDS)
def test_random_numbers_are_drawn_for_at_least_one_round(compile, seeded):
    setup = Simulation(POLICIES["lin_ucb"](DIM, dtype=torch.double), problem_of("single", seeded)).backend.setup
    backend = BACKENDS[compile](setup) if compile != "native" else BACKENDS[compile].__new__(BACKENDS[compile])
    assert backend.rounds_at_once(10**9) == 1
    assert backend.rounds_at_once(1) > 1000


def test_a_reason_is_given_once_whatever_resets_pythons_registry():
    for size in (3, 4):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_eager(f"{size} trajectories are few")
        assert len(caught) == (size == 3)
        assert all(warning.filename == __file__ for warning in caught)
