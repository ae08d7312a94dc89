"""R12, R13: stated probabilities are those of the draws, and posteriors and intervals cover what they should."""

import tempfile

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from experiments.trust.goal import Result, Size, goal
from experiments.trust.serving import new_head, request
from torch_softucb import Decision, EpsilonGreedy, LinTS, SoftUCBPolicy
from torch_softucb import functional as F
from torch_softucb.recommend import DecisionLog, read_log

_LEVEL = 1e-6  # false-alarm rate of each test
_CHUNK = 100_000


def _state(number: int, generator: torch.Generator) -> Decision:
    """Return the decision of a policy in a random state, with some arms masked."""
    dim, k = 4, int(torch.randint(3, 12, (), generator=generator))
    dtype = (torch.float32, torch.float64)[number % 2]
    policy: SoftUCBPolicy | EpsilonGreedy
    if number % 5 == 4:
        policy = EpsilonGreedy(dim, epsilon=0.2, dtype=dtype)
    else:
        policy = SoftUCBPolicy(dim, beta_init=0.6, coldness=("current", "smooth")[number % 2], dtype=dtype)
    count = int(torch.randint(1, 60, (), generator=generator))
    x = torch.randn(count, dim, generator=generator).to(dtype)
    policy.update(x, torch.randn(count, generator=generator).to(dtype))
    mask = torch.rand(k, generator=generator) < 0.8
    mask[0], mask[-1] = True, False
    with torch.no_grad():
        decision: Decision = policy(torch.randn(k, dim, generator=generator).to(dtype), mask=mask)
    return decision


def _counts(decision: Decision, draws: int, generator: torch.Generator) -> Tensor:  # (K,)
    counts = torch.zeros(decision.num_arms, dtype=torch.int64)
    for done in range(0, draws, _CHUNK):
        n = min(_CHUNK, draws - done)
        values = (decision.probs, decision.index, decision.mu_hat, decision.width)
        arm = Decision(*(value.expand(n, -1) for value in values)).sample(generator)
        counts += torch.bincount(arm, minlength=decision.num_arms)
    return counts


def _chi_square(counts: np.ndarray, probs: np.ndarray) -> tuple[float, float]:
    """Return the p-value, and the probability of missing a shift of one percentage point between two cells."""
    draws = counts.sum()
    small = probs * draws < 20
    if small.any():  # cells that are too rare for the test share one
        counts = np.append(counts[~small], counts[small].sum())
        probs = np.append(probs[~small], probs[small].sum())
    counts, probs = counts[probs > 0], probs[probs > 0]
    if len(probs) < 2:
        return 1.0, 0.0
    expected = probs / probs.sum() * draws
    statistic, df = ((counts - expected) ** 2 / expected).sum(), len(probs) - 1
    shift = draws * 1e-4 * 2 / probs.max()  # least visible between the two most frequent cells
    critical = stats.chi2.isf(_LEVEL, df)
    return float(stats.chi2.sf(statistic, df)), float(stats.ncx2.cdf(critical, df, shift))


def _recomputed(steps: int, seed: int) -> tuple[int, int]:
    """Log decisions with their features; count the propensities that a copy of the policy of that time gives bitwise."""
    with tempfile.TemporaryDirectory() as folder:
        head, copies = new_head(), []
        with DecisionLog(folder) as log:
            for step in range(steps):
                _, items = request(5, 4, 1000 * seed + step)
                copies.append({name: value.clone() for name, value in head.policy.state_dict().items()})
                with torch.no_grad():
                    decision = head(items)
                served = head.serve(decision)
                log.decisions(served, version=step, candidates=items, features=decision.features)
                head.feedback(served.id, torch.randn(5, dtype=torch.double))
        logged = read_log(folder)
    same = 0
    policy = SoftUCBPolicy(head.policy.dim, dtype=torch.double)
    for version, copy in enumerate(copies):
        at = logged.version == version
        policy.load_state_dict(copy)
        assert logged.features is not None
        with torch.no_grad():
            probs = policy(logged.features[at].double()).probs
        stated = probs.gather(-1, logged.arm[at].unsqueeze(-1)).squeeze(-1)
        same += int((stated == logged.propensity[at]).sum())
    return same, len(logged.arm)


def _users_check(count: int, seed: int) -> tuple[float, float]:
    """p-values of the users' check of epsilon-greedy draws: with the stated probabilities, and with 2% flatter ones."""
    generator = torch.Generator().manual_seed(seed)
    policy = EpsilonGreedy(4, epsilon=0.2, dtype=torch.double)
    policy.update(torch.randn(20, 4, generator=generator).double(), torch.randn(20, generator=generator).double())
    with torch.no_grad():
        decision = policy(torch.randn(count, 5, 4, generator=generator).double())
    arm = decision.sample(generator)
    wrong = 0.98 * decision.probs + 0.02 / 5
    return F.propensity_check(decision.probs, arm, seed=seed)[1], F.propensity_check(wrong, arm, seed=seed)[1]


