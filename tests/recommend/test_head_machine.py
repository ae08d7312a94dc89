"""A head and its log under random use and crashes, against dictionaries, lists and numpy's ridge regression.

A crash is a copy of the folder: what the process had in memory is not in it, and its last write may be torn. The process
that crashed keeps its own folder, so that this works whatever locks it holds.
"""

import copy
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.recommend.cases import head, requests
from tests.strategies import SEEDS, Numbers
from torch_softucb.recommend import DecisionLog, read_log, restart, save_checkpoint

USERS, DIM = 4, 4
COUNTS = st.integers(1, 4)


class Model:
    """What a head must know: plain Python, one observation at a time."""

    def __init__(self):
        self.V = [np.eye(DIM) for _ in range(USERS)]
        self.b = [np.zeros(DIM) for _ in range(USERS)]
        self.n = [0] * USERS
        self.decisions = {}  # id -> (features, bandit)
        self.open = set()

    def apply(self, record):
        kind, rows = record
        for row in rows:
            if kind == "decision":
                decision, x, bandit = row
                self.decisions[decision] = (x, bandit)
                self.open.add(decision)
                continue
            decision, reward = row
            self.open.discard(decision)
            if kind == "reward":
                x, bandit = self.decisions[decision]
                self.V[bandit] = self.V[bandit] + np.outer(x, x)
                self.b[bandit] = self.b[bandit] + reward * x
                self.n[bandit] += 1


