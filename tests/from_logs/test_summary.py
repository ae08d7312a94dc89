"""Summaries of datasets: the sums of the log in memory, whatever the batches, files and engine; the sample is fair."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.from_logs.cases import random_log
from torch_softucb.from_logs import stream
from torch_softucb.from_logs.posterior import fit_posterior
from torch_softucb.from_logs.summary import LogSummary, summarise_log, summary_in_memory
from torch_softucb.recommend import LoggedDecisions

COLUMNS = ("x", "arm", "propensity", "bandit", "position", "features", "candidates")


def write(log, folder, *, files=3, group=50, leave_out=()):
    """Write a log as several Parquet files."""
    folder.mkdir(exist_ok=True)
    rows = {name: getattr(log, name).tolist() for name in COLUMNS if name not in leave_out}
    rows["reward"] = [None if r != r else r for r in log.reward.tolist()]
    table, size = pa.table(rows), -(-len(log.arm) // files)
    for i in range(files):
        pq.write_table(table.slice(i * size, size), folder / f"{i}.parquet", row_group_size=group)
    return folder


def _flat(value):
    """Return all tensors in nested tuples."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value for tensor in _flat(part)] if isinstance(value, tuple) else []


def same(one: LogSummary, two: LogSummary, atol=1e-10):
    for a, b in zip(_flat(one), _flat(two), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=atol, equal_nan=True)
    assert one.decisions == two.decisions


@pytest.mark.parametrize("bandits", [None, 4])
def test_the_sums_are_those_of_the_log_in_memory(bandits, tmp_path, monkeypatch, seeded):
    monkeypatch.setattr(stream, "_ROWS", 17)
    log, _ = random_log(400, 5, 3, seeded, bandits=bandits)
    log = log._replace(reward=log.reward.masked_fill(torch.arange(400) % 7 == 0, torch.nan))
    found, want = summarise_log(write(log, tmp_path / "log"), sample=1000), summary_in_memory(log)
    for name, value in want.sums._asdict().items():
        torch.testing.assert_close(getattr(found.sums, name), value, rtol=0, atol=1e-10)
    for b, name in enumerate(want.names.tolist()):  # written out
        rows = [i for i in range(400) if log.bandit[i] == name and i % 7]
        gram = sum(torch.outer(log.x[i], log.x[i]) for i in rows)
        torch.testing.assert_close(found.sums.gram[b], gram, rtol=0, atol=1e-10)
        assert found.sums.num_observations[b] == len(rows)
    assert found.decisions == 400
    assert found.reward_mean == pytest.approx(log.rewarded.reward.mean().item())
    for name in ("x", "arm", "reward", "features", "bandit"):
        assert getattr(found.sample, name).equal(getattr(log.rewarded, name)), name


def test_posteriors_agree(tmp_path, seeded):
    log, _ = random_log(400, 5, 3, seeded, bandits=4)
    one, two = fit_posterior(summarise_log(write(log, tmp_path / "log"), sample=1000)), fit_posterior(log)
    torch.testing.assert_close(one.theta.mean, two.theta.mean, rtol=0, atol=1e-9)
    assert one.explained == pytest.approx(two.explained)
    assert one.owner.equal(two.owner)
    residual = log.reward - (two.theta.mean[two.owner] * log.x).sum(-1)
    assert two.explained == pytest.approx(float(1 - residual.square().mean() / log.reward.var(correction=0)))


def test_batches_and_files_do_not_change_the_sample(tmp_path, monkeypatch, seeded):
    log, _ = random_log(400, 5, 3, seeded)
    one = summarise_log(write(log, tmp_path / "one", files=1, group=1000), sample=30, seed=3)
    monkeypatch.setattr(stream, "_ROWS", 7)
    two = summarise_log(write(log, tmp_path / "two", files=4, group=20), sample=30, seed=3)
    same(one, two)
    assert len(one.sample.arm) == 30
    other = summarise_log(tmp_path / "two", sample=30, seed=4)
    assert not other.sample.x.equal(two.sample.x)


