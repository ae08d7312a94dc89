"""R1, R2, R4, R23: accuracy of statistics after very many updates, and what happens to a damaged cache."""

import math
import warnings
from typing import Any

import torch
from torch import Tensor

from experiments.trust.goal import Result, Size, goal
from torch_softucb import LinUCB, NumericalError, SoftUCBPolicy, rollout
from torch_softucb.problems.base import BanditProblem

_CONDITIONS = (1.0, 5e5, 2e7, 5e8)


def _features(count: int, dim: int, spread: bool, generator: torch.Generator) -> Tensor:  # (count, d) float32
    """Features of length about 1; if ``spread``, nearly all of it in the first direction."""
    x = torch.randn(count, dim, generator=generator)
    return x * torch.logspace(0, -6, dim) if spread else x / math.sqrt(dim)


def _long_run(cond: float, count: int, seed: int) -> tuple[float, float, int, float]:
    """Relative error of width^2, error of the mean relative to |theta| |x|, widths that are not positive, cond(V)."""
    dim, generator = 16, torch.Generator().manual_seed(seed)
    x = _features(count, dim, cond > 1, generator)
    theta = torch.randn(dim, generator=generator)
    reward = x @ theta + 0.5 * torch.randn(count, generator=generator)
    alpha = count / cond if cond > 1 else 1.0
    policy = LinUCB(dim, beta=1.0, ridge_alpha=alpha)
    for one, y in zip(x.unbind(), reward.unbind(), strict=True):
        policy.update(one, y)
    V = alpha * torch.eye(dim, dtype=torch.double) + x.double().mT @ x.double()
    b = x.double().mT @ reward.double()
    probes = torch.cat((_features(32, dim, cond > 1, generator), _features(32, dim, False, generator), torch.eye(dim)))
    factor = torch.linalg.cholesky(V)
    exact = torch.linalg.solve_triangular(factor, probes.double().mT, upper=False).square().sum(0)
    theta_hat = torch.cholesky_solve(b.unsqueeze(-1), factor).squeeze(-1)
    with torch.no_grad():
        decision = policy(probes)
    squared = decision.width.double().square()
    width_error = float(((squared - exact) / exact).abs().max())
    scale = theta_hat.norm() * probes.double().norm(dim=-1)
    mean_error = float(((decision.mu_hat.double() - probes.double() @ theta_hat) / scale).abs().max())
    eigenvalues = torch.linalg.eigvalsh(V)
    return width_error, mean_error, int((~(decision.width > 0)).sum()), float(eigenvalues[-1] / eigenvalues[0])


@goal(
    "R1",
    claim="""After 1,000,000 float32 observations, with condition numbers of V up to 5e8, every squared width is within
    1e-5 (relative), every mean within 1e-5 of |theta| |x|, and no width is negative or NaN.""",
    method="""`policy.update` is called once per observation (16 features) for condition numbers 1, 5e5, 2e7 and 5e8.
    Widths and means of 80 probe arms are compared with a float64 Cholesky solve of the full sums. Statistics are
    float64 on every device that the library supports, so there is no separate float32 mode.""",
    minutes=15,
)
def long_updates(size: Size) -> Result:
    count = size.of(1_000_000, 20_000)
    runs = [_long_run(cond, count, size.seed) for cond in _CONDITIONS]
    width, mean, bad = max(r[0] for r in runs), max(r[1] for r in runs), sum(r[2] for r in runs)
    conds = ", ".join(f"{r[3]:.1g}" for r in runs)
    met = width <= 1e-5 and mean <= 1e-5 and bad == 0
    return Result(
        met, f"{count:,} updates at cond(V) {conds}: width^2 within {width:.1e}, mean within {mean:.1e}, {bad} not positive"
    )


_REFRESH = 16
_WAYS = ("single", "batch", "rows", "many", "discount")


def _disturbed(way: str, seed: int) -> tuple[bool, bool, bool]:
    """Disturb a cached inverse by 1e-3: is it noticed in time, readable before, and is nothing changed by the error?"""
    generator = torch.Generator().manual_seed(seed)
    policy = LinUCB(4, beta=1.0, refresh_every=_REFRESH)
    batch = () if way in ("single", "discount") else (3,)
    policy.reset(batch_shape=batch)
    settings: dict[str, Any] = {"bandit": torch.tensor([0, 2])} if way == "rows" else {}
    settings |= {"discount": 0.98} if way == "discount" else {}
    lead = (2,) if way == "rows" else batch
    shape = (*lead, 5) if way == "many" else lead

    def update() -> None:
        policy.update(torch.randn(*shape, 4, generator=generator), torch.randn(shape, generator=generator), **settings)

    for _ in range(int(torch.randint(3, 3 * _REFRESH, (), generator=generator))):
        update()
    root = policy.state.root
    row = (0,) if batch else ()
    i, j = torch.randint(4, (2,), generator=generator).tolist()
    root[(*row, i, j)] += 1e-3 * root[row].abs().max()
    readable = bool((policy.cache_error() > 1e-4).any())
    for _ in range(_REFRESH):
        before = policy.statistics.clone()
        try:
            update()
        except NumericalError:
            return True, readable, torch.equal(policy.statistics, before)
    return False, readable, True


