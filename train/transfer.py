"""The command `keras-vit transfer`; its code is keras_vit/cli/transfer.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("transfer")
