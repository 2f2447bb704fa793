"""`python -m keras_vit fit` does the same as `keras-vit fit`."""

from keras_vit.cli import main

if __name__ == "__main__":
    main()