@goal(
    "R12",
    claim="""Stated probabilities are those of the draws: 100 states x 1,000,000 draws, smallest p-value at least 1e-6,
    and a shift by one percentage point would be missed with a probability below 1e-6; masked arms are drawn 0 times;
    logged propensities can be recomputed bitwise; the check that users get passes right draws and finds wrong ones.""",
    method="""Policies in random states (two coldness rules, epsilon-greedy, float32 and float64, with masked arms)
    draw arms; a chi-square test compares the counts with the stated probabilities. Its power against a shift between
    the two most frequent arms is computed from the noncentral chi-square law. Propensities in a log are recomputed
    from its features and a copy of the policy made at that version. The users' check is
    `functional.propensity_check`; it gets 1,000,000 draws with the probabilities that were stated, and with others.""",
    minutes=12,
)
def propensities(size: Size) -> Result:
    generator = torch.Generator().manual_seed(size.seed)
    states, draws = size.of(100, 10), size.of(1_000_000, 200_000)
    smallest, missed, masked, dull = 1.0, 0.0, 0, 0
    for number in range(states):
        decision = _state(number, generator)
        counts = _counts(decision, draws, generator)
        assert decision.mask is not None
        masked += int(counts[~decision.mask].sum())
        p, miss = _chi_square(counts.double().numpy(), decision.probs.double().numpy())
        dull += p == 1.0
        smallest, missed = min(smallest, p), max(missed, miss)
    same, total = _recomputed(size.of(400, 20), size.seed)
    right, wrong = _users_check(1_000_000, size.seed)
    met = smallest >= _LEVEL and masked == 0 and same == total and wrong < _LEVEL <= right and (missed < 1e-6 or size.quick)
    text = (
        f"{states} states x {draws:,} draws: smallest p {smallest:.1e}, shift missed with {missed:.0e}, masked arms drawn "
    )
    text += f"{masked} times; {same:,} of {total:,} logged propensities bitwise; "
    return Result(met, text + f"users' check: p {right:.2g} for right draws, {wrong:.0e} for wrong ones")


def _posterior(problems: int, generator: torch.Generator) -> tuple[LinTS, Tensor, Tensor]:
    """Draw problems from LinTS's own prior and let it learn; returns the policy, the arms and their true means."""
    dim, k, n, scale = 4, 3, 12, 0.5
    policy = LinTS(dim, scale=scale, dtype=torch.double)
    policy.reset(batch_shape=(problems,))
    theta = scale * torch.randn(problems, dim, 1, generator=generator, dtype=torch.double)
    x = torch.randn(problems, n, dim, generator=generator, dtype=torch.double)
    noise = scale * torch.randn(problems, n, generator=generator, dtype=torch.double)
    policy.update(x, (x @ theta).squeeze(-1) + noise)
    arms = torch.randn(problems, k, dim, generator=generator, dtype=torch.double)
    return policy, arms, (arms @ theta).squeeze(-1)


@goal(
    "R13",
    claim="""LinTS draws from its posterior: simulation-based calibration over 1,000 problems x 99 draws, p at least
    1e-6 per arm; 90% intervals from the widths contain the truth in 90% +- 1% of 20,000 problems.""",
    method="""Problems are drawn from the prior that LinTS assumes. Where the posterior is right, the rank of the true
    mean among 99 draws is uniform; a chi-square test over 20 bins checks it for each of three arms. The interval is
    mean +- 1.645 times scale times width.""",
)
def calibration(size: Size) -> Result:
    generator = torch.Generator().manual_seed(size.seed)
    policy, arms, truth = _posterior(1000, generator)
    with torch.no_grad():
        decision = policy(arms)
        draws = [
            decision.draw(torch.randn(1000, policy.normals_per_decision, generator=generator, dtype=torch.double))
            for _ in range(99)
        ]
    rank = (torch.stack(draws) < truth).sum(0)  # (1000, K) in 0..99
    p = []
    for arm in range(rank.shape[1]):
        counts = torch.bincount(rank[:, arm] // 5, minlength=20).numpy()
        p.append(float(stats.chisquare(counts).pvalue))
    policy, arms, truth = _posterior(size.of(20_000, 20_000), generator)
    with torch.no_grad():
        decision = policy(arms)
    inside = (truth - decision.mu_hat).abs() <= stats.norm.ppf(0.95) * policy.scale * decision.width
    coverage = float(inside[:, 0].double().mean())
    met = min(p) >= _LEVEL and abs(coverage - 0.9) <= 0.01
    return Result(met, f"p {', '.join(f'{value:.2g}' for value in p)}; coverage {coverage:.4f}")
