"""The command `keras-vit convert-checkpoint`; its code is keras_vit/cli/convert_checkpoint.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("convert-checkpoint")
