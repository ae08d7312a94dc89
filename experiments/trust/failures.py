"""R3: whatever fails inside a call, the call has no effect."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from experiments.trust.failing_files import FailingFiles
from experiments.trust.goal import Result, Size, goal
from experiments.trust.policies import every_policy
from experiments.trust.serving import DIM, ITEMS, new_head, request, state_bytes
from torch_softucb import LinUCB, SoftUCBPolicy
from torch_softucb.recommend import DecisionLog, OnlineBeta, Replay, read_log, restart, save_checkpoint


class _FailAt(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raise MemoryError instead of running the operation with this number."""

    def __init__(self, position: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.position, self.count = position, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        if self.count - 1 == self.position:
            raise MemoryError(f"operation {self.position}: {func}")
        return func(*args, **(kwargs or {}))


class Call(NamedTuple):
    """A call that must take effect whole or not at all.

    Attributes:
        name: what is called.
        act: the call.
        look: returns everything that the call may change, as comparable values.
    """

    name: str
    act: Callable[[], object]
    look: Callable[[], object]


def _policy_calls() -> Iterator[Call]:
    """Yield updates of every policy, and everything else that changes one."""
    for name, build in every_policy():
        for batch in ((), (3,)):
            yield _update_call(name, build(2, batch), batch)
    for policy in (LinUCB(2, beta=1.0), SoftUCBPolicy(2), LinUCB(2, beta=1.0, refresh_every=1)):
        yield from _calls_of_policy(policy)


def _update_call(name: str, policy: Any, batch: tuple[int, ...]) -> Call:
    generator = torch.Generator().manual_seed(0)
    decision, arm = policy(torch.eye(2)), torch.zeros(batch, dtype=torch.int64)
    x, reward = torch.randn(*batch, 2, generator=generator), torch.randn(batch, generator=generator)
    return Call(
        f"{name}.update",
        lambda: policy.update(x, reward, decision=decision, arm=arm),
        lambda: state_bytes(policy.state_dict()),
    )


def _calls_of_policy(policy: LinUCB | SoftUCBPolicy) -> Iterator[Call]:
    policy.update(torch.randn(7, 2), torch.randn(7))
    other = type(policy)(2)
    other.update(torch.randn(9, 2), torch.randn(9))
    name = type(policy).__name__

    def look() -> object:
        return state_bytes(policy.state_dict()), tuple(policy.batch_shape)

    yield Call(f"{name}.update of several", lambda: policy.update(torch.ones(4, 2), torch.ones(4)), look)
    yield Call(f"{name}.update, forgetting", lambda: policy.update(torch.ones(2), torch.ones(()), discount=0.9), look)
    yield Call(f"{name}.refresh", policy.refresh, look)
    yield Call(f"{name}.load_state_dict", lambda: policy.load_state_dict(other.state_dict()), look)
    yield Call(f"{name}.reset", lambda: policy.reset(batch_shape=(2,)), look)


def _head_calls(settings: dict[str, Any]) -> Iterator[Call]:
    """Yield everything public that changes a head."""
    head, other = new_head(users=20, **settings), new_head(users=20, **settings)
    user, items = request(5, 4, 0)
    served = head.serve(head(items, bandit=user))
    head.feedback(served.id[:2], _ones(2))
    other.serve(other(items[:, :3], bandit=user))
    decision, dim = head(items, bandit=user), head.policy.dim

    def look() -> object:
        return state_bytes(head.state_dict()), head.open_decisions.tolist(), len(head.pending)

    def refit() -> None:
        head.refit([Replay((items,), torch.zeros(5, dtype=torch.int64), _ones(5), user)])

    def reopen() -> None:
        head.restore_open(torch.arange(3) + (11 << 34), torch.ones(3, dim, dtype=torch.double), torch.arange(3))

    yield Call("head.serve", lambda: head.serve(decision), look)
    yield Call("head.serve of slates", lambda: head.serve(decision, k=2), look)
    yield Call("head.feedback", lambda: head.feedback(served.id[2:4], _ones(2)), look)
    yield Call("head.drop", lambda: head.drop(served.id[4:]), look)
    yield Call("head.reseed", lambda: head.reseed(7, replica=9), look)
    yield Call("head.refit", refit, look)
    yield Call("head.load_state_dict", lambda: head.load_state_dict(other.state_dict()), look)
    yield Call("head.restore_open", reopen, look)
    if settings.get("normalise"):
        fresh = new_head(users=20, normalise=True)
        batches = [(torch.arange(ITEMS).view(5, 10),), (torch.arange(ITEMS).view(5, 10) % 7,)]
        yield Call("head.calibrate", lambda: fresh.calibrate(batches), lambda: state_bytes(fresh.state_dict()))


def _learner_calls() -> Iterator[Call]:
    """Yield everything public that changes a learner of beta."""
    policy = SoftUCBPolicy(DIM, dtype=torch.double)
    head, learner = new_head(policy), OnlineBeta(policy, horizon=50, eta="auto")
    decision = head(request(5, 4, 0)[1])
    x = torch.randn(5, DIM, dtype=torch.double)
    saved = {name: value.clone() + 1 for name, value in learner.state_dict().items()}

    def look() -> object:
        return state_bytes(learner.state_dict()), state_bytes(head.state_dict())

    yield Call("learner.step", lambda: learner.step(decision), look)
    yield Call("learner.observe", lambda: learner.observe(x, _ones(5)), look)
    yield Call("learner.load_state_dict", lambda: learner.load_state_dict(saved), look)


def _ones(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.double)


def _restart_call(folder: Path) -> Call:
    head = new_head(users=20)
    user, items = request(5, 4, 0)
    with DecisionLog(folder / "log") as log:
        for step in range(3):
            served = head.serve(head(items, bandit=user))
            log.decisions(served)
            if step == 1:
                save_checkpoint(folder / "head.pt", head, log)
            head.feedback(served.id[:2], torch.ones(2, dtype=torch.double))
            log.rewards(served.id[:2], torch.ones(2, dtype=torch.double))
    again = new_head(users=20)
    again.serve(again(items, bandit=user))
    return Call(
        "restart",
        lambda: restart(again, folder / "log", folder / "head.pt"),
        lambda: (state_bytes(again.state_dict()), again.open_decisions.tolist()),
    )


def _fail_every_operation(call: Call) -> tuple[int, int]:
    """Let every operation of a call fail once: number of failures, and of those that have changed something."""
    position = 0
    before = call.look()
    while position < 100_000:
        mode = _FailAt(position)
        try:
            with mode:
                call.act()
        except Exception:  # load_state_dict wraps the MemoryError
            if mode.count <= position:
                raise
            position += 1
            if call.look() != before:
                return position, 1  # the state is spoiled: what follows would prove nothing
            continue
        break
    return position, 0


def _log_calls() -> dict[str, Callable[[DecisionLog, Any], object]]:
    return {
        "log.commit": lambda log, served: log.commit(),
        "log.seal": lambda log, served: log.seal(),
        "log.close": lambda log, served: log.close(),
        "log.rewards": lambda log, served: (log.rewards(served.id, torch.ones(5)), log.commit()),
        "log.drops": lambda log, served: (log.drops(served.id), log.commit()),
    }


def _fail_every_write(name: str, act: Callable[[DecisionLog, Any], object]) -> tuple[int, int]:
    """Let every file operation of a call on the log fail once: failures, and failures that lost acknowledged decisions."""
    failures = lost = 0
    while True:
        with tempfile.TemporaryDirectory() as folder:
            head = new_head()
            log = DecisionLog(folder, group=1000)
            served = [head.serve(head(request(5, 4, seed)[1])) for seed in range(3)]
            for part in served[:2]:
                log.decisions(part)
                log.commit()
            log.decisions(served[2])
            files = FailingFiles(failures)
            try:
                with files:
                    act(log, served[0])
            except Exception:
                failures += 1
            else:
                if not files.failed:
                    return failures, lost
                failures += 1
            acknowledged = {int(i) for part in served[:2] for i in part.id}
            try:  # a service that goes on: whatever returns is acknowledged
                log.commit()
                log.close()
                acknowledged |= set(served[2].id.tolist())
            except Exception:
                del log
            try:
                found = read_log(folder).id.tolist()
                lost += not acknowledged <= set(found) or len(found) != len(set(found))
            except ValueError:
                lost += 1


@goal(
    "R3",
    claim="""A call that fails changes nothing: every operation inside every public call on policies, heads, logs and
    learners fails once, and in all cases the state is byte for byte what it was and the log has all acknowledged
    decisions.""",
    method="""Torch operations are counted by a dispatch mode; the k-th raises MemoryError, for k = 1, 2, ... until the
    call succeeds, and the state is compared with that before the call. For the log, the k-th write, sync, truncation,
    rename or opening of a file raises "no space left"; afterwards the log is committed and closed if it allows that,
    and read.""",
    minutes=10,
)
def failing_operations(size: Size) -> Result:
    torch.manual_seed(size.seed)
    calls = [*_policy_calls(), *_learner_calls()]
    for settings in ({}, {"normalise": True}, {"narrow_pending": True}, {"discount": 0.9}):
        calls += _head_calls(settings)
    points, spoiled = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for call in [*calls[:: size.of(1, 2)], _restart_call(Path(folder))]:
            failures, changed = _fail_every_operation(call)
            points += failures
            spoiled += [call.name] * bool(changed)
    writes = 0
    for name, act in _log_calls().items():
        failures, lost = _fail_every_write(name, act)
        writes += failures
        spoiled += [f"{name} ({lost} times)"] * bool(lost)
    names = ", ".join(dict.fromkeys(spoiled))
    text = f"{points:,} failing operations and {writes} failing writes in {len(calls) + 1 + len(_log_calls())} calls: "
    return Result(not spoiled, text + (f"changed by {names}" if spoiled else "0 changes, 0 lost"))
