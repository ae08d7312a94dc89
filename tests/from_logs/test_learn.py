"""Learning beta on drawn problems: units, bad settings, and the regret it leads to on the true problem."""

import pytest
import torch

from tests.from_logs.cases import D, make_log
from torch_softucb import BanditProblem, SoftUCBPolicy, rollout, synthetic_problem
from torch_softucb.from_logs import fit_posterior, learn_beta
from torch_softucb.from_logs.posterior import radius
from torch_softucb.from_logs.synthetic_log import epsilon_greedy_log
from torch_softucb.learning.episode import Episode
from torch_softucb.problems import contextual_problem
from torch_softucb.recommend import read_decisions


@pytest.mark.parametrize("estimator", ["trajectory", "common_random_numbers"])
def test_learning_does_not_depend_on_the_reward_s_unit(estimator, seeded):
    """Rewards times 1000: beta times 1000, on the way and at the end; likewise a thousandth."""
    problem = synthetic_problem(num_problems=8, num_arms=6, dim=3, generator=seeded(0), dtype=D)
    paths = []
    for scale in (1.0, 1000.0, 0.001):
        scaled = BanditProblem(problem.arms, scale * problem.means, scale * 0.5)
        policy = SoftUCBPolicy(3, beta_init=0.8 * scale, coldness="smooth", dtype=D)
        settings = {"horizon": 20, "steps": 6, "trajectories": 8, "compile": False, "estimator": estimator}
        paths.append(torch.tensor(learn_beta(lambda n, g, p=scaled: p, policy, **settings)))
    torch.testing.assert_close(paths[1], 1000 * paths[0], rtol=1e-4, atol=0)
    torch.testing.assert_close(paths[2], 0.001 * paths[0], rtol=1e-4, atol=0)


def test_bad_settings_are_named(seeded):
    problem = synthetic_problem(num_problems=4, num_arms=3, dim=2, generator=seeded(0))
    policy = SoftUCBPolicy(2, coldness="smooth")
    for bad, match in [
        ({"estimator": "paper"}, "estimator must be one of 'common_random_numbers', 'trajectory', got 'paper'"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"trajectories": 0}, "trajectories must be at least 1"),
    ]:
        with pytest.raises(ValueError, match=match):
            learn_beta(lambda n, g: problem, policy, **({"horizon": 5, "compile": False} | bad))


def test_the_path_starts_at_the_first_beta_and_progress_follows_it(seeded):
    problem = synthetic_problem(num_problems=8, num_arms=3, dim=2, generator=seeded(0))
    policy = SoftUCBPolicy(2, beta_init=1.5, coldness="smooth")
    seen = []
    settings = {"horizon": 10, "steps": 3, "trajectories": 8, "compile": False}
    betas = learn_beta(lambda n, g: problem, policy, **settings, progress=lambda *step: seen.append(step))
    assert betas[0] == 1.5
    assert betas[-1] == float(policy.beta.detach())
    assert seen == list(enumerate(betas))[1:]


def _regret_ratio(problem, folder, *, horizon, count, seed, **settings):
    """Regret on the true problem of the beta learned from a log of 20,000 decisions, over that of the beta learned on it."""
    epsilon_greedy_log(folder, problem, decisions=20_000, epsilon=0.1, seed=seed)
    posterior = fit_posterior(read_decisions(folder / "00000001.decisions.parquet"))
    start = radius(posterior, horizon=horizon) / 4
    regrets, betas = [], []
    for number, draw in enumerate((lambda n, g: posterior.draw(n, generator=g), lambda n, g: problem.repeat(n))):
        policy = SoftUCBPolicy(problem.dim, beta_init=start, coldness="smooth")
        learn_beta(draw, policy, horizon=horizon, seed=10 * seed + number, **settings)
        test = torch.Generator().manual_seed(1000 + seed)
        played = rollout(policy, problem.repeat(count), horizon=horizon, generator=test, compile="native")
        regrets.append(played.regret.sum(0).double().mean())
        betas.append(float(policy.beta.detach()))
    ratio = float(regrets[0] / regrets[1])
    print(f"beta {betas[0]:.3f} from the log, {betas[1]:.3f} on the problem; regret {regrets[0]:.2f}, {regrets[1]:.2f}")
    return ratio


@pytest.mark.slow
def test_beta_from_a_log_is_as_good_as_beta_from_the_problem(tmp_path, seeded):
    """At most 5% more regret; the means' own error is below 1%."""
    problem = synthetic_problem(num_problems=1, num_arms=20, dim=5, generator=seeded(5))[0]
    small = {"steps": 40, "trajectories": 256}
    assert _regret_ratio(problem, tmp_path, horizon=512, count=8192, seed=0, **small) <= 1.05


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_beta_from_a_log_at_the_paper_s_size(seed, tmp_path, seeded):
    problem = synthetic_problem(num_problems=1, generator=seeded(seed))[0]
    assert _regret_ratio(problem, tmp_path, horizon=1024, count=32768, seed=seed) <= 1.05


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_beta_from_a_contextual_log_is_as_good_as_beta_from_the_world(seed, seeded):
    """20,000 decisions of a softmax policy, 10 of 200 items each: regret on the true world within 5%.

    4096 trajectories with common noise: the standard error of each mean regret is 0.5%.
    """
    g = seeded(seed)
    items, theta = torch.randn(200, 8, dtype=D, generator=g) / 8**0.5, torch.randn(8, dtype=D, generator=g)
    n, at = 20_000, torch.arange(20_000)
    candidates = torch.rand(n, 200, generator=g).argsort(-1)[:, :10]
    probs = (items @ theta)[candidates].softmax(-1)
    arm = torch.multinomial(probs, 1, generator=g).squeeze(-1)
    x = items[candidates[at, arm]]
    log = make_log(x, arm, x @ theta + 0.5 * torch.randn(n, dtype=D, generator=g), candidates=candidates)
    world = contextual_problem(items.float(), theta=theta.float(), candidates=10, noise_std=0.5)
    posterior, regret = fit_posterior(log), {}
    sources = {
        "log": lambda count, generator: posterior.draw(count, generator=generator),
        "world": lambda count, generator: world.repeat(count),
    }
    for name, source in sources.items():
        policy = SoftUCBPolicy(8, coldness="smooth")
        learn_beta(source, policy, horizon=500, steps=40, trajectories=256)
        played = Episode(world.repeat(4096), 5, 6).play(policy, horizon=500, compile="native")
        regret[name] = played.regret.sum(0).mean().item()
    print(f"regret {regret}")
    assert regret["log"] < 1.05 * regret["world"]
