"""Building and loading the kernel: the library's name, the tools, a missing compiler."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.simulation.cases import needs_compiler, problem_of
from torch_softucb import LinUCB, rollout
from torch_softucb.errors import CompileWarning
from torch_softucb.simulation.backends import kernel
from torch_softucb.simulation.backends.kernel import environment_tools, library_name, load_kernel


def test_the_name_follows_source_torch_and_flags(monkeypatch, tmp_path):
    name = library_name()
    assert name == library_name()
    monkeypatch.setattr(kernel, "_FLAGS", ["-O0"])
    others = {library_name()}
    monkeypatch.undo()
    monkeypatch.setattr(torch, "__version__", "0.0")
    others.add(library_name())
    monkeypatch.undo()
    (tmp_path / "rounds.cpp").write_text("// another source")
    monkeypatch.setattr(kernel, "SOURCE", tmp_path / "rounds.cpp")
    others.add(library_name())
    assert len(others | {name}) == 4


def test_the_environment_is_first_on_the_path_and_the_path_is_restored(monkeypatch):
    monkeypatch.setenv("PATH", "/somewhere")
    with environment_tools():
        assert os.environ["PATH"].split(os.pathsep) == [str(Path(sys.executable).parent), "/somewhere"]
    assert os.environ["PATH"] == "/somewhere"


@needs_compiler
def test_a_failed_build_gives_a_reason_and_is_not_tried_again(monkeypatch):
    from torch.utils import cpp_extension

    calls = []

    def fail(*args, **settings):
        calls.append(args)
        raise RuntimeError("no space left\ndetails")

    monkeypatch.setattr(cpp_extension, "load", fail)
    load_kernel.cache_clear()
    try:
        for _ in range(2):
            assert load_kernel() == (None, "the native kernel could not be built (no space left)")
        assert len(calls) == 1
    finally:
        load_kernel.cache_clear()


@needs_compiler
@pytest.mark.parametrize("compile", [True, "native"])
def test_without_a_compiler_it_warns_once_and_plays_eagerly(compile, seeded, monkeypatch):
    monkeypatch.setattr("torch_softucb.simulation.backends.compiled.find_compiler", lambda: None)
    monkeypatch.setattr("torch_softucb.simulation.backends.kernel.find_compiler", lambda: None)
    load_kernel.cache_clear()
    problem, policy = problem_of("own arms", seeded), LinUCB(4, dtype=torch.double)
    with pytest.warns(CompileWarning, match=r"C\+\+ compiler.*playing eagerly") as caught:
        got = rollout(policy, problem, horizon=9, generator=seeded(1), compile=compile)
    assert len(caught) == 1
    load_kernel.cache_clear()
    assert got.regret.equal(rollout(policy, problem, horizon=9, generator=seeded(1)).regret)


def test_import_builds_nothing():
    script = "import sys, torch_softucb; print('torch.utils.cpp_extension' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
