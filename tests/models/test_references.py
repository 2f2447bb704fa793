"""ViTs, hybrids and BiT equal the reference implementations in every stage."""

import numpy as np
import pytest

import keras_vit
from keras_vit import ResNetSpec, ResNetStem, ViTSpec
from keras_vit.models.pretrained import model_class

pytestmark = pytest.mark.flavours

SPECS = {
    "vit_token": ViTSpec(16, 48, 2, 3, 112),
    "vit_token_unpooled": ViTSpec(16, 48, 2, 3, 112, pooling="none"),
    "vit_token_prelogits": ViTSpec(8, 64, 2, 4, 128, representation_dim=40),
    "hybrid_stem": ViTSpec(4, 48, 2, 3, 96, stem=ResNetStem()),
    "hybrid_stages": ViTSpec(2, 48, 2, 3, 96, stem=ResNetStem((2, 1))),
    "bit": ResNetSpec((2, 1, 1, 1)),
}
# Where an array of the fixtures has another name than the intermediate output.
OUTPUTS = {"embedded": "patch_embeddings", "gn_root_out": "gn_root"}


@pytest.mark.parametrize("fixture", SPECS)
def test_every_output_equals_the_reference(fixture, fixtures, seeded_weights):
    spec, expected = SPECS[fixture], np.load(fixtures / f"{fixture}.io.npz")
    size, classes = expected["images"].shape[1:3], expected["logits"].shape[-1]
    model = model_class(spec)(spec, classes, size)
    weights = fixtures / f"{fixture.removesuffix('_unpooled')}.weights.npz"
    if not weights.exists():
        weights = seeded_weights(spec, classes, size)
    keras_vit.load_weights(model, weights)
    names = {key: OUTPUTS.get(key, key) for key in expected.files if key != "images"}
    outputs = model.intermediates(*names.values())(expected["images"])
    for key, name in names.items():
        actual = np.asarray(outputs[name])
        tolerance = 2e-5 if key in ("logits", "embedded") else 5e-5
        if key == "embedded":
            actual = actual.reshape(expected[key].shape)
        elif key.startswith(("gn_root", "conv_root", "block")):
            step = 3 if fixture == "bit" and key != "conv_root" else 4
            actual = actual[:, ::step, ::step]  # the rows and columns in the file
            if fixture == "bit":  # its residual stream is not normalised, and its values reach 80
                tolerance = 5e-6 * np.abs(expected[key]).max()
        np.testing.assert_allclose(actual, expected[key], atol=tolerance, rtol=0, err_msg=key)
