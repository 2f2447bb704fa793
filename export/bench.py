"""The command `keras-vit bench`; its code is keras_vit/cli/bench.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("bench")
