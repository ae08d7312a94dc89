"""The T-round loop: a policy plays a batch of problems from the first round to the last."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_softucb.checks import check_choice, check_integer
from torch_softucb.functional.confidence import _coverage as _covered
from torch_softucb.functional.confidence import _num_suboptimal
from torch_softucb.policies._checks import check_offered
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision
from torch_softucb.problems.base import BanditProblem
from torch_softucb.simulation.engine import Round, Simulation
from torch_softucb.simulation.trajectory import SCORES, GradientTerms, Trajectory


def _coverage(decision: Decision, means: Tensor) -> Tensor | None:
    if decision.beta is None:
        return None
    return _covered(means, decision.mu_hat, decision.width, decision.beta, decision.mask)


def _beta(decision: Decision, means: Tensor) -> Tensor | None:
    return None if decision.beta is None else decision.beta.expand(decision.batch_shape)


_RECORDS: dict[str, Callable[[Decision, Tensor], Tensor | None]] = {
    "probs": lambda decision, _: decision.probs,
    "index": lambda decision, _: decision.index,
    "gamma": lambda decision, _: decision.gamma,
    "mu_hat": lambda decision, _: decision.mu_hat,
    "width": lambda decision, _: decision.width,
    "entropy": lambda decision, _: decision.entropy(),
    "num_suboptimal": lambda decision, _: _num_suboptimal(decision.index, decision.mask),
    "coverage": _coverage,
    "beta": _beta,
}
RECORDS = ("arm", "reward", *_RECORDS)


def _recorded(name: str, play: Round, means: Tensor) -> Tensor | None:
    if name in ("arm", "reward"):
        return play.arm if name == "arm" else play.reward
    assert play.decision is not None
    return _RECORDS[name](play.decision, means)


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
    scores: bool = False,
    discount: float = 1.0,
    progress: Callable[[int, int], object] | None = None,
    compile: bool | str = False,
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
            ``width``, ``entropy``, ``num_suboptimal``, ``coverage``, ``beta``. Without it memory is O(B K), and T numbers
            of regret a trajectory.
        record_every: keep only every so many rounds' records, from the first on.
        scores: also keep every round's parts of a whole trajectory's gradient (:data:`SCORES`), for
            SoftUCBPolicy with coldness ``smooth`` or ``current``.
        discount: below 1, for rewards that drift: every round keeps that share of what was known before, as
            ``policy.update(discount=)`` does.
        progress: called with (rounds done, horizon) after every round, or every stretch of rounds of the native kernel.
        compile: True plays under ``torch.compile``; ``"native"`` in a C++ kernel, built on first use, the fastest here.
            Same numbers to rounding. Recorded rounds run eagerly. Where no compiler is found: a warning, and eager play.

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
    simulation = Simulation(
        policy,
        problem,
        generator=generator,
        noise_generator=noise_generator,
        gradient=gradient,
        scores=scores,
        discount=discount,
        compile=compile,
    )
    kind = type(policy).__name__
    like, batch = problem.means, problem.batch_shape
    regret = like.new_empty((horizon, *batch))
    total = [like.new_zeros(batch) for _ in range(3)]
    kept: dict[str, list[Tensor]] = {name: [] for name in record}
    planes = like.new_empty((len(SCORES), horizon, *batch)) if scores else None
    looked: list[Tensor] = []

    def recorded(t: int) -> bool:
        return bool(record) and t % record_every == 0

    for play in simulation.play(horizon, recorded=recorded):
        done = play.t + len(play.regret)
        regret[play.t : done] = play.regret
        for part, now in zip(total, play.gradient or (), strict=False):
            part += now
        if planes is not None and play.scores is not None:
            planes[:, play.t : done] = play.scores
        if play.situation is not None:
            looked.append(play.situation.clone())
        for name in record if recorded(play.t) else ():
            found = _recorded(name, play, simulation.present_means)
            kept[name].append(check_offered("rollout", f"record {name!r}", found, kind).clone())
        if progress is not None:
            progress(done, horizon)
    terms = GradientTerms(*(part / horizon for part in total)) if gradient else None
    named = {} if planes is None else dict(zip(SCORES, planes, strict=True))
    records = {name: torch.stack(values) for name, values in kept.items()}
    return Trajectory(regret, terms, records, named, torch.cat(looked) if looked else None)
