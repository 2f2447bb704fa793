"""The command `keras-vit web`; its code is keras_vit/cli/web.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("web")
