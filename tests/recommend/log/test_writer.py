"""The journal and the decision log: whole records or none, the same tensors from journal and Parquet."""

import struct

import pandas as pd
import pytest
import torch
from torch import nn

from tests.recommend.cases import head, requests
from torch_softucb import LinTS, SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import (
    DecisionLog,
    JournalError,
    OnlineBeta,
    Place,
    log_records,
    read_log,
    restart,
    save_checkpoint,
)
from torch_softucb.recommend.log.journal import Journal, records

D = torch.double


def _written(path, count=100, group=8):
    with Journal(path) as journal:
        sizes = [journal.size]
        for i in range(count):
            journal.append(struct.pack("<q", i) * (i % 7 + 1))
            if i % group == group - 1:
                journal.commit()
                sizes.append(journal.size)
    return sizes


def test_records_come_back_in_order(tmp_path):
    _written(tmp_path / "a.journal")
    got = [struct.unpack_from("<q", record)[0] for record in records(tmp_path / "a.journal")]
    assert got == list(range(100))


def test_a_file_cut_anywhere_keeps_every_committed_group(tmp_path):
    path = tmp_path / "a.journal"
    sizes = _written(path)
    data = path.read_bytes()
    for cut in range(0, len(data), 3):
        path.write_bytes(data[:cut])
        whole = sum(size <= cut for size in sizes[1:])
        got = [struct.unpack_from("<q", record)[0] for record in records(path)]
        assert got[: 8 * whole] == list(range(8 * whole))
        assert len(got) == min(100, 8 * whole) or cut == len(data)


def test_a_torn_end_is_kept_aside_and_writing_goes_on(tmp_path):
    path = tmp_path / "a.journal"
    sizes = _written(path, count=16)
    data = bytearray(path.read_bytes())
    data[sizes[1] + 20] ^= 1  # in the last group
    path.write_bytes(bytes(data))
    with Journal(path) as journal:
        journal.append(b"after")
    assert [*records(path)][-1] == b"after"
    assert len([*records(path)]) == 9
    assert path.with_suffix(".torn").read_bytes() == bytes(data[sizes[1] :]).rstrip(b"\0")


def test_damage_in_the_middle_is_no_torn_end(tmp_path):
    path = tmp_path / "a.journal"
    sizes = _written(path)
    data = bytearray(path.read_bytes())
    data[sizes[2] + 20] ^= 1
    path.write_bytes(bytes(data))
    for read in (lambda: [*records(path)], lambda: Journal(path)):
        with pytest.raises(JournalError, match=f"the records at byte {sizes[2]} are damaged though whole ones follow"):
            read()
    path.write_bytes(b"something else")
    with pytest.raises(JournalError, match="does not begin as a journal does"):
        Journal(path)


def _fill(log, ours, steps=6, k=None, features=True, seed=0):
    """Serve, log and answer every second decision."""
    users = bool(ours.policy.batch_shape)
    kept = []
    for step in range(steps):
        user, items = requests(5, 4 + step % 2, seed=seed + step)
        decision = ours(user, items, bandit=user if users else None)
        served = ours.serve(decision, k=k)
        log.decisions(served, version=step, context=user, candidates=items, features=decision.features if features else None)
        ids = served.id.reshape(-1)[::2]
        reward = torch.randn(len(ids), dtype=D, generator=torch.Generator().manual_seed(seed + step))
        ours.feedback(ids, reward)
        log.rewards(ids, reward)
        kept.append((served, user, items, reward))
    return kept


@pytest.mark.parametrize("k", [None, 3])
@pytest.mark.parametrize("users", [None, 20])
def test_the_log_is_what_was_served(k, users, tmp_path):
    ours = head(users=users)
    with DecisionLog(tmp_path) as log:
        kept = _fill(log, ours, k=k)
        journal = None
        log.commit()
        journal = read_log(tmp_path)
        log.seal()
        again = _fill(log, ours, steps=2, k=k, seed=50)
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
        _fill(log, ours, steps=20)
        assert log.place.segment > 3
        log.seal()
        log.seal()
    got = read_log(tmp_path)
    assert got.id.tolist() == list(range(100))
    assert not [*tmp_path.glob("*.tmp")]
    with DecisionLog(tmp_path) as log:  # opens behind what is sealed
        _fill(log, ours, steps=1)
    assert len(read_log(tmp_path).id) == 105


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.97])
def test_restart_is_the_run_that_was_not_interrupted(sealed, discount, tmp_path):
    ours = head(users=20, discount=discount)
    with DecisionLog(tmp_path / "log") as log:
        _fill(log, ours, steps=4)
        save_checkpoint(tmp_path / "head.pt", ours, log)
        _fill(log, ours, steps=5, seed=20)
        if sealed:
            log.seal()
        _fill(log, ours, steps=2, seed=40)
    again, whole = head(users=20, discount=discount), head(users=20, discount=discount)
    assert restart(again, tmp_path / "log", tmp_path / "head.pt") == 14
    assert restart(whole, tmp_path / "log") == 22
    for other in (again, whole):
        for name, value in ours.state_dict().items():
            torch.testing.assert_close(other.state_dict()[name], value, atol=1e-12, rtol=0)
    user, items = requests(9, 5)
    assert ours.serve(ours(user, items, bandit=user)).arm.equal(again.serve(again(user, items, bandit=user)).arm)


