"""The command `keras-vit android`; its code is keras_vit/cli/android.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("android")
