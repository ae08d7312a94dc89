"""A program that Lightning runs in several processes: a head and a policy inside a LightningModule, with merged statistics.

python lightning_head.py FOLDER PROCESSES
"""

import logging
import sys
import warnings

import lightning as L
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch import nn

from torch_softucb import SoftUCBHead, SoftUCBPolicy
from torch_softucb.training import MergeStatistics
from torch_softucb.training.runs import leave_process_group

STEPS, REQUESTS, ARMS, DIM = 50, 8, 5, 3


class Served(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"head": SoftUCBHead(nn.Identity(), SoftUCBPolicy(DIM, dtype=torch.float64))})
        self.policy = SoftUCBPolicy(DIM, beta_init=1.0, coldness="smooth", dtype=torch.float64)

    def forward(self, features):
        decision = self.policy(features)
        head = self.parts["head"]
        served = head.serve(head(features))
        head.feedback(served.id, torch.ones(served.id.shape, dtype=torch.float64))
        return decision

    def training_step(self, step, batch_idx):
        share = REQUESTS // self.trainer.world_size
        generator = torch.Generator().manual_seed(int(step))
        features = torch.randn(REQUESTS, ARMS, DIM, generator=generator, dtype=torch.float64)
        rewards = torch.randn(REQUESTS, generator=generator, dtype=torch.float64)
        mine = slice(self.trainer.global_rank * share, (self.trainer.global_rank + 1) * share)
        decision = self(features[mine])
        self.policy.update(features[mine, 0], rewards[mine])
        return -(decision.probs * decision.mu_hat).sum(-1).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main(folder, processes):
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    several = DDPStrategy(process_group_backend="gloo", find_unused_parameters=True) if processes > 1 else "auto"
    trainer = L.Trainer(
        accelerator="cpu",
        devices=processes,
        strategy=several,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        use_distributed_sampler=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[MergeStatistics()],
    )
    model = Served()
    trainer.fit(model, torch.utils.data.DataLoader(torch.arange(STEPS), batch_size=None, sampler=range(STEPS)))
    torch.save(model.state_dict(), f"{folder}/{processes}_{trainer.global_rank}.pt")
    leave_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
