"""A restart is the run that was not interrupted."""

import pytest
import torch
from torch import nn

from tests.recommend.cases import fill, head, requests, same_state, state_of
from torch_softucb import EpsilonGreedy, SegmentBeta, SoftUCBHead, SoftUCBPolicy
from torch_softucb.checked_files import save_checked
from torch_softucb.recommend import DecisionLog, OnlineBeta, read_log, restart, save_checkpoint

D = torch.double


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.97])
def test_restart_is_the_run_that_was_not_interrupted(sealed, discount, tmp_path):
    ours = head(users=20, discount=discount)
    with DecisionLog(tmp_path / "log") as log:
        fill(log, ours, steps=4)
        save_checkpoint(tmp_path / "head.pt", ours, log)
        fill(log, ours, steps=5, seed=20)
        if sealed:
            log.seal()
        fill(log, ours, steps=2, seed=40)
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


def test_a_checkpoint_of_another_log_or_beyond_the_log_is_refused_and_changes_nothing(tmp_path):
    ours = head()
    with DecisionLog(tmp_path / "log") as log:
        fill(log, ours, steps=3)
        save_checkpoint(tmp_path / "head.pt", ours, log)
    (tmp_path / "log").rename(tmp_path / "archived")
    with DecisionLog(tmp_path / "log") as log:
        fill(log, head(), steps=4)
    fresh = head()
    before = state_of(fresh)
    with pytest.raises(ValueError, match=r"do not belong together: the checkpoint is of log [0-9a-f]{32}, and this is log"):
        restart(fresh, tmp_path / "log", tmp_path / "head.pt")
    saved = torch.load(tmp_path / "head.pt", weights_only=True)
    for change, match in [
        ({"record": 10**9}, "whose segment 1 has 6 records"),
        ({"record": 7}, "whose segment 1 has 6 records"),
        ({"record": -1}, "must not be negative"),
        ({"segment": 2}, "the checkpoint is ahead of the log"),
        ({"segment": "one"}, "cannot be read"),
        ({"head": 3}, "cannot be read"),
    ]:
        save_checked(tmp_path / "bad.pt", saved | change)
        with pytest.raises(ValueError, match=match):
            restart(fresh, tmp_path / "archived", tmp_path / "bad.pt")
        assert same_state(before, state_of(fresh))
    assert restart(fresh, tmp_path / "archived", tmp_path / "head.pt") == 0
    assert same_state(state_of(ours), state_of(fresh))


def test_a_restart_that_fails_midway_leaves_head_and_learner_as_they_were(tmp_path, monkeypatch):
    ours = head()
    with DecisionLog(tmp_path / "log") as log:
        fill(log, ours, steps=2)
        save_checkpoint(tmp_path / "head.pt", ours, log, OnlineBeta(ours.policy, horizon=50))
        fill(log, ours, steps=3, seed=9)
    fresh = head()
    fill_log = tmp_path / "own"
    with DecisionLog(fill_log) as log:
        fill(log, fresh, steps=1, seed=77)
    learner = OnlineBeta(fresh.policy, horizon=50)
    learner.step(fresh(*requests(4, 5)))
    before, past = state_of(fresh), learner.state_dict()
    calls, real = [], type(fresh).feedback

    def fails(self, *arguments, **settings):
        calls.append(1)
        if len(calls) == 2:
            raise MemoryError
        return real(self, *arguments, **settings)

    monkeypatch.setattr(type(fresh), "feedback", fails)
    with pytest.raises(MemoryError):
        restart(fresh, tmp_path / "log", tmp_path / "head.pt", learner)
    assert same_state(before, state_of(fresh))
    assert str(learner.state_dict()) == str(past)


def test_decisions_that_threads_logged_out_of_order_are_all_opened_again(tmp_path):
    ours = head()
    served = [ours.serve(ours(*requests(3, 5, seed=seed))) for seed in range(3)]
    with DecisionLog(tmp_path, group=1) as log:
        for each in (served[2], served[0], served[1]):
            log.decisions(each)
    again = head()
    restart(again, tmp_path)
    assert sorted(again.open_decisions.tolist()) == sorted(torch.cat([each.id for each in served]).tolist())
    assert not set(again.serve(again(*requests(3, 5))).id.tolist()) & set(again.open_decisions.tolist()[:9])


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


def _heads(name):
    if name == "pretrained":
        return [head(SoftUCBPolicy.pretrained(4, horizon=200, dtype=D), users=20) for _ in range(2)]
    return [
        head(SoftUCBPolicy(4, beta_init=SegmentBeta(torch.arange(20) % 3, init=0.5), dtype=D), users=20) for _ in range(2)
    ]


@pytest.mark.parametrize("name", ["pretrained", "segments"])
def test_served_logged_and_restarted(name, tmp_path):
    ours, again = _heads(name)
    g = torch.Generator().manual_seed(1)
    with DecisionLog(tmp_path) as log:
        for drift_rate in range(6):
            user, items = requests(8, 5, seed=drift_rate)
            with torch.no_grad():
                served = ours.serve(ours(user, items, bandit=user))
            log.decisions(served, candidates=items)
            reward = torch.randn(8, generator=g, dtype=D)
            ours.feedback(served.id, reward)
            log.rewards(served.id, reward)
    assert read_log(tmp_path).beta.isfinite().all()
    assert restart(again, tmp_path) > 0
    torch.testing.assert_close(again.policy.statistics, ours.policy.statistics, atol=1e-9, rtol=0)
    user, items = requests(8, 5, seed=99)
    with torch.no_grad():
        new, old = (each(user, items, bandit=user) for each in (again, ours))
    torch.testing.assert_close(new.probs, old.probs, atol=1e-9, rtol=0)
    if name == "pretrained":
        assert len(new.beta.unique()) > 1  # users whose rewards differ


def test_decisions_are_opened_again_once():
    ours, served = head(users=20), head(users=20)
    user, items = requests(4, 5)
    shown = served.serve(served(user, items, bandit=user))
    new = ours.restore_open(shown.id, shown.x, user)
    assert new.tolist() == [True] * 4
    assert ours.is_open(torch.tensor([0, 3, 4])).tolist() == [True, True, False]
    ours.drop(shown.id[:1])
    assert ours.restore_open(shown.id, shown.x, user).tolist() == [False] * 4  # dropped, not opened again
    assert ours.open_decisions.tolist() == [1, 2, 3]
    ours.feedback(shown.id[1:], torch.ones(3, dtype=D))
    served.drop(shown.id[:1])
    served.feedback(shown.id[1:], torch.ones(3, dtype=D))
    assert same_state(state_of(ours), state_of(served))


def test_a_log_of_a_policy_without_beta_leaves_beta_alone(tmp_path):
    greedy, ours = head(EpsilonGreedy(4, dtype=D)), head(SoftUCBPolicy(4, beta_init=0.7, dtype=D))
    with DecisionLog(tmp_path) as log:
        fill(log, greedy, steps=2)
    restart(ours, tmp_path)
    assert ours.policy.beta == 0.7
