"""The command `keras-vit index`; its code is keras_vit/cli/index.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("index")
