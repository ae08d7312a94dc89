"""Delays of logged rewards: those of a literal count, unbiased though the log ends, and those that a head met."""

import pytest
import torch

from torch_softucb import SoftUCBPolicy
from torch_softucb.from_logs import logged_delays
from torch_softucb.recommend import DecisionLog, SoftUCBHead

D = torch.float64
DELAY = torch.tensor([0.5, 0.2, 0.0, 0.2], dtype=D)  # a tenth never arrives


def write(folder, rounds, users, generator, *, slate=1, delay=DELAY):
    """Write the log of a head whose rewards arrive with the given delays, counted in rounds of the user."""
    policy = SoftUCBPolicy(2, dtype=D)
    policy.reset(batch_shape=(users,))
    head = SoftUCBHead(torch.nn.Identity(), policy)
    due, played, mean = {}, [0] * users, {}
    chances = torch.cat((delay, (1 - delay.sum()).clamp(min=0).reshape(1)))
    with DecisionLog(folder) as log:
        for _ in range(rounds):
            chosen = torch.randperm(users, generator=generator)[: 1 + users // 2]
            served = head.serve(head(torch.randn(len(chosen), 5, 2, dtype=D, generator=generator), bandit=chosen), k=slate)
            log.decisions(served)
            mean |= dict(zip(served.id.reshape(-1).tolist(), served.x.sum(-1).reshape(-1).tolist(), strict=True))
            for user, ids in zip(chosen.tolist(), served.id.reshape(len(chosen), -1), strict=True):
                for decision in ids.tolist():
                    late = int(torch.multinomial(chances, 1, generator=generator))
                    if late < len(delay):
                        due.setdefault((user, played[user] + late), []).append(decision)
                arrived = torch.tensor(due.pop((user, played[user]), []), dtype=torch.int64)
                if len(arrived):
                    reward = torch.tensor([mean[decision] for decision in arrived.tolist()], dtype=D)
                    reward = reward + torch.randn(len(arrived), dtype=D, generator=generator)
                    head.feedback(arrived, reward)
                    log.rewards(arrived, reward)
                played[user] += 1


@pytest.mark.parametrize("slate", [1, 2])
def test_recovers_the_delays(slate, tmp_path, seeded):
    write(tmp_path, 1500, 3, seeded(slate), slate=slate)
    found = logged_delays(tmp_path)
    assert len(found) == len(DELAY)
    torch.testing.assert_close(found, DELAY, rtol=0, atol=0.03)


def test_the_end_of_a_log_is_no_bias(tmp_path, seeded):
    """Bandits with 8 rounds: of the rewards that are 4 rounds late a half is missing, and counting would lose it."""
    g, found = seeded(0), []
    late = torch.tensor([0.5, 0, 0, 0, 0.5], dtype=D)
    write(tmp_path, 8, 1200, g, delay=late)
    found = logged_delays(tmp_path)
    torch.testing.assert_close(found, late, rtol=0, atol=0.05)


def _log(folder, events):
    """Write a log of one user from decisions, ``d``, and rewards of the n-th decision, ``n``."""
    policy = SoftUCBPolicy(1, dtype=D)
    head = SoftUCBHead(torch.nn.Identity(), policy)
    ids = []
    with DecisionLog(folder) as log:
        for event in events:
            if event == "d":
                served = head.serve(head(torch.ones(2, 1, dtype=D)))
                log.decisions(served)
                ids.append(served.id.reshape(-1))
            else:
                log.rewards(ids[int(event)], torch.ones(1, dtype=D))
    return folder


def test_counts_by_hand(tmp_path):
    """Delays 0, 1, and one that is open after two rounds; the last two decisions show less than two rounds."""
    found = logged_delays(_log(tmp_path / "a", ["d", "0", "d", "d", "1", "d", "d"]))
    # 0 rounds: 4 decisions are followed by one, of which 1 arrives; 1 round: decisions 1 and 2 are, of which 1 arrives
    torch.testing.assert_close(found, torch.tensor([0.25, 0.375], dtype=D))
    found = logged_delays(_log(tmp_path / "b", ["d", "0", "d", "d", "1", "d", "d"]), longest=0)
    torch.testing.assert_close(found, torch.tensor([0.625], dtype=D))
    twice = logged_delays(_log(tmp_path / "c", ["d", "0", "d", "0", "d"]))  # the first reward counts
    torch.testing.assert_close(twice, torch.tensor([0.5], dtype=D))


def test_users_are_counted_separately(tmp_path, seeded):
    write(tmp_path, 300, 4, seeded(0), delay=torch.tensor([0.0, 1.0], dtype=D))
    torch.testing.assert_close(logged_delays(tmp_path), torch.tensor([0.0, 1.0], dtype=D))
    assert len(logged_delays(tmp_path, per_user=False)) > 2


def test_what_cannot_be_known_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"logged_delays: no decision in .*; give the folder of a DecisionLog"):
        logged_delays(tmp_path)
    with pytest.raises(ValueError, match="arrived before a later decision of the same bandit, so delays are not known"):
        logged_delays(_log(tmp_path / "open", ["d", "d", "0", "1"]))
    with pytest.raises(ValueError, match="longest must be at most 4096, got 5000"):
        logged_delays(tmp_path, longest=5000)
