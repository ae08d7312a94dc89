"""The training command line: LightningCLI with the project's defaults, readable errors and a final summary."""

import sys
from typing import Any

from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback

from torch_softucb.training._checks import check_seed_kept
from torch_softucb.training.checkpoint import AtomicCheckpointIO
from torch_softucb.training.data import BanditDataModule
from torch_softucb.training.module import SoftUCBModule
from torch_softucb.training.trainer import quiet, run_folder, summary, trainer_defaults


class SoftUCBCLI(LightningCLI):
    """LightningCLI with ``--resume``, and one ``dim`` for data and model."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the project's arguments."""
        parser.add_argument("--resume", type=str | None, default=None, help="checkpoint to resume from, bit for bit")
        parser.link_arguments("data.dim", "model.init_args.dim")


def _cli_defaults() -> dict[str, Any]:
    """Return the trainer defaults, as class paths and arguments where a config file may override them."""
    logger = {"save_dir": ".", "name": "lightning_logs", "default_hp_metric": False}
    return trainer_defaults("lightning_logs") | {
        "logger": {"class_path": "lightning.pytorch.loggers.TensorBoardLogger", "init_args": logger},
        "plugins": [{"class_path": "torch_softucb.training.AtomicCheckpointIO"}],
    }


def check_run(model: SoftUCBModule, data: BanditDataModule, resume: str | None) -> None:
    """Check that model, data and checkpoint fit together, before the run's folder is created."""
    model.check_data(data)
    if resume is not None:
        saved = AtomicCheckpointIO().load_checkpoint(resume)
        model.check_checkpoint(saved)
        for state in saved["loops"]["fit_loop"]["state_dict"].get("combined_loader", []):
            check_seed_kept("BanditDataModule", data.seed, state["seed"])


def main(argv: list[str] | None = None) -> SoftUCBModule:
    """Parse the arguments, train and print a summary. Bad input ends with a one-line message and exit code 2."""
    quiet()
    try:
        cli = SoftUCBCLI(
            SoftUCBModule,
            BanditDataModule,
            subclass_mode_model=True,
            trainer_defaults=_cli_defaults(),
            save_config_callback=SaveConfigCallback,
            save_config_kwargs={"overwrite": True},
            seed_everything_default=False,
            auto_configure_optimizers=False,
            run=False,
            args=argv,
        )
        check_run(cli.model, cli.datamodule, cli.config["resume"])
        cli.trainer.fit(cli.model, datamodule=cli.datamodule, ckpt_path=cli.config["resume"], weights_only=True)
    except (ValueError, TypeError, ArithmeticError, OSError) as error:
        print(f"train: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    model = cli.model
    assert isinstance(model, SoftUCBModule)
    if cli.trainer.is_global_zero:
        print(summary(model, run_folder(cli.trainer)))
    return model
