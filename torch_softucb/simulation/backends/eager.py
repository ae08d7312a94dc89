"""Play rounds with ordinary torch operations: the reference for the other backends."""

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from torch_softucb.errors import NumericalError
from torch_softucb.policies.decision import Decision
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.simulation.backends.base import Backend, PlaySetup
from torch_softucb.simulation.saved_state import SimulationState
from torch_softucb.simulation.scores import gradient_terms, round_scores
from torch_softucb.simulation.trajectory import GradientTerms, Round


class Outcome(NamedTuple):
    """One round up to the reward, before the state is updated."""

    decision: Decision
    arm: Tensor  # (*B,)
    reward: Tensor  # (*B,)
    regret: Tensor  # (*B,) Eq. 2
    gradient: GradientTerms | None


def decide(setup: PlaySetup, state: SimulationState, num_observations: Tensor, noise: Tensor, draw: Tensor) -> Outcome:
    """Play one round up to the reward, without changing the state."""
    estimate = setup.arms.estimate(state, num_observations)
    decision = setup.policy.decide(estimate, mask=setup.environment.mask)
    arm = decision.pick(draw)
    mean = setup.environment.mean_of(arm)
    terms = gradient_terms(setup.policy, decision) if setup.gradient else None
    return Outcome(decision, arm, setup.environment.reward(mean, noise), setup.environment.regret(decision, mean), terms)


class Eager(Backend):
    """Backend that plays one round per call; the only one whose rounds carry the decision, so it plays recorded rounds."""

    def __init__(self, setup: PlaySetup) -> None:
        self.setup = setup

    def play(self, state: SimulationState, noise: Tensor, draws: Tensor) -> Iterator[Round]:
        """Yield the round before the state is updated, as the decision's tensors are views of the state."""
        setup = self.setup
        setup.environment.show(state.t)
        try:
            outcome = decide(setup, state, state.num_observations, noise[0], draws[0])
        except NumericalError:
            state.check_widths(state.t)  # if they are the cause, name them
            raise
        decision, scores, situation = outcome.decision, None, None
        if setup.scores:
            assert isinstance(setup.policy, SoftUCBPolicy)
            scores = round_scores(setup.policy, decision, setup.environment.present_means, outcome.arm).unsqueeze(1)
            situation = None if decision.situation is None else decision.situation.unsqueeze(0)
        regret = outcome.regret.unsqueeze(0)
        yield Round(state.t, regret, outcome.gradient, decision, outcome.arm, outcome.reward, scores, situation)
        setup.arms.learn(state, decision, outcome.arm, outcome.reward)
        state.t += 1
