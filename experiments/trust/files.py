"""R8, R9: damaged files are refused, and hostile ones can do nothing."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from experiments.trust.flips import flips
from experiments.trust.goal import Result, Size, goal
from experiments.trust.hostile import hostile
from experiments.trust.sanitizers import sanitizer_reports
from experiments.trust.serving import USERS, new_head, request, state_bytes
from experiments.trust.trainings import train
from torch_softucb import SituationBeta, SoftUCBPolicy, load_policy, save_policy
from torch_softucb.policies.beta.network import PRETRAINED
from torch_softucb.recommend import DecisionLog, log_records, restart, save_checkpoint
from torch_softucb.training import AtomicCheckpointIO


class File(NamedTuple):
    """A file that the library writes.

    Attributes:
        name: what it is.
        path: where it is.
        load: reads it through the library; returns everything that it holds.
    """

    name: str
    path: Path
    load: Callable[[], object]

    def read(self, _: Path) -> object:
        """Load the file, as a function of its path."""
        return self.load()


def _bytes(value: Any) -> Any:
    """Return nested state as values that compare bitwise."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), state_bytes({"": value})
    if isinstance(value, Mapping):
        return {key: _bytes(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_bytes(part) for part in value]
    return value


def _head_and_log(folder: Path, *, segment_bytes: int = 1 << 20, seal: bool = False) -> Path:
    """Serve and log some requests, with a checkpoint in the middle; returns the folder of the log."""
    head = new_head(users=USERS)
    with DecisionLog(folder / "log", segment_bytes=segment_bytes) as log:
        for step in range(20):
            user, items = request(3, 4, step)
            served = head.serve(head(items, bandit=user))
            log.decisions(served)
            head.feedback(served.id[:2], torch.ones(2, dtype=torch.double))
            log.rewards(served.id[:2], torch.ones(2, dtype=torch.double))
            log.commit()
            if step == 10:
                save_checkpoint(folder / "head.pt", head, log)
        if seal:
            log.seal()
    return folder / "log"


def _restored(folder: Path) -> object:
    head = new_head(users=USERS)
    restart(head, folder / "log", folder / "head.pt")
    return state_bytes(head.state_dict())


def _records(log: Path) -> object:
    return [(name, {key: values.tobytes() for key, values in columns.items()}) for name, columns in log_records(log)]


def _policy_state(path: Path) -> object:
    policy = load_policy(path)
    return state_bytes(policy.state_dict()), repr(policy.settings)


def _beta_state(path: Path) -> object:
    module, about = SituationBeta.load(path, horizon=50)
    return state_bytes(module.state_dict()), about


def written_files(folder: Path) -> list[File]:
    """Write one file of every sort and return them with their readers."""
    for name in ("open", "rolled", "sealed"):
        (folder / name).mkdir()
    open_log = _head_and_log(folder / "open")
    rolled = _head_and_log(folder / "rolled", segment_bytes=4_000)
    sealed = _head_and_log(folder / "sealed", seal=True)
    policy = SoftUCBPolicy(4, beta_init=0.4)
    policy.update(torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), torch.ones(9))
    save_policy(folder / "policy.safetensors", policy)
    train("offline", folder / "training", 2, None, {2})
    checkpoint = folder / "training" / "2.ckpt"
    decisions, rewards = (next(sealed.glob(f"*.{part}.parquet")) for part in ("decisions", "rewards"))
    files = [
        File("training checkpoint", checkpoint, lambda: _bytes(AtomicCheckpointIO().load_checkpoint(checkpoint))),
        File("head checkpoint", folder / "open" / "head.pt", lambda: _restored(folder / "open")),
        File("policy", folder / "policy.safetensors", lambda: _policy_state(folder / "policy.safetensors")),
        File("journal", next(open_log.glob("*.journal")), lambda: _records(open_log)),
        File("journal with segments behind it", min(rolled.glob("*.journal")), lambda: _records(rolled)),
        File("sealed decisions", decisions, lambda: _records(sealed)),
        File("sealed rewards", rewards, lambda: _records(sealed)),
    ]
    return files + _pretrained(folder)


def _pretrained(folder: Path) -> list[File]:
    """Return a copy of the pretrained network."""
    copy = folder / PRETRAINED.name
    copy.write_bytes(PRETRAINED.read_bytes())
    return [File("pretrained beta", copy, lambda: _beta_state(copy))]


@goal(
    "R8",
    claim="""Of 5,000 single flipped bits and 1,000 truncations of each of seven sorts of files, none is loaded with
    wrong numbers: each is refused with the file's name and a reason, or is harmless.""",
    method="""Training checkpoint, head checkpoint, policy, pretrained network, journal of the log (alone, and with later
    segments), sealed decisions and sealed rewards are written, damaged at random places and loaded through the library.
    Any other exception than the library's own error that names the file counts as badly refused.""",
    minutes=20,
)
def flipped_bits(size: Size) -> Result:
    torch.set_num_threads(1)
    total: dict[str, int] = {}
    worst = []
    with tempfile.TemporaryDirectory() as folder:
        for file in written_files(Path(folder)):
            counts = flips(
                file.path,
                file.read,
                lambda one, other: one == other,
                flips=size.of(5_000, 60),
                truncations=size.of(1_000, 20),
                seed=size.seed,
            )
            bad = {name: count for name, count in counts.items() if count and name not in ("refused", "harmless")}
            worst += [f"{file.name}: {count} {name}" for name, count in bad.items()]
            for name, count in counts.items():
                total[name] = total.get(name, 0) + count
    text = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in total.items())
    return Result(not worst, text + (f" ({'; '.join(worst)})" if worst else ""))


@goal(
    "R9",
    claim="""At least 200 hostile files and 50,000 mutated ones: nothing in them is executed, nothing crashes, no
    impossible state is accepted, memory stays below twice the file plus 50 MB; the native kernel shows no error under
    the sanitizers.""",
    method="""Files with pickled calls, class paths, sparse tensors, sizes of 2^40, lying lengths, matrices that are
    not positive definite, NaN and negative counts are loaded in a child process whose audit hook records imports,
    execution and files opened for writing. Where the kernel can be built with address and undefined-behaviour
    sanitizers (TORCH_SOFTUCB_SANITIZE=1), its tests run on that build.""",
    minutes=20,
)
def hostile_files(size: Size) -> Result:
    found = hostile(mutations=size.of(50_000, 300), seed=size.seed, sample=size.of(None, 2))
    faults = ("executed", "crashes", "accepted", "badly_refused", "memory")
    figures = ", ".join(f"{found[name]:,} {name.replace('_', ' ')}" for name in ("files", "mutations", *faults))
    reports = None if size.quick else sanitizer_reports()
    met = not any(found[name] for name in faults) and found["files"] >= size.of(200, 100) and not reports
    met &= size.quick or reports is not None
    sanitized = "sanitizers not measured" if reports is None else f"{len(reports)} sanitizer reports"
    first = [*found["faults"][:1], *(reports or [])[:1]]
    return Result(met, f"{figures}; {sanitized}" + (f" ({'; '.join(first)})" if first else ""))
