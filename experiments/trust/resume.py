"""R6: stop anywhere, go on in a new process, end bitwise where the undisturbed run ends."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from experiments.trust.goal import Result, Size, goal
from experiments.trust.policies import every_policy
from experiments.trust.serving import DIM, new_head, request, state_bytes
from torch_softucb.recommend import DecisionLog, OnlineBeta, log_records, restart, save_checkpoint

_ROUNDS = 30
_STEPS = 12
_TRAININGS = ("offline", "offline_auto", "trajectory", "online", "online_auto", "family")


def _play(name: str, build: Any, first: int, last: int, folder: Path, stops: set[int]) -> dict[str, bytes]:
    """Play rounds of a policy from the state saved at ``first``; the random numbers of a round depend on its number."""
    policy = build(3, (4,))
    if first:
        policy.load_state_dict(torch.load(folder / f"{name}.{first}.pt", weights_only=True))
    arms = torch.randn(2, 3, generator=torch.Generator().manual_seed(7))
    drawn = b""
    for t in range(first, last):
        if t in stops and not first:
            torch.save(policy.state_dict(), folder / f"{name}.{t}.pt")
        generator = torch.Generator().manual_seed(t)
        with torch.no_grad():
            decision = policy(arms)
            arm = decision.sample(generator)
            policy.update(arms[arm], torch.randn(4, generator=generator), decision=decision, arm=arm)
        drawn += arm.numpy().tobytes() if t >= max(stops) else b""
    return {**state_bytes(policy.state_dict()), "drawn": drawn}


def _serve(name: str, build: Any, first: int, last: int, folder: Path, stops: set[int]) -> dict[str, bytes]:
    """Serve, log and learn from a checkpoint on; returns the head's state and all records of the log."""
    head = new_head(build(DIM, (), dtype=torch.double), seed=5)
    head.reseed(5, replica=3)
    learner = OnlineBeta(head.policy, horizon=60, eta="auto") if name == "soft_ucb" else None  # type: ignore[arg-type]
    log_folder = folder / f"{name}.{first}.log"
    if first:
        restart(head, log_folder, folder / f"{name}.{first}.head", learner)
    with DecisionLog(log_folder, group=4, segment_bytes=4_000) as log:
        for t in range(first, last):
            if t in stops and not first:
                save_checkpoint(folder / f"{name}.{t}.head", head, log, learner)
                shutil.copytree(log_folder, folder / f"{name}.{t}.log")  # what a crash would leave
            decision = head(request(3, 4, t)[1])
            served = head.serve(decision, k=2 if t % 5 == 4 else None)
            log.decisions(served, version=t)
            ids, reward = served.id.reshape(-1)[:2], torch.randn(2, generator=torch.Generator().manual_seed(t))
            if learner is not None:
                learner.observe(served.x.reshape(-1, DIM)[:2], reward.double())
                learner.step(decision)
            head.feedback(ids, reward.double())
            log.rewards(ids, reward.double())
            log.commit()
    records = [(name, {k: v.tobytes() for k, v in columns.items()}) for name, columns in log_records(log_folder)]
    learned = {} if learner is None else state_bytes(learner.state_dict())
    return {**state_bytes(head.state_dict()), **learned, "log": repr(records).encode()}


def _train(name: str, stop: int, folder: Path, stops: set[int]) -> dict[str, Any]:
    """Train with Lightning from the checkpoint of a stop on; returns the model's state and the values in the event files."""
    from experiments.trust.trainings import train

    resume = folder / f"{name}.0" / f"{_step(stop)}.ckpt" if stop else None
    # several stops can be at the same training step, but each run needs its own event files
    values, state = train(name, folder / f"{name}.{stop}", _STEPS, resume, {_step(each) for each in stops})
    return {**state_bytes(state), "events": values}


def _run(folder: Path, first: int, stops: set[int], quick: bool) -> dict[str, Any]:
    """Run everything, from the beginning or from one stop, in this process."""
    heads = {"soft_ucb", "lin_ucb", "epsilon_greedy", "soft_ucb_smooth", "soft_elim", "soft_ucb_schedule"}
    results: dict[str, Any] = {}
    for name, build in every_policy():
        results[name] = _play(name, build, first, _ROUNDS, folder, stops)
        if name in heads:
            results[f"{name} with log"] = _serve(name, build, first, _ROUNDS, folder, stops)
    for name in _TRAININGS[: 1 if quick else None]:
        results[f"{name} training"] = _train(name, first, folder, stops)
    return results


def _step(stop: int) -> int:
    """Training step of a stop; 0 is the beginning."""
    return stop and max(1, stop * _STEPS // _ROUNDS)


def _equal(resumed: dict[str, Any], whole: dict[str, Any]) -> bool:
    """Whether a run ended as the undisturbed one; its event files hold what the other's hold at the end."""
    events, all_events = resumed.pop("events", {}), whole.get("events", {})
    same = all(found and all_events[tag][-len(found) :] == found for tag, found in events.items())
    return same and resumed == {name: value for name, value in whole.items() if name != "events"}


def _in_new_process(folder: Path, first: int, stops: set[int], quick: bool) -> dict[str, Any]:
    argument = json.dumps([str(folder), first, sorted(stops), quick])
    subprocess.run([sys.executable, "-m", "experiments.trust.resume", argument], check=True, env=dict(os.environ))
    found: dict[str, Any] = torch.load(folder / f"results.{first}.pt", weights_only=True)
    return found


@goal(
    "R6",
    claim="""Every policy, training and served head that is stopped at 10 random points and goes on in a new process
    ends bitwise where the undisturbed run ends: state, draws, log records and values in the event files, 100%.""",
    method="""All policies play a batch of bandits, heads with several policies serve with a decision log (and one with
    a learner of beta), and six trainings (offline, online, automatic eta, whole-trajectory gradients, a family of
    problems) run under Lightning. One process runs everything and saves at each stop; for each stop a new process
    loads and finishes.""",
    minutes=12,
)
def resumed_runs(size: Size) -> Result:
    rng = random.Random(size.seed)
    stops = set(rng.sample(range(3, _ROUNDS), size.of(10, 1)))
    right, wrong = 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = _in_new_process(folder, 0, stops, size.quick)
        for stop in sorted(stops):
            for case, state in _in_new_process(folder, stop, stops, size.quick).items():
                if _equal(state, whole[case]):
                    right += 1
                else:
                    wrong.append(f"{case} from {stop}")
    total = right + len(wrong)
    text = f"{right} of {total} runs bitwise ({len(stops)} stops, {total // len(stops)} cases)"
    return Result(not wrong, text + (f"; different: {', '.join(wrong[:5])}" if wrong else ""))


if __name__ == "__main__":
    where, start, points, small = json.loads(sys.argv[1])
    torch.save(_run(Path(where), start, set(points), small), Path(where) / f"results.{start}.pt")
