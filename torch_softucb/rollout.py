"""The T-round loop: a policy plays a batch of problems from the first round to the last."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_choice, check_integer, check_offered
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.simulation import Round, Simulation
from torch_softucb.types import BanditProblem, GradientTerms, Trajectory


def _coverage(play: Round, problem: BanditProblem) -> Tensor | None:
    decision = play.decision
    if decision.beta is None:
        return None
    return F.coverage(problem.means, decision.mu_hat, decision.width, decision.beta, mask=problem.mask)


_RECORDS: dict[str, Callable[[Round, BanditProblem], Tensor | None]] = {
    "arm": lambda play, _: play.arm,
    "reward": lambda play, _: play.reward,
    "probs": lambda play, _: play.decision.probs,
    "index": lambda play, _: play.decision.index,
    "gamma": lambda play, _: play.decision.gamma,
    "mu_hat": lambda play, _: play.decision.mu_hat,
    "width": lambda play, _: play.decision.width,
    "entropy": lambda play, _: play.decision.entropy(),
    "num_suboptimal": lambda play, problem: F.num_suboptimal(play.decision.index, mask=problem.mask),
    "coverage": _coverage,
}
RECORDS = tuple(_RECORDS)


@torch.no_grad()
def rollout(
    policy: BanditPolicy,
    problem: BanditProblem,
    *,
    horizon: int,
    generator: torch.Generator | None = None,
    noise_generator: torch.Generator | None = None,
    gradient: bool = False,
    record: Sequence[str] = (),
    record_every: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> Trajectory:
    """Play ``horizon`` rounds of every problem from fresh statistics; the policy's own are neither read nor changed.

    Args:
        policy: any policy; its beta is shared by all trajectories or has the problem's batch shape.
        problem: one problem or a batch; each is a trajectory of its own.
        generator: of the action draws, and of the reward noise when ``noise_generator`` is not given. A trajectory's
            numbers depend on the generator and on ``problem.ids``, not on its company; policies that start from equal
            generators meet the same noise.
        noise_generator: of the reward noise.
        gradient: also sum the terms of Eq. 13 (SoftUCBPolicy only), in closed form: no graph is built.
        record: what else to keep of every round: ``arm``, ``reward``, ``probs``, ``index``, ``gamma``, ``mu_hat``,
            ``width``, ``entropy``, ``num_suboptimal``, ``coverage``. Without it memory is O(B K), and T numbers of regret
            a trajectory.
        record_every: keep only every so many rounds' records, from the first on.
        progress: called with (rounds done, horizon) after every round.

    Example:
        >>> from torch_softucb import SoftUCBPolicy, synthetic_problem
        >>> seeded = lambda seed: torch.Generator().manual_seed(seed)
        >>> problem = synthetic_problem(num_problems=64, generator=seeded(0))
        >>> trajectory = rollout(SoftUCBPolicy(10, beta_init=0.6), problem, horizon=200, generator=seeded(1))
        >>> trajectory.regret.shape
        torch.Size([200, 64])
        >>> bool(trajectory.regret[-50:].mean() < 0.5 * trajectory.regret[:50].mean())
        True
    """
    horizon = check_integer("rollout", "horizon", horizon, low=1)
    record_every = check_integer("rollout", "record_every", record_every, low=1)
    for name in record:
        check_choice("rollout", "record", name, RECORDS)
    simulation = Simulation(policy, problem, generator=generator, noise_generator=noise_generator)
    kind = type(policy).__name__
    like, batch = problem.means, problem.batch_shape
    regret = like.new_empty((horizon, *batch))
    reward_part, penalty_part, value = (like.new_zeros(batch) for _ in range(3))
    kept: dict[str, list[Tensor]] = {name: [] for name in record}
    for play in simulation.play(horizon):
        regret[play.t] = play.regret
        if gradient:
            decision = play.decision
            gamma = check_offered("rollout", "gradient", decision.gamma, kind)
            reward_part += F.reward_gradient(decision.probs, decision.mu_hat, decision.width, gamma)
            penalty_part += F.sum_width(decision.width, mask=problem.mask)
            value += (decision.probs * decision.mu_hat).sum(-1)
        for name in record if play.t % record_every == 0 else ():
            kept[name].append(check_offered("rollout", f"record {name!r}", _RECORDS[name](play, problem), kind).clone())
        if progress is not None:
            progress(play.t + 1, horizon)
    terms = GradientTerms(reward_part / horizon, penalty_part / horizon, value / horizon) if gradient else None
    return Trajectory(regret, terms, {name: torch.stack(values) for name, values in kept.items()})
