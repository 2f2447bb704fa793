"""The command `keras-vit zero-shot`; its code is keras_vit/cli/zero_shot.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("zero-shot")
