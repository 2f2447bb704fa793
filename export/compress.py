"""The command `keras-vit compress`; its code is keras_vit/cli/compress.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("compress")
