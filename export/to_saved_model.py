"""The command `keras-vit saved-model`; its code is keras_vit/cli/saved_model.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("saved-model")
