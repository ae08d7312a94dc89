"""The training command line: LightningCLI with the project's defaults, readable errors and a final summary."""

import sys
from pathlib import Path
from typing import Any, NoReturn

import lightning as L
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback

from torch_softucb.training._checks import check_seed_kept, seeds_of_checkpoint
from torch_softucb.training.checkpoint import AtomicCheckpointIO
from torch_softucb.training.data import EpisodeDataModule
from torch_softucb.training.module import SoftUCBModule
from torch_softucb.training.runs import join_restarted_group, last_run, restarted_by_torchrun
from torch_softucb.training.trainer import quiet, run_folder, summary, trainer_defaults


class _Parser(LightningArgumentParser):
    """Parser that shows what ``data`` should be when it is refused."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        hint = "\n  data must name its class: {class_path: torch_softucb.training.BanditDataModule, init_args: {dim: 10}}"
        super().error(message + hint if message.startswith('Parser key "data"') else message, ex)


class SoftUCBCLI(LightningCLI):
    """LightningCLI with ``--resume`` and ``--checkpoint_every``, and one ``dim`` for data and model.

    Attributes:
        checkpoint: the checkpoint to start from; None for a new run.
    """

    checkpoint: str | None

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the project's arguments."""
        about = "checkpoint to resume from, bit for bit; last: the newest interrupted run of this config, or a new run"
        parser.add_argument("--resume", type=str | None, default=None, help=about)
        parser.add_argument("--checkpoint_every", type=int, default=1, help="training steps between two checkpoints")
        parser.link_arguments("data.dim", "model.init_args.dim", apply_on="instantiate")

    def instantiate_classes(self) -> None:
        """Build trainer, model and data, in the folder of the run to continue if there is one."""
        self._given = self.config.clone()
        self.checkpoint = self.config.resume
        restarted = restarted_by_torchrun()
        if self.checkpoint == "last" or restarted:
            run = last_run(self._log_dir(), finished=restarted, accept=self._has_this_config)
            self.checkpoint = None if self.checkpoint == "last" else self.checkpoint
            if run is not None:
                self.checkpoint = self.checkpoint if run.checkpoint is None else str(run.checkpoint)
                options = run.logger_options
                self.config.trainer.logger.init_args.version = options.pop("version")
                self.config.trainer.logger.dict_kwargs = options
        super().instantiate_classes()

    def instantiate_trainer(self, **kwargs: Any) -> L.Trainer:
        """Build the trainer; the config that it saves is the one given, without the folder to continue in."""
        self.config = self._given
        defaults = trainer_defaults("lightning_logs", checkpoint_every=self.config.checkpoint_every)
        self.trainer_defaults["callbacks"] = defaults["callbacks"]
        return super().instantiate_trainer(**kwargs)

    def _log_dir(self) -> Path:
        logger = self.config.trainer.logger
        if getattr(logger, "class_path", None) != _LOGGER:
            raise ValueError(f"--resume last: trainer.logger must be {_LOGGER}, whose folder has the runs, got {logger}")
        return Path(str(logger.init_args.save_dir), str(logger.init_args.name))

    def _has_this_config(self, folder: Path) -> bool:
        """Return whether a run was started with this config, with or without ``--resume last``."""
        file = folder / "config.yaml"
        given = self.parser.dump(self._given, skip_none=False)
        return file.exists() and _comparable(file.read_text()) == _comparable(given)


_USAGE = """train: expected a config, got no arguments; begin with
  python scripts/train.py --config scripts/configs/offline.yaml
Your own data: problem.yaml (arms and means) or ratings.yaml (users, items, ratings) in the same folder. Options: --help."""
_LOGGER = "lightning.pytorch.loggers.TensorBoardLogger"


def _comparable(config: str) -> list[str]:
    lines = ("resume: null" if line == "resume: last" else line for line in config.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _cli_defaults() -> dict[str, Any]:
    """Return the trainer defaults, as class paths and arguments where a config file may override them."""
    logger = {"save_dir": ".", "name": "lightning_logs", "default_hp_metric": False}
    return trainer_defaults("lightning_logs") | {
        "logger": {"class_path": _LOGGER, "init_args": logger},
        "plugins": [{"class_path": "torch_softucb.training.AtomicCheckpointIO"}],
    }


def check_run(model: SoftUCBModule, data: EpisodeDataModule, resume: str | None) -> None:
    """Check that model, data and checkpoint fit together, before the run's folder is created."""
    model.check_data(data)
    if resume is not None:
        saved = AtomicCheckpointIO().load_checkpoint(resume)
        try:
            model.check_checkpoint(saved)
        except ValueError as error:
            raise ValueError(f"checkpoint {resume}: {error}") from error
        for seed in seeds_of_checkpoint(resume, saved):
            check_seed_kept(type(data).__name__, data.seed, seed)


def _reason(error: BaseException) -> BaseException:
    """Return the error of the class that refused its arguments, without jsonargparse's list of the types that it tried."""
    while str(error).startswith("Does not validate against") and error.__cause__ is not None:
        error = error.__cause__
    return error


def main(argv: list[str] | None = None) -> SoftUCBModule:
    """Parse the arguments, train and print a summary. Bad input ends with a one-line message and exit code 2."""
    quiet()
    if not (sys.argv[1:] if argv is None else argv):
        print(_USAGE, file=sys.stderr)
        raise SystemExit(2)
    try:
        cli = SoftUCBCLI(
            SoftUCBModule,
            EpisodeDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            trainer_defaults=_cli_defaults(),
            save_config_callback=SaveConfigCallback,
            save_config_kwargs={"overwrite": True},
            seed_everything_default=False,
            auto_configure_optimizers=False,
            run=False,
            args=argv,
            parser_class=_Parser,
        )
        check_run(cli.model, cli.datamodule, cli.checkpoint)
        if cli.config.resume == "last" and cli.trainer.is_global_zero:
            print(f"Resuming from {cli.checkpoint}." if cli.checkpoint else "No interrupted run of this config: a new run.")
        join_restarted_group(cli.trainer.strategy)
        cli.trainer.fit(cli.model, datamodule=cli.datamodule, ckpt_path=cli.checkpoint, weights_only=True)
    except (ValueError, TypeError, ArithmeticError, OSError) as error:
        print(f"train: {_reason(error)}", file=sys.stderr)
        raise SystemExit(2) from error
    model = cli.model
    assert isinstance(model, SoftUCBModule)
    if cli.trainer.is_global_zero:
        print(summary(model, run_folder(cli.trainer)))
    return model
