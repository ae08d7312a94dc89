"""The decision log: everything that was served, from the journal and from Parquet."""

import pandas as pd
import pytest
import torch
from torch import nn

from tests.recommend.cases import fill, head, requests
from torch_softucb import LinTS, SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import DecisionLog, JournalError, read_log, restart


@pytest.mark.parametrize("k", [None, 3])
@pytest.mark.parametrize("users", [None, 20])
def test_the_log_is_what_was_served(k, users, tmp_path):
    ours = head(users=users)
    with DecisionLog(tmp_path) as log:
        kept = fill(log, ours, k=k)
        journal = None
        log.commit()
        journal = read_log(tmp_path)
        log.seal()
        again = fill(log, ours, steps=2, k=k, seed=50)
        log.commit()
        both = read_log(tmp_path)
    assert torch.equal(journal.id, torch.cat([served.id.reshape(-1) for served, *_ in kept]))
    torch.testing.assert_close(journal.x, torch.cat([served.x.detach().reshape(-1, 4) for served, *_ in kept]))
    torch.testing.assert_close(journal.propensity, torch.cat([served.propensity.reshape(-1) for served, *_ in kept]))
    assert torch.equal(journal.arm, torch.cat([served.arm.reshape(-1) for served, *_ in kept]))
    each = k or 1
    assert torch.equal(journal.context, torch.cat([user.repeat_interleave(each) for _, user, *_ in kept]))
    assert torch.equal(journal.bandit, journal.context if users else torch.full_like(journal.context, -1))
    assert (journal.position < each).all()
    assert (journal.beta == 1).all()
    rewards = torch.cat([reward for *_, reward in kept])
    assert torch.equal(journal.reward[~journal.reward.isnan()], rewards)
    assert len(journal.rewarded.id) == len(rewards)
    assert journal.candidates.shape == (30 * each, 5)
    assert (journal.mask.sum(-1) == torch.tensor([4, 5] * 3).repeat_interleave(5 * each)).all()
    torch.testing.assert_close(journal.features[torch.arange(30 * each), journal.arm], journal.x)
    for name, before in journal._asdict().items():  # sealed: the same numbers
        torch.testing.assert_close(getattr(both, name)[: len(before)], before, equal_nan=True)
    assert torch.equal(both.id[30 * each :], torch.cat([served.id.reshape(-1) for served, *_ in again]))
    table = pd.read_parquet(tmp_path / "00000001.decisions.parquet")
    assert table["propensity"].tolist() == journal.propensity.tolist()


def test_segments_roll_over_and_seal_twice(tmp_path):
    ours = head()
    with DecisionLog(tmp_path, group=1, segment_bytes=2000) as log:
        fill(log, ours, steps=20)
        assert log.place.segment > 3
        log.seal()
        log.seal()
    got = read_log(tmp_path)
    assert got.id.tolist() == list(range(100))
    assert not [*tmp_path.glob("*.tmp")]
    with DecisionLog(tmp_path) as log:  # opens behind what is sealed
        fill(log, ours, steps=1)
    assert len(read_log(tmp_path).id) == 105


@pytest.mark.parametrize("error", [OSError(5, "EIO"), OSError(28, "ENOSPC")])
def test_a_commit_that_failed_is_not_repeated(error, tmp_path, monkeypatch):
    ours = head()
    log = DecisionLog(tmp_path)
    log.decisions(ours.serve(ours(*requests(3, 5))))
    log.commit()
    log.decisions(ours.serve(ours(*requests(3, 5))))

    def fails(*_):
        raise error

    monkeypatch.setattr("os.fdatasync" if error.errno == 5 else "os.pwrite", fails)
    with pytest.raises(OSError, match=error.strerror):
        log.commit()
    monkeypatch.undo()
    log.decisions(ours.serve(ours(*requests(3, 5))))
    with pytest.raises(JournalError, match="a write to it has failed; open it again"):
        log.commit()
    with DecisionLog(tmp_path) as log:
        log.decisions(ours.serve(ours(*requests(3, 5))))
    ids = read_log(tmp_path).id.tolist()
    assert len(ids) == len(set(ids))
    assert ids[:3] == [0, 1, 2]


