"""The command `keras-vit fewshot`; its code is keras_vit/cli/fewshot.py."""

from keras_vit.cli import main

if __name__ == "__main__":
    main("fewshot")