@goal(
    "R2",
    claim="""A cached inverse that is off by 1e-3 raises `NumericalError` at the latest at its next scheduled refresh,
    100 of 100 times, and is never repaired silently; its error can be read at any time.""",
    method="""Single numbers of cached factors are changed after a random number of updates, for single updates,
    batches, some rows of a batch, several observations at once and updates with forgetting, 20 times each. Updates go
    on until the error is raised; it must leave the statistics unchanged. Warnings count as failures.
    `policy.cache_error()` must show the damage. Trainings play simulations, which have their own statistics (R23): there
    is no cache of a policy to log.""",
)
def disturbed_caches(size: Size) -> Result:
    warnings.simplefilter("error")
    repeats = size.of(20, 4)
    found = {way: [_disturbed(way, 1000 * size.seed + i) for i in range(repeats)] for way in _WAYS}
    cases = [case for way in found.values() for case in way]
    noticed, readable, unchanged = (sum(case[i] for case in cases) for i in range(3))
    missed = [way for way, runs in found.items() if not all(run[0] for run in runs)]
    met = noticed == readable == unchanged == len(cases)
    text = (
        f"{noticed} of {len(cases)} raised{' (missed: ' + ', '.join(missed) + ')' if missed else ''}, {readable} readable, "
    )
    text += f"{len(cases) - unchanged} changed by the error, 0 warnings"
    return Result(met, text)


@goal(
    "R4",
    claim="""With forgetting (0.98 per round) and an arm that gets 90% of the pulls, 100,000 rounds leave every
    eigenvalue of V at 0.99 alpha or more, in float32 and float64, without a single failed factorisation.""",
    method="""Three arms of unit length in four dimensions get 90%, 5% and 5% of the pulls; the fourth direction is
    never observed. `policy.update(..., discount=0.98)` is called every round; the smallest eigenvalue is read every
    50 rounds.""",
)
def forgetting(size: Size) -> Result:
    rounds = size.of(100_000, 4_000)
    lowest, errors = math.inf, 0
    for dtype in (torch.float32, torch.float64):
        generator = torch.Generator().manual_seed(size.seed)
        policy = LinUCB(4, beta=1.0, ridge_alpha=0.5, dtype=dtype)
        arms = torch.eye(4, dtype=dtype)[:3]
        pulls = torch.multinomial(torch.tensor([0.9, 0.05, 0.05]), rounds, replacement=True, generator=generator)
        rewards = torch.randn(rounds, generator=generator, dtype=dtype)
        for i, (arm, reward) in enumerate(zip(pulls.tolist(), rewards.unbind(), strict=True)):
            try:
                policy.update(arms[arm], reward, discount=0.98)
            except NumericalError:
                errors += 1
            if i % 50 == 0 or i == rounds - 1:
                lowest = min(lowest, float(torch.linalg.eigvalsh(policy.state.V)[0]) / policy.ridge_alpha)
    met = lowest >= 0.99 and errors == 0
    return Result(met, f"{rounds:,} rounds in float32 and float64: smallest eigenvalue {lowest:.4f} alpha, {errors} errors")


def _one_direction(length: float, alpha: float, horizon: int, backend: bool | str, seed: int) -> float:
    """Relative error of the width, at the last round of a float32 rollout in which all arms have the same features.

    V is then alpha I + n x x^T, so the exact width is |x| / sqrt(alpha + n |x|^2).
    """
    generator = torch.Generator().manual_seed(seed)
    x = torch.nn.functional.normalize(torch.randn(16, 1, 10, generator=generator), dim=-1) * length
    arms = x.expand(16, 3, 10).contiguous()
    problem = BanditProblem(arms, torch.zeros(16, 3), noise_std=0.1)
    policy = SoftUCBPolicy(10, beta_init=1.0, ridge_alpha=alpha)
    played = rollout(
        policy, problem, horizon=horizon, generator=generator, record=("width",), record_every=horizon - 1, compile=backend
    )
    squared = arms[:, 0].double().square().sum(-1)
    exact = (squared / (alpha + (horizon - 1) * squared)).sqrt()  # the last decision has seen horizon - 1 rewards
    width = played.records["width"][-1][:, 0].double()
    return float(((width - exact) / exact).abs().max())


@goal(
    "R23",
    claim="""In float32 simulations, the width of an arm that is played all the time is within 1e-3 (relative) of the
    exact value after 65,536 rounds, and after 1,024 rounds for alpha = 0.001 and for features of length 0.03 to 30.""",
    method="""Rollouts of 16 problems whose arms share one feature vector, so that V and the exact width are known in
    closed form, on the eager and the native backend. The width is read in the last round.""",
    minutes=10,
)
def rollout_widths(size: Size) -> Result:
    long, short = size.of(65_536, 1_024), size.of(1_024, 256)
    cases = [(1.0, 1.0, long), (1.0, 1e-3, short), *((length, 1.0, short) for length in (0.03, 0.3, 3.0, 30.0))]
    errors: dict[str, float] = {}
    for backend in (False, "native"):
        for length, alpha, horizon in cases:
            name = f"{backend or 'eager'} T={horizon:,} alpha={alpha:g} |x|={length:g}"
            errors[name] = _one_direction(length, alpha, horizon, backend, size.seed)
    worst = max(errors, key=lambda name: errors[name])
    over = sum(not error <= 1e-3 for error in errors.values())
    return Result(over == 0, f"{len(errors)} cases, {over} above 1e-3, largest {errors[worst]:.1e} ({worst})")
