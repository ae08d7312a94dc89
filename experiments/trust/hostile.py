"""Load hostile and mutated files in a child process that records what they do."""

import contextlib
import json
import random
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from experiments.trust.flips import outcome
from experiments.trust.hostile_files import Hostile, corpus, intact, sealed, unsealed
from torch_softucb import SituationBeta, SoftUCBHead, SoftUCBPolicy, load_policy
from torch_softucb.recommend import restart
from torch_softucb.training import SoftUCBOffline

_LIBRARY = sysconfig.get_path("stdlib")
SPARE = 50e6  # bytes beyond twice the size of the file
_ALLOWED = ("torch", "torch_softucb", "lightning", "safetensors", "numpy", "jsonargparse", "encodings", "typeshed_client")


def new_head() -> SoftUCBHead:
    return SoftUCBHead(nn.Identity(), SoftUCBPolicy(3, dtype=torch.double))


def _restart(path: Path) -> object:
    head = new_head()
    restart(head, path.parent / "log", path)
    return head.state_dict()


LOADERS: dict[str, Callable[[Path], object]] = {  # by file_type of file
    "checkpoint": lambda path: SoftUCBOffline.load_from_checkpoint(path).state_dict(),
    "head": _restart,
    "policy": lambda path: load_policy(path).state_dict(),
    "network": lambda path: SituationBeta.load(path, horizon=9)[0].state_dict(),
}


def hostile(*, mutations: int, seed: int, sample: int | None = None) -> dict[str, Any]:
    """Load the corpus and random mutations of intact files; return counts.

    Half of the mutations have a valid checksum, as an attacker would write it: they may hold other numbers, but possible
    ones.

    Args:
        mutations: number of mutated files.
        seed: seed of the mutations.
        sample: take every n-th hostile file only; all by default.

    Returns:
        ``files`` and ``mutations`` that were loaded; ``executed``: events of the audit hook; ``crashes`` of the process;
        ``accepted``: hostile files that were loaded, and mutated ones that were loaded with other contents;
        ``badly_refused``: foreign exceptions, or without the file's name; ``memory``: files that took more than twice their
        size and 50 MB; ``faults``: the names of these files.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = corpus(folder)[:: sample or 1]
        todo = [(file.name, file.file_type, str(file.path)) for file in files]
        results = _run_child(folder, todo) + _run_child(folder, [], mutations, seed)
    found: dict[str, Any] = {"files": len(files), "mutations": mutations}
    for fault in ("executed", "crashes", "accepted", "badly_refused", "memory"):
        found[fault] = sum(fault in result["faults"] for result in results)
    found["faults"] = [f"{result['name']}: {', '.join(result['faults'])}" for result in results if result["faults"]][:20]
    return found


def _run_child(folder: Path, todo: list[tuple[str, str, str]], mutations: int = 0, seed: int = 0) -> list[dict[str, Any]]:
    """Run the child until everything is done, again after each crash."""
    results: list[dict[str, Any]] = []
    while len(results) < len(todo) + mutations:
        done = max(0, len(results) - len(todo))
        job = {"folder": str(folder), "todo": todo[len(results) :], "mutations": [done, mutations], "seed": seed}
        (folder / "job.json").write_text(json.dumps(job))
        command = [sys.executable, "-m", "experiments.trust.hostile", str(folder / "job.json")]
        root = Path(__file__).parents[2]
        child = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
        lines = [json.loads(line) for line in child.stdout.splitlines() if line.startswith('{"name"')]
        results += lines
        if child.returncode and len(results) < len(todo) + mutations:
            number = len(results)
            name = todo[number][0] if number < len(todo) else f"mutation {number - len(todo)}"
            results.append({"name": f"{name} ({child.stderr[-200:]})", "faults": ["crashes"]})
    return results


_EVENTS: list[str] = []
_RECORDING = [False]


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _RECORDING[0]:
        return
    bad = event in ("exec", "compile") or event.startswith(("subprocess.", "os.system", "os.exec", "os.spawn", "socket."))
    bad = bad or event in ("os.mkdir", "os.remove", "os.rename", "os.putenv", "shutil.rmtree", "ctypes.dlopen")
    if event == "exec" and getattr(arguments[0], "co_filename", "").startswith((_LIBRARY, "<frozen")):
        bad = False  # a module of Python that an error message needs, imported late
    if event == "import":
        bad = arguments[0].split(".")[0] not in (*sys.stdlib_module_names, *_ALLOWED) or arguments[0] == "antigravity"
    if event == "open" and isinstance(arguments[1], str):
        bad = any(letter in arguments[1] for letter in "wax+")
    if bad:
        _EVENTS.append(f"{event} {str(arguments)[:80]}")


@contextlib.contextmanager
def _recorded() -> Iterator[None]:
    _EVENTS.clear()
    _RECORDING[0] = True
    try:
        yield
    finally:
        _RECORDING[0] = False


def _memory(field: str) -> float:
    """Field of this process's status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024.0 * int(line.split()[1])
    return 0.0


