"""Learn beta in plain torch: the one optimisation loop of the package outside Lightning."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor

from torch_softucb.checks import check_choice, check_integer, check_number
from torch_softucb.learning.dual import Dual
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators import ESTIMATORS, Signal
from torch_softucb.learning.optimisers import Optimisation, default_optimisation
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.policies._checks import check_policy
from torch_softucb.problems.base import BanditProblem
from torch_softucb.rng import mixed_seed

ProblemSource = Callable[[int, torch.Generator], BanditProblem]  # (count, generator) -> problems


class FitKwargs(TypedDict, total=False):
    """Keyword arguments of :func:`fit` that wrappers pass on to it."""

    steps: int
    trajectories: int
    lr: float | None
    seed: int
    compile: bool | str


class FitResult(NamedTuple):
    """Result of :func:`fit`.

    Attributes:
        betas: mean beta before every step, and after the last; empty for a beta module, which has no single value.
        regrets: mean cumulative regret of each step's trajectories.
    """

    betas: list[float]
    regrets: list[float]


def take_step(
    policy: SoftUCBPolicy,
    loss: Tensor,  # ()
    optimisation: Optimisation,
    *,
    eta: float | Dual = 0.0,
) -> None:
    """Back-propagate the loss, step the optimiser, and keep beta, delta and eta in their ranges."""
    optimisation.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimisation.optimizer.step()
    policy.project_()
    if optimisation.scheduler is not None:
        optimisation.scheduler.step()
    if isinstance(eta, Dual):
        eta.step()


def fit_episodes(
    policy_for: Callable[[Episode], SoftUCBPolicy],
    episodes: Iterable[Episode],
    *,
    estimator: str,
    optimisation: Optimisation,
    eta: float | Dual = 0.0,
    normalise: bool = False,
    compile: bool | str = False,
) -> Iterator[tuple[SoftUCBPolicy, Signal]]:
    """Play one episode per step, yield its signal, then step the optimiser.

    Args:
        policy_for: the policy that plays an episode; policies of different sizes may share the parameters that are learned.
        episodes: what to play, each with its horizon.
        estimator: name of the gradient estimator.
        optimisation: optimiser of the shared parameters, and its scheduler.
        eta: weight of the constraint, or a dual variable.
        normalise: divide each step's loss by its mean regret, so that noisy and long problems do not dominate the others.
        compile: backend of the rollouts.

    Yields:
        The policy and the signal of each step, before the step is taken.
    """
    for episode in episodes:
        assert episode.horizon is not None
        policy = policy_for(episode)
        signal = ESTIMATORS[estimator](policy, episode, horizon=episode.horizon, eta=eta, compile=compile)
        yield policy, signal
        weight = 1 / max(1e-9, float(signal.trajectory.regret.mean())) if normalise else 1.0
        take_step(policy, weight * signal.loss, optimisation, eta=eta)


def fit(
    policy: SoftUCBPolicy,
    problems: BanditProblem | ProblemSource,
    *,
    horizon: int,
    estimator: str = "trajectory",
    steps: int = 50,
    trajectories: int = 512,
    eta: float | Dual = 0.0,
    lr: float | None = None,
    seed: int = 0,
    compile: bool | str = False,
    progress: Callable[[int, SoftUCBPolicy], object] | None = None,
) -> FitResult:
    """Learn a policy's parameters (beta, delta or a beta module) to minimise regret over ``horizon`` rounds.

    :class:`~torch_softucb.training.SoftUCBOffline` does the same inside Lightning, with logging and checkpoints.

    Args:
        policy: the policy; its parameters change in place, its statistics are neither read nor changed. Use
            ``coldness="smooth"`` with ``trajectory``.
        problems: one problem, which is played with new noise in every step, or a function ``(count, generator)`` that
            returns problems, such as the ``draw`` method of a posterior.
        horizon: number of rounds T over which regret is minimised.
        estimator: ``trajectory``, ``common_random_numbers`` or ``paper``.
        steps: optimisation steps.
        trajectories: trajectories per step.
        eta: weight of the constraint, for ``paper`` only.
        lr: learning rate; by default that of :func:`~torch_softucb.learning.optimisers.default_lr`.
        seed: seed of problems, noise and draws.
        compile: backend; see :func:`torch_softucb.rollout`.
        progress: called with (steps done, policy) after every step.

    Example:
        >>> from torch_softucb import synthetic_problem
        >>> problems = lambda count, generator: synthetic_problem(num_problems=count, num_arms=5, dim=2, generator=generator)
        >>> policy = SoftUCBPolicy(2, beta_init=2.0, coldness="smooth")
        >>> result = fit(policy, problems, horizon=50, steps=4, trajectories=64)
        >>> len(result.betas), result.betas[-1] < result.betas[0]
        (5, True)
    """
    check_policy("fit", policy, SoftUCBPolicy)
    check_choice("fit", "estimator", estimator, tuple(ESTIMATORS))
    if not any(parameter.requires_grad for parameter in policy.parameters()):
        raise ValueError("fit: policy must have a parameter that requires a gradient, got none; unfreeze beta or delta")
    if not isinstance(eta, Dual):
        check_number("fit", "eta", eta, low=0.0)
    if lr is not None:
        check_number("fit", "lr", lr, low=0.0, open_low=True)
    check_integer("fit", "seed", seed, low=0)
    horizon, steps = check_integer("fit", "horizon", horizon, low=1), check_integer("fit", "steps", steps, low=1)
    trajectories = check_integer("fit", "trajectories", trajectories, low=1)
    optimisation = default_optimisation(policy, estimator, steps=steps, lr=lr, auto_eta=isinstance(eta, Dual))
    source = _source(problems)

    def episode(step: int) -> Episode:
        of_problem, noise, action = (mixed_seed(seed, stream, step) for stream in range(3))
        drawn = source(trajectories, torch.Generator().manual_seed(of_problem))
        return Episode(drawn, noise, action, horizon=horizon)

    betas, regrets = [], []
    played = fit_episodes(
        lambda _: policy,
        map(episode, range(steps)),
        estimator=estimator,
        optimisation=optimisation,
        eta=eta,
        compile=compile,
    )
    for step, (_, signal) in enumerate(played):
        if progress is not None and step:
            progress(step, policy)
        betas += _mean_beta(policy)
        regrets.append(float(signal.trajectory.regret.sum(0).mean()))
    if progress is not None:
        progress(steps, policy)
    return FitResult(betas + _mean_beta(policy), regrets)


def _mean_beta(policy: SoftUCBPolicy) -> list[float]:
    return [] if policy.beta_module is not None else [float(policy.beta.detach().mean())]


def _source(problems: BanditProblem | ProblemSource) -> ProblemSource:
    if not isinstance(problems, BanditProblem):
        if not callable(problems):
            raise TypeError(
                "fit: problems must be a BanditProblem or a function (count, generator) -> BanditProblem, got "
                f"{type(problems).__name__}; as in fit(policy, synthetic_problem(num_problems=64), horizon=100)"
            )
        return problems
    fixed = problems

    def repeated(count: int, _: torch.Generator) -> BanditProblem:
        if not fixed.batch_shape:
            return fixed.repeat(count)
        rows = torch.arange(count, device=fixed.means.device)
        chosen = fixed[rows % fixed.batch_shape[0]]
        return replace(chosen, ids=rows)

    return repeated
