"""A call of a head or its learner changes everything or nothing, wherever it is interrupted."""

import copy

import pytest
import torch

from tests.interruptions import failing_operation, interrupted_bytecode
from tests.recommend.cases import head, requests, state_of
from torch_softucb import SoftUCBPolicy
from torch_softucb.recommend import OnlineBeta, Replay

D = torch.double
USER, ITEMS = requests(3, 4)
LATER, OTHERS = requests(2, 5, seed=1)


class _World:
    """A head with open decisions and a learner, and what is needed for another call."""

    def __init__(self, users):
        policy = SoftUCBPolicy(4, beta_init=0.4, coldness="smooth", dtype=D)
        self.head = head(policy, users=users, normalise=True, discount=0.9 if users else 1.0)
        self.learner = OnlineBeta(policy, horizon=50, eta="auto")
        self.users = users
        self.head.feedback(self.serve(USER, ITEMS).id, torch.tensor([1.0, 0.0, 0.5], dtype=D))
        self.open = self.serve(LATER, OTHERS)
        self.decision = self.decide(USER, ITEMS)

    def decide(self, user, items):
        with torch.no_grad():
            return self.head(user, items, bandit=user if self.users else None)

    def serve(self, user, items):
        return self.head.serve(self.decide(user, items))

    def state(self):
        both = {**state_of(self.head), **{f"learner.{k}": v for k, v in state_of(self.learner).items()}}
        return {name: value.numpy().tobytes() for name, value in both.items()}


def _calibrate(world):
    world.head.calibrate([(USER, ITEMS), (LATER, OTHERS)])


def _refit(world):
    bandit = LATER if world.users else None
    world.head.refit([Replay((LATER, OTHERS), torch.tensor([1, 2]), torch.ones(2, dtype=D), bandit)] * 2)


def _load(world, *, strict=True):
    other = head(world.head.policy.with_beta(0.7), normalise=True, replica=3)
    user, items = requests(5, 4, seed=7)
    other.serve(other(user, items, bandit=user if world.users else None))
    state = other.state_dict()
    return lambda: world.head.load_state_dict(state if strict else {k: state[k] for k in state if "enc" not in k}, strict)


def _load_learner(world):
    other = OnlineBeta(SoftUCBPolicy(4, beta_init=0.4, coldness="smooth", dtype=D), horizon=50, eta="auto")
    other.step(world.decision)
    state = other.state_dict()
    return lambda: world.learner.load_state_dict(state)


CALLS = {
    "serve": lambda w: lambda: w.head.serve(w.decision),
    "serve that grows": lambda w: lambda: w.head.serve(w.decide(*requests(80, 4))),
    "slate": lambda w: lambda: w.head.serve(w.decision, k=2),
    "feedback": lambda w: lambda: w.head.feedback(w.open.id, torch.ones(2, dtype=D)),
    "feedback of one": lambda w: lambda: w.head.feedback(w.open.id[:1], torch.ones(1, dtype=D)),
    "drop": lambda w: lambda: w.head.drop(w.open.id),
    "reseed": lambda w: lambda: w.head.reseed(5, replica=9),
    "restore_open": lambda w: lambda: w.head.restore_open(w.open.id + (7 << 34), w.open.x, LATER),
    "calibrate": lambda w: w.head.drop(w.head.open_decisions) or (lambda: _calibrate(w)),
    "refit": lambda w: lambda: _refit(w),
    "step": lambda w: lambda: w.learner.step(w.decision),
    "observe": lambda w: lambda: w.learner.observe(w.open.x, torch.ones(2, dtype=D), bandit=LATER if w.users else None),
    "load": _load,
    "load in part": lambda w: _load(w, strict=False),
    "load learner": _load_learner,
    "update": lambda w: lambda: w.head.policy.update(w.open.x, torch.ones(2, dtype=D), bandit=LATER if w.users else None),
    "reset": lambda w: lambda: w.head.policy.reset(batch_shape=tuple(w.head.policy.batch_shape)),
    "refresh": lambda w: lambda: w.head.policy.refresh(),
}


@pytest.mark.parametrize("users", [None, 20])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_in_which_any_operation_fails_changes_nothing(name, users):
    world = _World(users)
    call, position = CALLS[name](world), 0
    before = world.state()
    while failing_operation(position, call):
        assert world.state() == before, position
        position += 1
    assert position > 0 or name == "drop"
    if name != "refresh":
        assert world.state() != before


@pytest.mark.parametrize("every", [17, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("users", [None, 20])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_interrupted_at_any_bytecode_changes_everything_or_nothing(name, users, every):
    """Then the same call is made again: it works, or reports that it took effect before; nothing counts twice."""
    world = _World(users)
    call = CALLS[name](world)
    start, before = copy.deepcopy(world), world.state()
    call()
    after, changed, position, unchanged = world.state(), 0, users or 0, 0
    while True:
        world = copy.deepcopy(start)
        call = CALLS[name](world)
        where = interrupted_bytecode(position, call)
        if where is None:
            break
        got = world.state()
        assert got in (before, after), f"{position} at {where}: {[n for n in got if got[n] not in (before[n], after[n])]}"
        assert world.head.guard._change is None
        changed, unchanged = changed + (got == after), unchanged + (got == before)
        if got == before:
            call()
            assert world.state() == after, where
        position += every
    print(f"{position} bytecodes, {unchanged} left nothing, {changed} everything")
    assert unchanged > 2


def test_a_change_interrupted_twice_is_undone_by_the_next_call():
    world = _World(None)
    guard, before = world.head.guard, world.state()
    write, undo = world.head.pending.closing(world.open.id.tolist())
    attempts = []

    def interrupted_write():
        write()
        raise TimeoutError

    def interrupted_undo():
        attempts.append(1)
        if len(attempts) == 1:
            raise TimeoutError
        undo()

    with pytest.raises(TimeoutError):
        guard.commit(interrupted_write, interrupted_undo)
    assert len(attempts) == 1
    assert world.head.open_decisions.equal(world.open.id)
    assert world.state() == before
    assert world.head.feedback(world.open.id, torch.ones(2, dtype=D)) == 2