def test_every_row_is_equally_likely_in_the_sample(tmp_path, seeded):
    """40 rows, 10 kept, 300 seeds: a row is kept 75 times with deviation 7.5; the largest of 40 within 4.5 deviations.

    False alarm rate: 40 * 7e-6, below 0.001; the seeds are fixed.
    """
    log, _ = random_log(40, 2, 1, seeded)
    write(log, tmp_path / "log", files=1, group=15)
    counts = torch.zeros(40)
    for seed in range(300):
        kept = summarise_log(tmp_path / "log", sample=10, seed=seed).sample
        counts += torch.isin(log.x[:, 0], kept.x[:, 0])
    assert (counts - 75).abs().max() < 4.5 * 7.5


def test_shares_add_up(tmp_path, seeded):
    log, _ = random_log(101, 5, 3, seeded)
    write(log, tmp_path / "log")
    first, second = (summarise_log(tmp_path / "log", share=share) for share in ((0, 0.37), (0.37, 1)))
    both = summarise_log(tmp_path / "log")
    torch.testing.assert_close(first.sums.gram + second.sums.gram, both.sums.gram)
    assert first.decisions == 37
    assert second.decisions == 64


def test_items_are_collected_where_features_are_not_logged(tmp_path, seeded):
    log, _ = random_log(300, 4, 2, seeded)
    pool = torch.randn(6, 2, dtype=torch.double, generator=seeded(1))
    candidates = torch.stack([torch.randperm(6, generator=seeded(i))[:4] for i in range(300)])
    shown = candidates.gather(1, log.arm.unsqueeze(-1)).squeeze(-1)
    log = log._replace(candidates=candidates, x=pool[shown])
    found = summarise_log(write(log, tmp_path / "log", leave_out=("features",)), sample=20)
    assert found.items.ids.tolist() == list(range(6))
    assert found.items.features.equal(pool)
    assert found.items.decisions == 300
    offered = fit_posterior(found).offered
    assert offered.known
    assert not offered.unseen
    changed = log._replace(x=torch.cat((log.x[:-1], log.x[-1:] + 1)))
    found = summarise_log(write(changed, tmp_path / "log", leave_out=("features",)), sample=20)
    assert found.items.features is None
    assert not fit_posterior(found).offered.known


def test_without_bandits_all_decisions_are_those_of_one(tmp_path, seeded):
    log, _ = random_log(100, 5, 3, seeded, bandits=4)
    found = summarise_log(write(log, tmp_path / "log"), per_bandit=False)
    assert found.names.tolist() == [-1]
    torch.testing.assert_close(found.sums.gram[0], log.x.mT @ log.x)


def test_bad_datasets_are_named(tmp_path, seeded):
    log, _ = random_log(60, 5, 3, seeded)
    write(log._replace(reward=log.reward * torch.nan), tmp_path / "log")
    with pytest.raises(ValueError, match="none of the 60 decisions has a reward"):
        summarise_log(tmp_path / "log")
    write(log, tmp_path / "log", files=1)
    short = LoggedDecisions(*(column[..., :2] if column.dim() > 1 else column for column in log))
    write(short._replace(candidates=log.candidates), tmp_path / "b", files=1)
    (tmp_path / "b" / "0.parquet").rename(tmp_path / "log" / "1.parquet")
    with pytest.raises(ValueError, match="all decisions must have features of one length, got 3 and 2"):
        summarise_log([tmp_path / "log" / "0.parquet", tmp_path / "log" / "1.parquet"])
    with pytest.raises(ValueError, match="sample must be"):
        summarise_log(tmp_path / "log", sample=0)


def test_ray_gives_the_same_numbers(tmp_path, seeded):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, object_store_memory=100_000_000, include_dashboard=False, _node_ip_address="127.0.0.1")
    try:
        log, _ = random_log(400, 5, 3, seeded, bandits=4)
        write(log, tmp_path / "log")
        same(summarise_log(tmp_path / "log", sample=30, engine="ray"), summarise_log(tmp_path / "log", sample=30), atol=0)
        write(log._replace(arm=torch.where(log.id == log.id[350], -1, log.arm)), tmp_path / "bad")
        errors = []
        for engine in ("local", "ray"):
            with pytest.raises(ValueError, match="arm must be at least 0, got -1 in row") as found:
                summarise_log(tmp_path / "bad", engine=engine)
            errors.append(str(found.value))
        assert errors[0] == errors[1]
    finally:
        ray.shutdown()