def test_a_checkpoint_and_a_log_that_overlap_count_nothing_twice(tmp_path):
    """Rewards taken in before the checkpoint but logged after it, decisions likewise, and a restart on top of a restart."""
    ours = head()
    with DecisionLog(tmp_path / "log") as log:
        served = ours.serve(ours(*requests(4, 5)))
        ours.feedback(served.id[:2], torch.ones(2, dtype=D))
        save_checkpoint(tmp_path / "head.pt", ours, log)
        log.decisions(served)
        log.rewards(served.id[:2], torch.ones(2, dtype=D))
        ours.drop(served.id[2:3])
        log.drops(served.id[2:3])
    again = head()
    for _ in range(2):
        restart(again, tmp_path / "log", tmp_path / "head.pt")
        restart(again, tmp_path / "log")
        assert again.policy.state.num_observations == 2
        assert again.open_decisions.tolist() == served.id[3:].tolist()
    with pytest.raises(ValueError, match="holds no decision log"):
        restart(head(), tmp_path / "nothing")
    with DecisionLog(tmp_path / "other", segment_bytes=1, group=1) as other:
        _fill(other, head(), steps=2)
        save_checkpoint(tmp_path / "ahead.pt", ours, other)
    with pytest.raises(ValueError, match="the checkpoint is ahead of the log"):
        restart(head(), tmp_path / "log", tmp_path / "ahead.pt")


def test_betas_and_learners_come_back(tmp_path):
    policy = SoftUCBPolicy(4, beta_init=torch.tensor([0.1, 0.2, 0.3], dtype=D), dtype=D)
    ours = SoftUCBHead(nn.Identity(), policy)
    policy.reset(batch_shape=(3,))
    with DecisionLog(tmp_path / "log") as log:
        log.decisions(ours.serve(ours(torch.randn(2, 5, 4, dtype=D), bandit=torch.tensor([2, 0]))))
    fresh = SoftUCBPolicy(4, beta_init=torch.ones(3, dtype=D), dtype=D)
    fresh.reset(batch_shape=(3,))
    again = SoftUCBHead(nn.Identity(), fresh)
    restart(again, tmp_path / "log")
    assert fresh.beta.tolist() == [0.1, 1.0, 0.3]
    one = head()
    learner, other = OnlineBeta(one.policy, horizon=50), OnlineBeta(head().policy, horizon=50)
    with DecisionLog(tmp_path / "log2") as log:
        learner.step(one(*requests(4, 5)))
        save_checkpoint(tmp_path / "head.pt", one, log, learner)
    restart(head(), tmp_path / "log2", tmp_path / "head.pt", other)
    assert other.decisions == 4
    assert other.past == learner.past


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
    with pytest.raises(JournalError, match="a write to it has failed; open it anew"):
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


@pytest.mark.parametrize("size", [4, 8, 700])
def test_zeroed_places_are_no_torn_end(size, tmp_path):
    path = tmp_path / "a.journal"
    sizes = _written(path, count=200)
    data = bytearray(path.read_bytes())
    data[sizes[3] : sizes[3] + size] = bytes(size)
    path.write_bytes(bytes(data))
    with pytest.raises(JournalError, match=f"the records at byte {sizes[3]} are damaged"):
        list(records(path))


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


def test_records_after_a_place(tmp_path):
    with DecisionLog(tmp_path) as log:
        _fill(log, head(), steps=3)
    assert [kind for kind, _ in log_records(tmp_path, Place(1, 3))] == ["rewards", "decisions", "rewards"]


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
