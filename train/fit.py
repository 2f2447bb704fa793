"""The command `keras-vit fit`; its code is keras_vit/cli/fit.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("fit")
