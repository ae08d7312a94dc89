"""The decision log: everything that was served, from the journal and from Parquet."""

import os

import pandas as pd
import pytest
import torch
from torch import nn

from tests.recommend.cases import fill, head, requests
from torch_softucb import LinTS, SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import DecisionLog, JournalError, read_log, restart, save_checkpoint
from torch_softucb.recommend.log import writer


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
    for step, (_, _, items, _) in enumerate(kept):
        logged = journal.candidates[5 * each * step : 5 * each * (step + 1), : items.shape[1]]
        assert logged.equal(items.repeat_interleave(each, dim=0))
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


def test_a_log_has_one_writer(tmp_path):
    with DecisionLog(tmp_path), pytest.raises(JournalError, match="another writer has it open"):
        DecisionLog(tmp_path)
    DecisionLog(tmp_path).close()


def test_files_are_private_and_named_files_are_all_there_is(tmp_path):
    (tmp_path / "00000007.bak").touch()
    (tmp_path / "99999999.x").touch()
    with DecisionLog(tmp_path) as log:
        fill(log, head(), steps=2)
        log.seal()
        fill(log, head_of(5), steps=2)
    names = sorted(path.name for path in tmp_path.iterdir() if path.suffix not in (".bak", ".x"))
    assert names == [
        "00000001.decisions.parquet",
        "00000001.manifest.json",
        "00000001.rewards.parquet",
        "00000002.journal",
        "lock",
        "log.json",
    ]
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in names} == {0o600}
    assert len(read_log(tmp_path).id) == 20


def head_of(replica):
    ours = head()
    ours.reseed(1, replica=replica)
    return ours


def test_a_decision_is_logged_once_also_after_reopening_and_sealing(tmp_path):
    ours = head()
    served = ours.serve(ours(*requests(3, 5)))
    late = ours.serve(ours(*requests(3, 5)))
    log = DecisionLog(tmp_path)
    for state in ("queued", "committed", "reopened", "sealed", "reopened again"):
        if state == "queued":
            log.decisions(served)
        elif state == "committed":
            log.commit()
        elif state == "sealed":
            log.seal()
        else:
            log.close()
            log = DecisionLog(tmp_path)
        with pytest.raises(ValueError, match=r"decision \d+ is logged already; log each decision once"):
            log.decisions(served)
    log.decisions(late)
    with pytest.raises(ValueError, match="is logged already"):
        log.decisions(served._replace(id=torch.tensor([999, 1000, 999])))
    log.close()
    assert read_log(tmp_path).id.tolist() == [*served.id.tolist(), *late.id.tolist()]


def test_a_second_head_with_the_same_ids_is_refused(tmp_path):
    for start in range(2):
        ours = head_of(3)  # a service that starts without restart()
        with DecisionLog(tmp_path) as log:
            served = ours.serve(ours(*requests(2, 5)))
            if start:
                with pytest.raises(ValueError, match="give every head on this log its own replica number"):
                    log.decisions(served)
            else:
                log.decisions(served)


def test_impossible_values_are_refused_and_nothing_is_added(tmp_path):
    ours = head()
    served = ours.serve(ours(*requests(3, 5)))
    nan = torch.tensor([0.5, torch.nan, 0.5])
    with DecisionLog(tmp_path) as log:
        for change, match in [
            ({"propensity": torch.tensor([0.5, 2.25, 0.1])}, r"propensity must be in \(0, 1\], got 2.2"),
            ({"propensity": torch.tensor([0.5, 0.0, 0.1])}, r"propensity must be in \(0, 1\], got 0.0"),
            ({"propensity": nan}, r"propensity must be in \(0, 1\], got nan"),
            ({"propensity": nan[[1, 0, 0]]}, r"propensity must be in \(0, 1\], got nan"),
            ({"arm": torch.tensor([0, 102, 0])}, r"arm must be in \[0, 5\), got 102"),
            ({"arm": torch.tensor([0, -1, 0])}, r"arm must be in \[0, 5\), got -1"),
            ({"x": served.x * torch.inf}, "x must be finite"),
        ]:
            with pytest.raises(ValueError, match=match):
                log.decisions(served._replace(**change))
        for call in (log.drops, lambda ids: log.rewards(ids, torch.ones(3))):
            with pytest.raises(ValueError, match="is not in this log; log the decision first"):
                call(served.id)
        assert log.queued == 0
        log.decisions(served)
        log.rewards(served.id, torch.ones(3))  # queued, not durable yet
        assert log.queued == 6
    assert len(read_log(tmp_path).id) == 3


