"""R10, second part: a full disk, several processes, readers beside a writer, and the time per decision."""

import contextlib
import os
import resource
import shutil
import signal
import statistics
import tempfile
import time
from pathlib import Path

import torch

from experiments.trust.failing_files import FailingFiles
from experiments.trust.goal import Result, Size, goal
from experiments.trust.log_kills import kill_log
from experiments.trust.serving import new_head, request
from torch_softucb.recommend import DecisionLog, JournalError, log_records, read_log

_RECORD = 3_000  # bytes, about those of 32 decisions


def _session(folder: Path, shown: set[int], seed: int) -> None:
    """Serve and log under errors: reopen the log after a failure, and show only what a commit has returned for."""
    head = new_head()
    head.reseed(seed)
    log: DecisionLog | None = None
    unshown: list[int] = []
    for step in range(8):
        try:
            if log is None:
                log = DecisionLog(folder, group=1000)
            served = head.serve(head(request(5, 4, step)[1]))
            log.decisions(served)
            unshown += served.id.tolist()
            for _ in range(2):
                try:
                    log.commit()
                    shown.update(unshown)
                    unshown.clear()
                    break
                except OSError:
                    continue  # room was made: what the next commit returns for counts as acknowledged
            if step % 4 == 3:
                log.seal()
        except (OSError, JournalError):
            with contextlib.suppress(OSError, JournalError):
                if log is not None:
                    log.close()
            log, unshown = None, []
    if log is not None:
        with contextlib.suppress(OSError, JournalError):
            log.close()


def _lost_or_doubled(folder: Path, shown: set[int]) -> int:
    if not shown:
        return 0
    try:
        ids = read_log(folder).id.tolist()
    except (ValueError, OSError):
        return len(shown)
    return len(shown - set(ids)) + len(ids) - len(set(ids))


def _full_disk(most: int) -> tuple[int, int, int]:
    """Let every file operation fail once with ENOSPC: failures, acknowledged decisions, lost or doubled ones."""
    position = acknowledged = wrong = 0
    while position < most:
        with tempfile.TemporaryDirectory() as name:
            shown: set[int] = set()
            files = FailingFiles(position)
            with files:
                _session(Path(name), shown, position)
            acknowledged += len(shown)
            wrong += _lost_or_doubled(Path(name), shown)
            if not files.failed:
                break
            position += 1
    return position, acknowledged, wrong


def _small_files(limits: list[int]) -> tuple[int, int]:
    """Write under the operating system's limit on the size of files: acknowledged, lost or doubled decisions."""
    acknowledged = wrong = 0
    for limit in limits:
        with tempfile.TemporaryDirectory() as name:
            shown: set[int] = set()
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                _session(Path(name), shown, limit)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            acknowledged += len(shown)
            wrong += _lost_or_doubled(Path(name), shown)
    return acknowledged, wrong


def _take_turns(turns: int) -> tuple[int, int]:
    """Two processes open the log in turn, write, seal and close: acknowledged, lost or doubled decisions."""
    with tempfile.TemporaryDirectory() as name:
        folder, children = Path(name), []
        for number in range(2):
            child = os.fork()
            if child == 0:
                _turns(folder, number, turns)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        shown = {int(line) for path in folder.glob("shown*") for line in path.read_text().split()}
        return len(shown), _lost_or_doubled(folder / "log", shown) + (2 * turns * 8 != len(shown))


def _turns(folder: Path, number: int, turns: int) -> None:
    try:
        head = new_head()  # a head must give new ids by construction
        with open(folder / f"shown{number}", "w") as shown:
            done = 0
            while done < turns:
                try:
                    with DecisionLog(folder / "log", group=1000) as log:
                        for step in range(2):
                            served = head.serve(head(request(4, 4, step)[1]))
                            log.decisions(served)
                            log.commit()
                            print(*served.id.tolist(), file=shown, flush=True)
                        if done % 5 == 4:
                            log.seal()
                    done += 1
                except JournalError:
                    time.sleep(0.001)
    finally:
        os._exit(0)


