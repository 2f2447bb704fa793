"""The command `keras-vit card`; its code is keras_vit/cli/card.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("card")
