"""From a log to a posterior, problems and beta: what was on offer, the draws' moments, and the regret it leads to."""

import pytest
import torch

from torch_softucb import BanditProblem, SoftUCBHead, SoftUCBPolicy, rollout, synthetic_problem
from torch_softucb.from_logs.candidates import offered_items
from torch_softucb.from_logs.posterior import fit_posterior, learn_beta, radius
from torch_softucb.from_logs.synthetic_log import epsilon_greedy_log
from torch_softucb.recommend import DecisionLog, read_decisions
from torch_softucb.recommend.log.reader import LoggedDecisions

D = torch.double


def _log(x, arm, reward, *, candidates=None, features=None, bandit=None):
    n = len(arm)
    empty = torch.zeros(n, 0, dtype=torch.int64)
    columns = {name: torch.zeros(n, dtype=torch.int64) for name in ("id", "context", "position", "version")}
    columns["bandit"] = torch.full((n,), -1) if bandit is None else bandit
    return LoggedDecisions(
        **columns,
        arm=arm,
        propensity=torch.full((n,), 0.5, dtype=D),
        beta=torch.full((n,), torch.nan, dtype=D),
        x=x,
        reward=reward,
        candidates=empty if candidates is None else candidates,
        features=torch.zeros(n, 0, x.shape[1], dtype=D) if features is None else features,
    )


def _random(n, k, d, seeded, *, noise=0.5, bandits=None, seed=0):
    """A log of uniform choices among fresh candidates, with the truth behind it."""
    g = seeded(seed)
    features = torch.randn(n, k, d, dtype=D, generator=g)
    bandit = torch.randint(bandits, (n,), generator=g) if bandits else torch.zeros(n, dtype=torch.int64)
    theta = torch.randn(bandits or 1, d, dtype=D, generator=g)
    arm = torch.randint(k, (n,), generator=g)
    x = features[torch.arange(n), arm]
    reward = (x * theta[bandit]).sum(-1) + noise * torch.randn(n, dtype=D, generator=g)
    candidates = torch.arange(k).expand(n, -1)
    log = _log(x, arm, reward, features=features, candidates=candidates, bandit=bandit if bandits else None)
    return log._replace(propensity=torch.full((n,), 1 / k, dtype=D)), theta


def test_candidates_by_all_four_ways(seeded):
    g = seeded(0)
    items = torch.randn(9, 3, dtype=D, generator=g)
    offer = torch.stack([torch.randperm(8, generator=g)[:4] for _ in range(200)])  # item 8 is never on offer
    arm = torch.randint(4, (200,), generator=g)
    arm[offer.gather(1, arm[:, None])[:, 0] == 7] = 0  # item 7 is never shown, but for the first place
    shown = offer.gather(1, arm[:, None])[:, 0]
    keep = shown != 7
    offer, arm, shown = offer[keep], arm[keep], shown[keep]
    x, reward = items[shown], torch.zeros(len(arm), dtype=D)
    for way in (
        _log(x, arm, reward, candidates=offer, features=items[offer]),
        _log(x, arm, reward, candidates=offer),
    ):
        found = offered_items(way)
        sets, mask = found.sets(slice(0, 50))
        assert found.known
        assert sets[mask].equal(items[offer[:50]][mask])
        assert sets[torch.arange(50), found.arm[:50]].equal(x[:50])
    assert found.unseen == (offer == 7).sum()
    assert mask.equal(offer[:50] != 7)
    places = offered_items(_log(x, shown, reward))  # arm numbers of a fixed list
    assert places.fixed
    assert places.items.equal(items[:7])
    assert places.items[places.arm].equal(x)
    moving = offered_items(_log(x + torch.arange(len(x))[:, None], arm, reward), num_arms=6)  # x differs in every request
    assert not moving.known
    assert moving.rows.shape == (len(x), 6)
    fixed = offered_items(
        _log(x, shown, reward, candidates=torch.arange(9).expand(len(x), -1), features=items.expand(len(x), -1, -1))
    )
    assert fixed.fixed
    assert fixed.items.equal(items)


def test_logs_that_contradict_themselves_are_named(seeded):
    log, _ = _random(20, 4, 3, seeded)
    with pytest.raises(ValueError, match="features must have x at the place of arm, got another vector in row 0"):
        offered_items(log._replace(arm=(log.arm + 1) % 4))
    with pytest.raises(ValueError, match=r"arm must be in \[0, 4\), got 9"):
        offered_items(log._replace(arm=log.arm + 9 - log.arm.max()))
    with pytest.raises(ValueError, match="arm must be an allowed candidate"):
        offered_items(log._replace(candidates=torch.full_like(log.candidates, -1)))
    with pytest.raises(ValueError, match="more rewards are needed than theta has components, 3, got 2"):
        fit_posterior(LoggedDecisions(*(column[:2] for column in log)))
    with pytest.raises(ValueError, match="rewards must differ to say anything of x, got 1 in all 20"):
        fit_posterior(log._replace(reward=torch.ones_like(log.reward)))


