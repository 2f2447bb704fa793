"""The command `keras-vit sweep`; its code is keras_vit/cli/sweep.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("sweep")
