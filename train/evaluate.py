"""The command `keras-vit evaluate`; its code is keras_vit/cli/evaluate.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("evaluate")
