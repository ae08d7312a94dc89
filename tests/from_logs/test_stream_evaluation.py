"""Evaluation in one pass equals evaluation in memory."""

import pytest
import torch

from tests.from_logs.cases import D, random_log
from tests.from_logs.test_summary import write
from torch_softucb import EpsilonGreedy, SoftUCBPolicy
from torch_softucb.from_logs import stream
from torch_softucb.from_logs.evaluate import evaluate_on_log, split_log, warm_start
from torch_softucb.from_logs.posterior import fit_posterior
from torch_softucb.from_logs.stream_evaluation import evaluate_stream
from torch_softucb.from_logs.summary import summarise_log


def _policy(log):
    policy = SoftUCBPolicy(log.x.shape[1], beta_init=0.4, coldness="smooth", dtype=D)
    earlier, later = split_log(log)
    warm_start(policy, earlier, num_bandits=int(log.bandit.max()) + 1)
    candidates = fit_posterior(log).offered.select(slice(len(earlier.arm), None))
    past = fit_posterior(earlier)
    return policy, past, evaluate_on_log(policy, later, candidates=candidates, posterior=past)


def _close(got, want):
    for name in ("logged", "policy", "greedy", "gain", "model_gain", "exploration_gain"):
        for a, b in zip(getattr(got, name), getattr(want, name), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
    assert got.largest_weight == pytest.approx(want.largest_weight, abs=1e-10)
    assert got.estimated is None


@pytest.mark.parametrize("bandits", [None, 3])
def test_one_pass_equals_memory(bandits, tmp_path, monkeypatch, seeded):
    monkeypatch.setattr(stream, "_ROWS", 13)
    log, _ = random_log(200, 5, 3, seeded, bandits=bandits)
    log = log._replace(position=torch.arange(200) % 2)
    policy, past, want = _policy(log)
    write(log, tmp_path / "log")
    _close(evaluate_stream(policy, tmp_path / "log", posterior=past, share=(0.5, 1)), want)


def test_all_decisions_as_those_of_one_bandit(tmp_path, seeded):
    log, _ = random_log(200, 5, 3, seeded, bandits=3)
    write(log, tmp_path / "log")
    policy, past, want = _policy(log._replace(bandit=torch.full_like(log.bandit, -1)))
    _close(evaluate_stream(policy, tmp_path / "log", posterior=past, share=(0.5, 1), per_bandit=False), want)


def test_candidates_by_id_take_the_features_of_the_whole_log(tmp_path, monkeypatch, seeded):
    monkeypatch.setattr(stream, "_ROWS", 13)
    log, _ = random_log(200, 4, 2, seeded)
    pool = torch.randn(6, 2, dtype=D, generator=seeded(1))
    candidates = torch.stack([torch.randperm(6, generator=seeded(i))[:4] for i in range(200)])
    shown = candidates.gather(1, log.arm.unsqueeze(-1)).squeeze(-1)
    reward = pool[shown].sum(-1) + 0.3 * torch.randn(200, dtype=D, generator=seeded(2))
    log = log._replace(candidates=candidates, x=pool[shown], reward=reward, features=log.features[:, :0])
    policy, past, want = _policy(log)
    write(log, tmp_path / "log", leave_out=("features",))
    items = summarise_log(tmp_path / "log", sample=5).items
    _close(evaluate_stream(policy, tmp_path / "log", posterior=past, items=items, share=(0.5, 1)), want)


def test_what_cannot_be_evaluated_is_named(tmp_path, seeded):
    log, _ = random_log(60, 5, 3, seeded)
    policy, past, _ = _policy(log)
    write(log, tmp_path / "log", leave_out=("propensity",))
    with pytest.raises(ValueError, match=r"0\.parquet has no propensities; evaluate a sample with evaluate_on_log"):
        evaluate_stream(policy, tmp_path / "log", posterior=past)
    write(log, tmp_path / "log", leave_out=("features", "candidates"))
    with pytest.raises(ValueError, match="the log does not contain the candidates"):
        evaluate_stream(policy, tmp_path / "log", posterior=past)
    write(log._replace(reward=log.reward * torch.nan), tmp_path / "log")
    with pytest.raises(ValueError, match="at least two decisions with a reward are needed, got 0"):
        evaluate_stream(policy, tmp_path / "log", posterior=past)
    with pytest.raises(TypeError, match="policy must be a SoftUCBPolicy"):
        evaluate_stream(EpsilonGreedy(3), tmp_path / "log", posterior=past)


def test_ray_gives_the_same_numbers(tmp_path, seeded):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, object_store_memory=100_000_000, include_dashboard=False, _node_ip_address="127.0.0.1")
    try:
        log, _ = random_log(200, 5, 3, seeded)
        policy, past, want = _policy(log)
        write(log, tmp_path / "log")
        _close(evaluate_stream(policy, tmp_path / "log", posterior=past, share=(0.5, 1), engine="ray"), want)
    finally:
        ray.shutdown()
