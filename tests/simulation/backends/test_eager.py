"""The eager backend: when it decides, when it learns, what its rounds carry."""

import torch

from tests.simulation.cases import DIM, NUM_ARMS, problem_of
from torch_softucb import LinUCB, SoftUCBPolicy
from torch_softucb import functional as F
from torch_softucb.policies import LinPHE
from torch_softucb.simulation.backends.eager import decide
from torch_softucb.simulation.engine import Simulation
from torch_softucb.simulation.trajectory import SCORES


def _opened(policy, seeded, shape="own arms", **settings):
    simulation = Simulation(policy, problem_of(shape, seeded), generator=seeded(1), **settings)
    return simulation, simulation.backend, simulation._noise(0, 4), simulation._draws(0, 4)


def test_decide_changes_nothing_and_learn_updates(seeded):
    simulation, backend, noise, draws = _opened(SoftUCBPolicy(DIM, coldness="lagged", dtype=torch.double), seeded)
    before = simulation.state_dict()
    with torch.no_grad():
        outcome = decide(backend.setup, simulation.state, simulation.state.num_observations, noise[0], draws[0])
        assert all(torch.equal(now, before[name]) for name, now in simulation.state_dict().items() if name != "t")
        backend.setup.arms.learn(simulation.state, outcome.decision, outcome.arm, outcome.reward)
    assert not simulation.state.mu_hat.equal(before["mu_hat"])
    assert simulation.state.gamma is outcome.decision.next_gamma


def test_the_round_is_yielded_before_the_update(seeded):
    """So that the decision's tensors, views of the state, are those that were decided on."""
    simulation, backend, noise, draws = _opened(LinUCB(DIM, dtype=torch.double), seeded)
    with torch.no_grad():
        rounds = backend.play(simulation.state, noise[:1], draws[:1])
        played = next(rounds)
        assert played.t == simulation.state.t == 0
        assert played.decision.mu_hat.eq(0).all()
        assert next(rounds, None) is None
    assert simulation.state.t == 1
    assert not played.decision.mu_hat.eq(0).all()  # the view follows the state


def test_reward_and_regret_of_a_round_by_hand(seeded):
    simulation, backend, noise, draws = _opened(SoftUCBPolicy(DIM, dtype=torch.double), seeded, "masked")
    problem = simulation.problem
    with torch.no_grad():
        (played,) = [(r, r.arm.clone()) for r in backend.play(simulation.state, noise[:1], draws[:1])]
    played, arm = played
    mean = problem.means.gather(-1, arm.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(played.reward, mean + noise[0])
    torch.testing.assert_close(
        played.regret[0], F.expected_regret(played.decision.probs, problem.means, mask=problem.mask), atol=1e-12, rtol=0
    )


def test_a_memory_is_carried_from_round_to_round(seeded):
    simulation, backend, noise, draws = _opened(LinPHE(DIM, NUM_ARMS, dtype=torch.double), seeded)
    with torch.no_grad():
        for t in range(3):
            for _ in backend.play(simulation.state, noise[t : t + 1], draws[t : t + 1]):
                pass
    counts = simulation.state.memory[..., :NUM_ARMS]  # number of rewards per arm
    assert counts.sum(-1).eq(3).all()


def test_scores_come_with_their_names_and_shape(seeded):
    policy = SoftUCBPolicy(DIM, coldness="smooth", dtype=torch.double)
    simulation, backend, noise, draws = _opened(policy, seeded, scores=True)
    with torch.no_grad():
        (played,) = list(backend.play(simulation.state, noise[:1], draws[:1]))
    assert played.scores.shape == (len(SCORES), 1, 38)
    assert played.situation is None