class HeadAndLog(RuleBasedStateMachine):
    """Serve, answer, drop, commit, seal, checkpoint, crash and restart in any order."""

    @initialize(seed=SEEDS)
    def begin(self, seed):
        self.numbers, self.model, self.durable, self.queue = Numbers(seed), Model(), [], []
        self.lost, self.checkpoint, self.crashed = set(), None, []
        self.root = Path(tempfile.mkdtemp())
        self.head, self.log = head(users=USERS), DecisionLog(self.root / "0" / "log", group=10**6)

    def _record(self, kind, rows):
        self.model.apply((kind, rows))
        self.queue.append((kind, rows))

    def _committed(self):
        self.durable, self.queue = self.durable + self.queue, []

    def _some(self, ids, most):
        ids = sorted(ids)
        return [ids[i] for i in self.numbers.permutation(len(ids)).tolist()[:most]]

    @rule(count=COUNTS, k=st.none() | st.integers(1, 3), masked=st.booleans(), seed=SEEDS)
    def serve(self, count, k, masked, seed):
        user, items = requests(count, 5, seed=seed % 10**6)
        mask = None
        if masked:
            mask = self.numbers.mask(count, 5) | (torch.arange(5) < 3)  # a slate of three must fit
        with torch.no_grad():
            decision = self.head(user, items, mask=mask, bandit=user % USERS)
            served = self.head.serve(decision, k=k)
        self.log.decisions(served, candidates=items)
        wide = k or 1
        ids, arms = served.id.reshape(count, wide), served.arm.reshape(count, wide)
        assert not set(ids.flatten().tolist()) & set(self.model.decisions)
        for row in range(count):
            assert len(set(arms[row].tolist())) == wide
            assert mask is None or mask[row, arms[row]].all()
        first = decision.probs.gather(-1, arms[:, :1])
        torch.testing.assert_close(served.propensity.reshape(count, wide)[:, :1], first, atol=1e-9, rtol=0)
        x = served.x.reshape(-1, DIM).numpy()
        owner = (user % USERS).repeat_interleave(wide).tolist()
        self.lost -= set(ids.flatten().tolist())  # a decision that nobody saw may give its id to another
        self._record("decision", list(zip(ids.flatten().tolist(), x, owner, strict=True)))

    @precondition(lambda self: self.model.open)
    @rule(count=COUNTS)
    def feedback(self, count):
        ids = self._some(self.model.open, count)
        reward = self.numbers.normal(len(ids))
        assert self.head.feedback(torch.tensor(ids), reward) == len(ids)
        self.log.rewards(torch.tensor(ids), reward)
        self._record("reward", list(zip(ids, reward.tolist(), strict=True)))

    @precondition(lambda self: set(self.model.decisions) - self.model.open)
    @rule(count=COUNTS)
    def feedback_again(self, count):
        """Refused with all that came with it, or ignored without it."""
        closed = self._some(set(self.model.decisions) - self.model.open, count)
        fresh = self._some(self.model.open, 1)
        ids = torch.tensor(fresh + closed)
        with pytest.raises(ValueError, match="feedback"):
            self.head.feedback(ids, torch.ones(len(ids), dtype=torch.double))
        assert self.head.feedback(ids[len(fresh) :], torch.ones(len(closed), dtype=torch.double), on_repeat="ignore") == 0

    @rule()
    def feedback_on_what_was_never_shown(self):
        """A decision that a crash took, or an id that nobody issued."""
        unknown = self._some(self.lost, 1) or [2**61 + 5]
        with pytest.raises(ValueError, match="feedback"):
            self.head.feedback(torch.tensor(unknown), torch.ones(1, dtype=torch.double), on_repeat="ignore")

    @precondition(lambda self: self.model.open)
    @rule(count=COUNTS)
    def drop(self, count):
        ids = self._some(self.model.open, count)
        self.head.drop(torch.tensor(ids))
        self.log.drops(torch.tensor(ids))
        self._record("drop", [(decision, None) for decision in ids])

    @rule()
    def commit(self):
        self.log.commit()
        self._committed()

    @rule()
    def seal(self):
        self.log.seal()
        self._committed()

    @rule()
    def save(self):
        self.checkpoint = self.log.folder.parent / "head.pt"
        save_checkpoint(self.checkpoint, self.head, self.log)
        self._committed()

    @rule(use_checkpoint=st.booleans(), torn=st.floats(0, 1), tear=st.booleans())
    def crash_and_restart(self, use_checkpoint, torn, tear):
        here, there = self.log.folder.parent, self.root / str(len(self.crashed) + 1)
        shutil.copytree(here, there)
        if tear and self.queue:
            _tear(self.log, there / "log", torn)
        self.crashed.append(self.log)
        self.queue = []
        known = set(self.model.decisions)
        self.model = Model()
        for record in self.durable:
            self.model.apply(record)
        self.lost |= known - set(self.model.decisions)
        self.head = head(users=USERS)
        if self.checkpoint is not None:
            self.checkpoint = there / "head.pt"
        restart(self.head, there / "log", self.checkpoint if use_checkpoint else None)
        self.log = DecisionLog(there / "log", group=10**6)

    @rule()
    def copy_the_head(self):
        self.head = copy.deepcopy(self.head)

    @rule()
    def read(self):
        """The log holds what was committed, each decision once, with its reward."""
        rewards = {row[0]: row[1] for kind, rows in self.durable if kind == "reward" for row in rows}
        want = {row[0]: row[1:] for kind, rows in self.durable if kind == "decision" for row in rows}
        if not want:
            return
        log = read_log(self.log.folder)
        assert log.id.tolist() == list(want)
        for decision, x, bandit, reward in zip(log.id.tolist(), log.x.numpy(), log.bandit, log.reward, strict=True):
            assert np.array_equal(x, want[decision][0])
            assert bandit == want[decision][1]
            assert reward.isnan() if decision not in rewards else reward.item() == rewards[decision]

    @invariant()
    def the_head_is_the_model(self):
        if not hasattr(self, "head"):
            return
        state = self.head.policy.state
        np.testing.assert_allclose(state.V, self.model.V, atol=1e-9)
        np.testing.assert_allclose(state.b, self.model.b, atol=1e-9)
        assert state.num_observations.tolist() == self.model.n
        assert self.head.open_decisions.tolist() == sorted(self.model.open)
        assert (self.head.policy.cache_error() < 1e-9).all()

    def teardown(self):
        if hasattr(self, "root"):
            for log in (*self.crashed, self.log):
                log.close()
            shutil.rmtree(self.root)


def _tear(log, image, share):
    """Let the crash hit during a commit: the last journal of the image gets a part of what the commit writes."""
    names = sorted(path.name for path in log.folder.iterdir())
    log.commit()  # in the folder of the process that crashes, not in the image
    if sorted(path.name for path in log.folder.iterdir()) != names:
        return
    journal = max(path.name for path in log.folder.glob("*.journal"))
    before, after = (image / journal).read_bytes(), (log.folder / journal).read_bytes()
    changed = [i for i in range(len(after)) if i >= len(before) or before[i] != after[i]]
    cut = changed[int(share * (len(changed) - 1))]  # the last changed byte is never there: the commit is not whole
    (image / journal).write_bytes(after[:cut] + before[cut:])


_LONG = settings.default.max_examples > 100
TestHeadAndLog = pytest.mark.slow(HeadAndLog.TestCase)
TestHeadAndLog.settings = settings(max_examples=200 if _LONG else 20, stateful_step_count=50 if _LONG else 20)
