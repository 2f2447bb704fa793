"""The command `keras-vit compare`; its code is keras_vit/cli/compare.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("compare")