def test_empty_batches_are_nothing(tmp_path):
    ours = head()
    served = ours.serve(ours(*requests(3, 5)))
    with DecisionLog(tmp_path) as log:
        log.decisions(served)
        log.commit()
        log.rewards(served.id[:0], torch.zeros(0))
        assert log.queued == 0


def test_a_closed_log_refuses_every_call_until_it_is_reopened(tmp_path):
    ours = head()
    log = DecisionLog(tmp_path)
    log.close()
    log.close()
    served = ours.serve(ours(*requests(3, 5)))
    calls = [log.commit, log.seal, lambda: log.decisions(served), lambda: save_checkpoint(tmp_path / "a.pt", ours, log)]
    for call in calls:
        with pytest.raises(JournalError, match="is closed; call reopen"):
            call()
    log.reopen()
    log.decisions(served)
    log.close()
    assert len(read_log(tmp_path).id) == 3


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
            ({"version": -1}, "version must be at least 0"),
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
        wider.reseed(0, replica=9)
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


def test_a_decision_that_was_committed_before_a_crash_is_logged_once(tmp_path):
    ours = head()
    served = ours.serve(ours(*requests(3, 5)))
    log = DecisionLog(tmp_path)
    log.decisions(served)
    log.commit()
    log._files.release()  # the process ends here: the files are closed as they are
    with DecisionLog(tmp_path) as log:
        with pytest.raises(ValueError, match=f"decision {int(served.id[0])} is logged already"):
            log.decisions(served)
        log.rewards(served.id, torch.ones(3))
    assert read_log(tmp_path).reward.tolist() == [1.0, 1.0, 1.0]


def test_another_process_cannot_use_the_log(tmp_path, monkeypatch):
    ours = head()
    first, second = (ours.serve(ours(*requests(3, 5))) for _ in range(2))
    log = DecisionLog(tmp_path)
    log.decisions(first)
    calls = {
        "decisions": lambda: log.decisions(second),
        "rewards": lambda: log.rewards(first.id, torch.ones(3)),
        "drops": lambda: log.drops(first.id),
        **{name: getattr(log, name) for name in ("commit", "seal", "reopen", "close")},
    }
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    for name, call in calls.items():
        with pytest.raises(JournalError, match=rf"DecisionLog\.{name}: the log .* was opened by process {pid}, and this is"):
            call()
    monkeypatch.undo()
    assert log.queued == 3
    log.close()
    assert read_log(tmp_path).id.tolist() == first.id.tolist()


def test_a_reopening_that_fails_leaves_the_log_closed_and_free(tmp_path, monkeypatch):
    log = DecisionLog(tmp_path)
    log.close()

    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(writer, "log_records", fails)
    with pytest.raises(MemoryError) as error:
        log.reopen()
    monkeypatch.undo()
    with pytest.raises(JournalError, match="is closed; call reopen"):
        log.commit()
    log.reopen()  # though the error and its traceback still exist
    log.close()
    assert error.traceback


def test_a_queued_decision_is_queued_once_after_reopening(tmp_path, monkeypatch):
    ours = head()
    served = ours.serve(ours(*requests(1, 5)))
    log = DecisionLog(tmp_path)
    log.decisions(served)

    def fails(*_):
        raise OSError(28, "no space")

    monkeypatch.setattr(os, "pwrite", fails)
    with pytest.raises(OSError, match="no space"):
        log.commit()
    monkeypatch.undo()
    log.reopen()
    assert log.queued == 1
    with pytest.raises(ValueError, match="is logged already"):
        log.decisions(served)
    log.close()
    assert read_log(tmp_path).id.tolist() == served.id.tolist()


def test_a_full_group_is_committed_by_itself(tmp_path):
    ours = head()
    with DecisionLog(tmp_path / "new" / "folder", group=5) as log:
        served = ours.serve(ours(*requests(3, 5)))
        log.decisions(served)
        assert log.queued == 3
        log.rewards(served.id[:1], torch.ones(1))
        assert log.queued == 4
        log.rewards(served.id[1:], torch.ones(2))
        assert log.queued == 0
        log.decisions(ours.serve(ours(*requests(3, 5))))
        assert log.queued == 3


def test_candidates_are_logged_only_with_features_or_if_given(tmp_path):
    ours = head()
    decision = ours(*requests(3, 5))
    for name, given, want in [("none", {}, []), ("features", {"features": decision.features}, [0, 1, 2, 3, 4])]:
        with DecisionLog(tmp_path / name) as log:
            log.decisions(ours.serve(decision), **given)
        assert read_log(tmp_path / name).candidates.tolist() == [want] * 3