def _read_beside_a_writer(reads: int) -> tuple[int, int, str]:
    """Read a log while another process writes it: decisions seen, reads that failed or lost something, the first reason."""
    folder = Path(tempfile.mkdtemp())
    child = os.fork()
    if child == 0:
        _write_forever(folder)
    seen, bad, reason, done, number = 0, 0, "", 0, 0
    before: set[int] = set()
    while done < reads:
        current = folder / str(number)
        if (folder / str(number + 1)).exists() and len(before) >= 4000:
            shutil.rmtree(current)
            number, before = number + 1, set()
            continue
        if not any(current.glob("*.journal")):
            time.sleep(0.001)
            continue
        try:
            if done % 2:
                ids = {int(i) for name, columns in log_records(current) if name == "decisions" for i in columns["id"]}
            else:
                ids = set(read_log(current).id.tolist())
        except ValueError as error:
            if "no decision" in str(error) and not before:
                continue
            bad, reason, done = bad + 1, reason or str(error), done + 1
            continue
        bad += not before <= ids
        before, seen, done = ids, seen + len(ids - before), done + 1
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    shutil.rmtree(folder)
    return seen, bad, reason


def _write_forever(folder: Path) -> None:
    try:
        head = new_head()
        number = 0
        while True:
            with DecisionLog(folder / str(number), group=64, segment_bytes=40_000) as log:
                for step in range(600):
                    log.decisions(head.serve(head(request(8, 4, step)[1])))
                    log.commit()
                    if step % 200 == 199:
                        log.seal()
            number += 1
    finally:
        os._exit(1)


def _microseconds(repeats: int) -> tuple[float, float]:
    """Median time per decision of committing 32 at a time, and of a bare write and sync of as many bytes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        DecisionLog(folder, group=32) as log,
        open(f"{folder}/bare", "w+b") as bare,
    ):
        head, times, disk = new_head(), [], []
        os.pwrite(bare.fileno(), bytes(_RECORD * repeats), 0)
        os.fsync(bare.fileno())
        for step in range(repeats):
            served = head.serve(head(request(32, 5, step % 50)[1]))
            head.drop(served.id)
            start = time.perf_counter()
            log.decisions(served)
            times.append(time.perf_counter() - start)
            start = time.perf_counter()
            os.pwrite(bare.fileno(), b"x" * _RECORD, _RECORD * step)
            os.fdatasync(bare.fileno())
            disk.append(time.perf_counter() - start)
        return 1e6 * statistics.median(times) / 32, 1e6 * statistics.median(disk) / 32


@goal(
    "R10",
    claim="""The decision log loses and doubles nothing that it acknowledged: 1,000 times kill -9, a full disk at every
    write, two processes in turn; 10,000 reads beside a writer all succeed; at most 10 us per decision in groups of
    32.""",
    method="""A serving process is killed at random moments, in half of the runs with the unsynced end of the journal
    cut off at a random byte, and its log is compared with what it had reported as shown. Every file operation of a
    session fails once with ENOSPC, and sessions run under small limits on the file size; a commit that returns
    afterwards counts as acknowledged. Two processes open, write, seal and close one log in turn. A reader reads a log
    that another process writes, rolls over and seals. The time is that of the call that commits 32 decisions, on
    the disk of the temporary folder; a bare write and sync of as many bytes is timed beside it.""",
    alone=True,
    minutes=15,
)
def decision_log(size: Size) -> Result:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    speed, disk = _microseconds(size.of(2000, 300))
    kills = kill_log(size.of(1000, 30), size.seed)
    failures, from_full, wrong_full = _full_disk(size.of(10_000, 12))
    limits = [1 << power for power in range(8, 24)] + [4_194_304 + 100 * i for i in range(0, size.of(100, 5))]
    from_small, wrong_small = _small_files(limits[:: size.of(1, 4)])
    in_turn, wrong_turn = _take_turns(size.of(100, 8))
    reads = size.of(10_000, 200)
    _, bad, reason = _read_beside_a_writer(reads)
    damage = kills["lost"] + kills["doubled"] + kills["damaged"] + kills["unreadable"] + kills["ended"]
    met = (
        damage == wrong_full == wrong_small == wrong_turn == bad == 0
        and (speed <= 10 or size.quick)
        and kills["acknowledged"] > 0
    )
    return Result(
        met,
        f"{size.of(1000, 30):,} kills ({kills['cut']} with a cut end): {kills['acknowledged']:,} acknowledged, "
        f"{kills['lost']} lost, {kills['doubled']} doubled, {kills['damaged']} damaged, "
        f"{kills['unreadable']} logs unreadable, {kills['ended']} processes failed by themselves; {failures} failing "
        f"writes and {len(limits)} small disks: {from_full + from_small:,} acknowledged, {wrong_full + wrong_small} lost or "
        f"doubled; in turn: {in_turn:,} acknowledged, {wrong_turn} wrong; {reads:,} reads beside a writer: {bad} bad"
        f"{' (' + reason[:120] + ')' if reason else ''}; {speed:.1f} us per decision "
        f"({disk:.1f} us for a bare write and sync of as many bytes{size.of('', '; time not judged')})",
    )