def _load(name: str, file_type: str, path: Path, same: Callable[[Any], bool]) -> dict[str, Any]:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = _memory("VmRSS")
    with _recorded():
        result = outcome(path, lambda: same(LOADERS[file_type](path)))
    faults = {"wrong": ["accepted"], "badly_refused": ["badly_refused"]}.get(result, [])
    if _memory("VmHWM") - before > 2 * path.stat().st_size + SPARE:
        faults.append("memory")
    if _EVENTS:
        faults.append("executed")
    return {"name": f"{file_type}: {name}" + (f" {_EVENTS[0]}" if _EVENTS else ""), "faults": faults}


def _mutated(file: Hostile, numbers: random.Random, forge: bool) -> bytes:
    """Return a file with a few bytes changed, removed, repeated or inserted; with a valid checksum if ``forge``."""
    whole = file.path.read_bytes()
    data = bytearray(unsealed(whole) if forge else whole)
    for _ in range(numbers.choice((1, 1, 2, 5, 20))):
        place, length = numbers.randrange(len(data)), numbers.choice((1, 1, 4, 16))
        file_type = numbers.randrange(4)
        if file_type == 0 or (forge and numbers.random() < 0.5):  # where lengths stay, more of the file is read
            data[place : place + length] = numbers.randbytes(len(data[place : place + length]))
        elif file_type == 1 and len(data) > 2 * length:
            del data[place : place + length]
        elif file_type == 2:
            data[place:place] = data[place : place + length]
        else:
            data[place:place] = numbers.randbytes(length)
    return sealed(bytes(data)) if forge else bytes(data)


def _main(job: dict[str, Any]) -> None:
    folder = Path(job["folder"])
    samples = intact(folder)
    contents = {
        file.file_type: LOADERS[file.file_type](file.path) for file in samples
    }  # everything that loading imports is here now
    sys.addaudithook(_hook)
    for name, file_type, path in job["todo"]:
        print(json.dumps(_load(name, file_type, Path(path), lambda _: False)), flush=True)
    first, last = job["mutations"]
    for number in range(first, last):
        numbers = random.Random(f"{job['seed']} {number}")
        file: Hostile = samples[number % len(samples)]
        path = folder / f"mutated-{file.path.name}"
        forge = number // len(samples) % 2 == 1
        path.write_bytes(_mutated(file, numbers, forge))
        expected: Any = contents[file.file_type]

        def same(state: Any, expected: Any = expected, forge: bool = forge) -> bool:
            return forge or all(value.equal(state[name]) for name, value in expected.items())

        print(json.dumps(_load(f"mutation {number}", file.file_type, path, same)), flush=True)


if __name__ == "__main__":
    _main(json.loads(Path(sys.argv[1]).read_text()))
