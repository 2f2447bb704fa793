"""The command `keras-vit run`; its code is keras_vit/cli/run.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("run")
