"""The command `keras-vit inspect`; its code is keras_vit/cli/inspect.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("inspect")
