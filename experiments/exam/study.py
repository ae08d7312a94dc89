"""All policies on all tables: rows of results."""

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from experiments.exam.play import alone, mistakes, orders
from experiments.exam.settings import AUTO, REPORTED, UNITS, Maker, policies
from experiments.tables import Rows
from torch_softucb import AutoSoftUCB
from torch_softucb.policies.scales import SUMMARY
from torch_softucb.problems.classification import ClassificationData, load_classification


def exam(sets: Sequence[str], horizon: int, *, seeds: tuple[int, ...] = REPORTED) -> Iterator[Rows]:
    """Play every policy on every table with rewards 0 and 1; yields the rows of each table."""
    for name in sets:
        yield play_set(load_classification(name=name), name, policies(), horizon, seeds=seeds)


def play_set(
    data: ClassificationData, name: str, makers: dict[str, Maker], horizon: int, *, seeds: tuple[int, ...] = REPORTED
) -> Rows:
    """Play policies on one table; returns one row per policy and shuffle."""
    order = orders(len(data.label), horizon, seeds)
    rows: Rows = []
    for title, make in makers.items():
        start = time.perf_counter()
        wrong = mistakes(make(data.contexts.shape[1], order.shape[1]), data, order, UNITS[0])
        micros = 1e6 * (time.perf_counter() - start) / order.numel()
        for seed, count in zip(seeds, wrong.tolist(), strict=True):
            row = {"set": name, "rounds": order.shape[1], "policy": title, "shuffle": seed, "mistakes": count}
            rows.append({**row, "microseconds": micros})
    return rows


def units(sets: Sequence[str], horizon: int, *, seeds: tuple[int, ...] = REPORTED) -> Rows:
    """Play auto, pretrained and two fixed betas in every unit of the reward."""
    chosen = {title: make for title, make in policies().items() if title in (AUTO, "pretrained", "LinUCB, beta 1")}
    rows: Rows = []
    for name in sets:
        data = load_classification(name=name)
        order = orders(len(data.label), horizon, seeds)
        for unit in UNITS:
            for title, make in chosen.items():
                wrong = mistakes(make(data.contexts.shape[1], order.shape[1]), data, order, unit)
                rows.append({"set": name, "unit": unit.title, "policy": title, "mistakes": float(wrong.double().mean())})
    return rows


def found(sets: Sequence[str], horizon: int, *, seeds: tuple[int, ...] = REPORTED) -> Rows:
    """Return the scales that auto had found on each table by the end, means over shuffles."""
    rows: Rows = []
    for name in sets:
        data = load_classification(name=name)
        order = orders(len(data.label), horizon, seeds)
        policy = policies()[AUTO](data.contexts.shape[1], order.shape[1])
        assert isinstance(policy, AutoSoftUCB)
        wrong = mistakes(policy, data, order, UNITS[0])
        scales = policy.scales
        values = {
            "classes": len(data.classes),
            "features": data.contexts.shape[1],
            "right": 1 - float(wrong.double().mean()) / order.shape[1],
            "offset": float((scales.anchor + scales.offset).mean()),
            "noise_std": float(scales.noise_std.mean()),
            "prior_std": float((scales.noise_std / scales.rho.sqrt()).mean()),
            "explained": float(scales.summary[..., SUMMARY.index("explained")].mean()),
        }
        rows.append({"set": name, "rounds": order.shape[1], **values})
    return rows


def single(sets: Sequence[str], horizon: int, *, seed: int = REPORTED[0]) -> Rows:
    """Play auto on one shuffle, request by request: the time of a round without batching."""
    rows: Rows = []
    for name in sets:
        data = load_classification(name=name)
        order = orders(len(data.label), horizon, (seed,))[0]
        policy = policies()[AUTO](data.contexts.shape[1], len(order))
        start = time.perf_counter()
        wrong = alone(policy, data, order)
        micros = 1e6 * (time.perf_counter() - start) / len(order)
        rows.append({"set": name, "rounds": len(order), "mistakes": wrong, "microseconds": micros})
    return rows


def vowpal(python: Path, sets: Sequence[str], horizon: int, *, seeds: tuple[int, ...] = REPORTED) -> Rows:
    """Play Vowpal Wabbit's exploration options on the same shuffles, in the environment of another interpreter.

    Args:
        python: interpreter with the package ``vowpalwabbit``.
        sets: names of the tables.
        horizon: most rounds.
        seeds: seeds of the shuffles.
    """
    rows: Rows = []
    script = Path(__file__).with_name("vowpal.py")
    for name in sets:
        data = load_classification(name=name)
        order = orders(len(data.label), horizon, seeds)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "shuffles.npz"
            np.savez(
                path,
                contexts=data.contexts.numpy(),
                label=data.label.numpy(),
                classes=len(data.classes),
                orders=order.numpy(),
            )
            done = subprocess.run([python, script, path], capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            found = json.loads(line)
            for seed, count in zip(seeds, found["mistakes"], strict=True):
                row = {"set": name, "rounds": order.shape[1], "policy": f"Vowpal Wabbit, {found['option']}"}
                rows.append({**row, "shuffle": seed, "mistakes": count, "microseconds": found["microseconds"]})
    return rows
