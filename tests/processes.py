"""Run a piece of code in several processes of one group."""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch

_FRAME = """
import sys, torch, torch.distributed as dist
rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
torch.manual_seed(rank)
%s
torch.save(result, f"{folder}/{rank}.pt")
dist.destroy_process_group()
"""


def in_processes(code, world):
    """Return the variable ``result`` of every rank; the code finds ``rank``, ``world``, ``torch`` and ``dist``."""
    with tempfile.TemporaryDirectory() as folder:
        start = [sys.executable, "-c", _FRAME % code]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        ranks = [subprocess.Popen([*start, str(rank), str(world), folder], **quiet) for rank in range(world)]
        said = [process.communicate(timeout=300)[1] for process in ranks]
        assert all(process.returncode == 0 for process in ranks), "\n".join(said)
        return [torch.load(Path(folder, f"{rank}.pt"), weights_only=True) for rank in range(world)]
