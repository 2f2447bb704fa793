"""The benchmark of docs/guide-coming-from.md; other libraries are not installed for the tests."""

import migrations
import numpy as np
import pytest

import keras_vit


@pytest.mark.parametrize("library", migrations.LIBRARIES, ids=lambda library: library.section)
def test_each_section_has_a_program_for_each_side(library):
    first, second = migrations._programs(library.section)
    compile(f"{library.before}\n{first}\n{library.after}", library.section, "exec")
    assert "model_from_weights" in second


def test_the_file_of_one_program_is_read_by_the_other(
    monkeypatch, small_spec, tmp_path, randomised
):
    """The answer of a library whose model is the same, and of one that differs."""
    model = randomised(keras_vit.ViT(small_spec, num_classes=5, image_size=48))
    images = np.random.default_rng(0).uniform(-1, 1, (2, 48, 48, 3)).astype(np.float32)
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    np.savez(tmp_path / "answer.npz", i=images, l=model.predict(images, verbose=0))
    first = f"import shutil; shutil.copytree({str(tmp_path)!r}, '.', dirs_exist_ok=True)"
    second = 'import keras_vit\nmodel = keras_vit.model_from_weights("weights.npz"{})'
    after = "import numpy; images, logits = numpy.load('answer.npz').values()"
    library = migrations.LIBRARIES[0]._replace(before="", after=after)
    differences = []
    for options in ("", ', activation="erf"'):
        programs = (first, second.format(options))
        monkeypatch.setattr(migrations, "_programs", lambda section, found=programs: found)
        differences.append(migrations._difference(library, migrations.sys.executable))
    assert differences[0] < 1e-6 < differences[1]