def test_drawn_problems_have_the_posterior_s_moments(seeded):
    log, theta = _random(300, 5, 3, seeded)
    posterior = fit_posterior(log)
    drawn = posterior.draw(4000, generator=seeded(1), dtype=D)
    assert drawn.arms.shape == (4000, 5, 3)
    back = torch.linalg.lstsq(drawn.arms, drawn.means.unsqueeze(-1)).solution.squeeze(-1)  # theta of every problem
    cov = posterior.theta.root[0] @ posterior.theta.root[0].T
    torch.testing.assert_close(back.T.cov(), cov, atol=0.1 * float(cov.diagonal().max()), rtol=0)
    z = (back.mean(0) - posterior.theta.mean[0]) / (cov.diagonal() / 4000).sqrt()
    assert z.abs().max() < 4
    assert drawn.noise_std == pytest.approx(0.5, rel=0.15)
    assert (theta[0] - posterior.theta.mean[0]).norm() < 0.2
    assert (drawn.arms[:, None, 0] == log.features[None, :, 0]).all(-1).any(1).all()  # arms are sets of the log
    fewer = posterior.draw(7, generator=seeded(1), dtype=D)
    assert fewer.means.equal(drawn.means[:7])


def test_masked_candidates_stay_masked(seeded):
    log, _ = _random(100, 5, 3, seeded)
    closed = torch.arange(5) == ((log.arm + 1) % 5).unsqueeze(-1)
    posterior = fit_posterior(log._replace(candidates=log.candidates.masked_fill(closed, -1)))
    drawn = posterior.draw(50, generator=seeded(2))
    assert drawn.mask.sum(-1).tolist() == [4] * 50
    assert rollout(SoftUCBPolicy(3), drawn, horizon=5, generator=seeded(0)).regret.min() >= 0


def test_bandits_have_a_theta_each(seeded):
    log, theta = _random(6000, 5, 3, seeded, bandits=20)
    posterior = fit_posterior(log._replace(bandit=2 * log.bandit))
    assert posterior.names.tolist() == list(range(0, 40, 2))
    assert (posterior.theta.mean - theta).norm(dim=-1).max() < 0.25
    assert posterior.theta.noise_std.item() == pytest.approx(0.5, rel=0.05)
    torch.testing.assert_close(posterior.theta_of(torch.tensor([2, 4])), posterior.theta.mean[1:3])
    torch.testing.assert_close(posterior.theta_of(torch.tensor([3, 99])), posterior.theta.mean.mean(0).expand(2, -1))


def test_who_logged_and_what_is_missing_do_not_matter(tmp_path, seeded):
    """A head with several users logs slates, half of it unanswered: the posterior is that of its answered items."""
    policy = SoftUCBPolicy(3, dtype=D)
    policy.reset(batch_shape=(4,))
    head = SoftUCBHead(torch.nn.Identity(), policy)
    g = seeded(0)
    theta = torch.randn(4, 3, dtype=D, generator=g)
    with DecisionLog(tmp_path) as log:
        for _ in range(100):
            users, arms = torch.arange(4), torch.randn(4, 6, 3, dtype=D, generator=g)
            served = head.serve(head(arms, bandit=users), k=2)
            log.decisions(served, features=arms)
            ids = served.id[::2].reshape(-1)
            reward = (served.x * theta.unsqueeze(1)).sum(-1)[::2].reshape(-1)
            reward = reward + 0.1 * torch.randn(len(reward), dtype=D, generator=g)
            head.feedback(ids, reward)
            log.rewards(ids, reward)
    posterior = fit_posterior(read_decisions(tmp_path))
    assert posterior.names.tolist() == [0, 2]
    assert len(posterior.owner) == 400
    torch.testing.assert_close(posterior.theta.mean, theta[::2], atol=0.05, rtol=0)


@pytest.mark.parametrize("estimator", ["trajectory", "common_random_numbers"])
def test_learning_does_not_depend_on_the_reward_s_unit(estimator, seeded):
    """Rewards times 1000: beta times 1000, on the way and at the end; likewise a thousandth."""
    problem = synthetic_problem(num_problems=8, num_arms=6, dim=3, generator=seeded(0), dtype=D)
    paths = []
    for scale in (1.0, 1000.0, 0.001):
        scaled = BanditProblem(problem.arms, scale * problem.means, scale * 0.5)
        policy = SoftUCBPolicy(3, beta_init=0.8 * scale, coldness="smooth", dtype=D)
        kind = {"horizon": 20, "steps": 6, "trajectories": 8, "compile": False, "estimator": estimator}
        paths.append(torch.tensor(learn_beta(lambda n, g, p=scaled: p, policy, **kind)))
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
    with pytest.raises(ValueError, match="problem must be a single one"):
        epsilon_greedy_log("unused", problem)
    with pytest.raises(ValueError, match="decisions must be a multiple of the number of requests in a batch, 100, got 150"):
        epsilon_greedy_log("unused", problem[0], decisions=150)


def _regret_ratio(problem, folder, *, horizon, count, seed, **kind):
    """Regret on the true problem of the beta learned from a log of 20,000 decisions, over that of the beta learned on it."""
    epsilon_greedy_log(folder, problem, decisions=20_000, epsilon=0.1, seed=seed)
    posterior = fit_posterior(read_decisions(folder / "00000001.decisions.parquet"))
    start = radius(posterior, horizon=horizon) / 4
    regrets, betas = [], []
    for number, draw in enumerate((lambda n, g: posterior.draw(n, generator=g), lambda n, g: problem.repeat(n))):
        policy = SoftUCBPolicy(problem.dim, beta_init=start, coldness="smooth")
        learn_beta(draw, policy, horizon=horizon, seed=10 * seed + number, **kind)
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