def test_a_log_has_one_writer(tmp_path):
    with DecisionLog(tmp_path), pytest.raises(JournalError, match="another writer has it open"):
        DecisionLog(tmp_path)
    DecisionLog(tmp_path).close()


def test_masks_slates_and_single_requests_are_in_the_log(tmp_path):
    ours = SoftUCBHead(nn.Identity(), SoftUCBPolicy(2))
    mask = torch.tensor([[True, False, True, True], [True, True, False, True]])
    x = torch.randn(2, 4, 2)
    with DecisionLog(tmp_path) as log:
        log.decisions(ours.serve(ours(x, mask=mask)), candidates=torch.arange(40, 44))
        log.decisions(ours.serve(ours(x, mask=mask)), features=x)
        log.decisions(ours.serve(ours(x[0]), k=3), context=torch.tensor(7))
    got = read_log(tmp_path)
    assert got.mask[:4].equal(torch.cat((mask, mask)))
    assert got.candidates[0].tolist() == [40, -1, 42, 43]
    assert got.position[4:].tolist() == [0, 1, 2]
    assert got.context[4:].tolist() == [7, 7, 7]


def test_what_cannot_be_logged_or_read_is_named(tmp_path):
    ours = SoftUCBHead(nn.Identity(), LinTS(2))
    with DecisionLog(tmp_path / "log") as log:
        with pytest.raises(ValueError, match="served has no propensity"):
            log.decisions(ours.serve(ours(torch.randn(3, 4, 2))))
        soft = SoftUCBHead(nn.Identity(), SoftUCBPolicy(2))
        served = soft.serve(soft(torch.randn(3, 4, 2)))
        with pytest.raises(ValueError, match=r"context must have shape \(3,\), got \(2,\)"):
            log.decisions(served, context=torch.zeros(2).long())
        with pytest.raises(TypeError, match="candidates must be an int64 tensor"):
            log.decisions(served, candidates=torch.zeros(3, 4))
        with pytest.raises(ValueError, match=r"features must have shape \(K, 2\) or \(N, K, 2\)"):
            log.decisions(served, features=torch.zeros(2, 4, 2))
        with pytest.raises(ValueError, match="no decision in"):
            read_log(tmp_path / "log")
        for bad, match in [
            ({"version": "v1"}, "version must be a whole number"),
            ({"features": torch.zeros(3, 4, 5)}, r"features must have shape \(K, 2\) or"),
            ({"features": torch.zeros(3, 4, 2).double()}, "features must have the decisions' dtype"),
            ({"candidates": torch.zeros(3, 7).long()}, "candidates must be those that were decided on, 4, got 7"),
            ({"candidates": torch.zeros(7).long(), "features": torch.zeros(4, 2)}, "must have the same K, got 7 and 4"),
        ]:
            with pytest.raises((TypeError, ValueError), match=match):
                log.decisions(served, **bad)
        for ids, reward, match in [
            (served.id, torch.ones(2), "reward must have shape"),
            (served.id.int(), torch.ones(3), "id must be an int64 tensor"),
            (served.id, torch.full((3,), torch.inf), "reward must be finite"),
        ]:
            with pytest.raises((TypeError, ValueError), match=match):
                log.rewards(ids, reward)
        log.decisions(served)
        wider = SoftUCBHead(nn.Identity(), SoftUCBPolicy(3))
        log.decisions(wider.serve(wider(torch.randn(3, 4, 3))))
        log.commit()
        for seal in (False, True):
            if seal:
                log.seal()
            with pytest.raises(ValueError, match=r"features of one length, got \[2, 3\]"):
                read_log(tmp_path / "log")
    (tmp_path / "bad.pt").write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match="cannot be read"):
        restart(soft, tmp_path / "log", tmp_path / "bad.pt")
