"""Learn beta as a config file describes.

python scripts/train.py --config scripts/configs/offline.yaml
python scripts/train.py --config scripts/configs/online.yaml --model.init_args.eta 0.5
python scripts/train.py --config scripts/configs/offline.yaml --print_config
"""

from torch_softucb.cli import main

if __name__ == "__main__":
    main()
