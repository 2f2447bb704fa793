"""The command `keras-vit export`; its code is keras_vit/cli/export.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("export")
