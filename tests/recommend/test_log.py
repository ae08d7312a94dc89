"""The journal and the decision log: whole records or none, the same tensors from journal and Parquet."""

import struct

import pandas as pd
import pytest
import torch
from torch import nn

from tests.recommend.cases import head, requests
from torch_softucb import LinTS, SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import DecisionLog, JournalError, Place, log_records, read_log, restart, save_checkpoint
from torch_softucb.recommend.journal import Journal, records

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
        log.rewards(ids, reward)
        ours.feedback(ids, reward)
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
        with pytest.raises(ValueError, match=r"features must have shape \(K, d\) or \(N, K, d\)"):
            log.decisions(served, features=torch.zeros(2, 4, 2))
        with pytest.raises(ValueError, match="no decision in"):
            read_log(tmp_path / "log")
        log.decisions(served)
        wider = SoftUCBHead(nn.Identity(), SoftUCBPolicy(3))
        log.decisions(wider.serve(wider(torch.randn(3, 4, 3))))
        log.commit()
        with pytest.raises(ValueError, match=r"features of one length, got \[2, 3\]"):
            read_log(tmp_path / "log")
    (tmp_path / "bad.pt").write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match="cannot be read"):
        restart(soft, tmp_path / "log", tmp_path / "bad.pt")
