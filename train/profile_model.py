"""The command `keras-vit profile`; its code is keras_vit/cli/profile.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("profile")
