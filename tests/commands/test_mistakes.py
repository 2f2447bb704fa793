"""Mistakes in a command line end it with one line, before anything slow is imported."""

import importlib
import shlex
import shutil
import sys

import pytest

from keras_vit.cli import COMMANDS, main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a run, trials as compare writes them, a bundle and other files."""
    for file in (
        "run/spec.json", "trials/a/spec.json", "bundle/model.json", "int8/model.tflite",
        "swept/sweep.json", "sweeping/lr-0.001/spec.json", "compared/compare.json", "0.png",
        "pictures/a/1.jpg", "pictures/b/2.jpg", "empty/.hidden", "full/notes.txt", "in.npz",
        "there.npz",
    ):  # fmt: skip
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    for name, words in {"words": "cat dog", "twice": "cat cat", "gap": "cat  dog"}.items():
        (tmp_path / f"{name}.txt").write_text(words.replace(" ", "\n"))
    (tmp_path / "none.txt").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit --model ViT_B17", "unknown model 'ViT_B17'; did you mean ViT-B_16?"),
        ("fit --data nowhere", "nowhere: expected a folder"),
        ("fit --data empty", "empty: expected two subfolders or more"),
        ("fit --data digit", "there is no such folder, did you mean digits?"),
        ("fit --weights run", "run is a run; use run/weights.npz."),
        ("fit --weights gone.npz", "gone.npz: there is no such file of weights."),
        ("fit --recipe finetun", "--recipe: unknown value 'finetun'; did you mean finetune?"),
        ("fit --recipe finetune", "finetune is for any images; give yours: --data FOLDER."),
        ("fit --recipe finetune --data digits", "starts from weights. Received: no --weights"),
        ("fit --duration soon", "--duration must be a number and a unit, such as '5 epochs'"),
        ("fit --warmup soon", "--warmup must be a number and a unit"),
        ("fit --warmup 100%", "--warmup must be shorter than training, --duration '40 epochs'"),
        ("fit --image-size 30", "must be a multiple of patch_size=4. Received: 30 x 30"),
        ("fit --batch-size 0", "--batch-size must be a positive integer. Received: --batch-size=0"),
        ("fit --batch 8", "unknown option --batch; in Python, keras_vit.export_tflite(..., batch"),
        ("fit --epochs 3", "unknown option --epochs; did you mean --duration?"),
        ("fit --wd 0.1", "unknown option --wd; did you mean --weight-decay?"),
        ("fit --seed 8589934592", "--seed must be below 2**32. Received: --seed=8589934592."),
        ("fit --model BiT_R50x1 --drop-path 0.1", "BiT-R50x1 is a ResNet, --drop-path is a set"),
        ("fit --distillation soft", "--distillation soft needs a teacher: name its run folder"),
        ("fit --checkpoint-every soon", "--checkpoint-every must be a number and a unit"),
        ("fit --checkpoint-every '0 steps'", "Received: --checkpoint-every '0 steps'"),
        ("fit --keep-checkpoints 0", "--keep-checkpoints must be a positive integer"),
        ("fit --data pictures --out pictures/run", "lies inside the data"),
        ("fit --out full --model ViT_Pico4", "full is not empty and is not a run"),
        ("fit --out 0.png", "0.png is a file; choose another folder."),
        ("fit --out run/spec.json --dry-run", "spec.json is a file; choose another folder."),
        ("fit --out gone --resume", "gone: expected a run folder; there is no such folder."),
        ("compare --models ViT_Ti16,ViT_B17", "unknown model 'ViT_B17'; did you mean ViT-B_16"),
        ("compare --models ViT_Ti16 --image-size 30", "must be a multiple of patch_size=16"),
        ("compare --fractions 0.1,2", "--fractions must lie in (0, 1]. Received: 2.0"),
        ("compare --seeds 0,1", "--seeds is how many seeds to train with, 1 or more, not"),
        ("compare --seeds 3 1", "one for each of 1 --fractions. Received: 2 numbers"),
        ("compare --lr 1e-3", "unknown option --lr; did you mean --learning-rate?"),
        ("compare --recipe finetune", "finetune is for any images; give yours: --data"),
        ("compare --recipe finetune --data digits", "--recipe finetune starts from weights"),
        ("compare --out run/spec.json/x", "spec.json is a file; choose another folder."),
        ("compare --out run", "run is the folder of a run; choose another folder."),
        ("compare --out swept", "swept is the folder of a sweep; choose another folder."),
        ("compare --out sweeping", "sweeping is the folder of a sweep; choose another folder."),
        ("sweep --out compared", "compared is the folder of a compare; choose another folder."),
        ("sweep --out .", ". is the folder of a compare; choose another folder."),  # it has trials
        ("sweep --lr 1e-3 3e-3", "unknown option --lr; did you mean --learning-rates?"),
        ("sweep --warmup 100%", "--warmup must be shorter than training"),
        ("sweep --distillation hard", "distillation needs a teacher, which only fit has"),
        ("sweep --learning-rates 0", "--learning-rates must be positive. Received: 0.0"),
        ("sweep --development 0", "--development must lie in (0, 1)"),
        ("sweep --data digit", "did you mean digits?"),
        ("sweep --out run/spec.json", "run/spec.json is a file; choose another folder."),
        ("transfer", "transfer begins with weights. Received: none"),
        ("transfer --weights a --run .", "expected --run or --weights. Received: both"),
        ("transfer --weights a --tasks cifar1", "unknown value 'cifar1'; did you mean cifar10"),
        ("transfer --weights a --sources cifar10", "must be a task, = and its images"),
        ("transfer --weights augreg --image-size 30", "must be a multiple of patch_size=16"),
        ("transfer --weights augreg --learning-rates 0", "--learning-rates must be positive"),
        ("transfer --weights augreg --out run", "run is the folder of a run; choose another fol"),
        ("evaluate --run nope", "nope: expected a run folder; there is no such folder."),
        ("evaluate --run .", ". holds runs; give one of them: run, trials/a."),
        ("evaluate --run bundle", "expected a run folder. Received: a folder without spec.json"),
        ("evaluate --batch-size 0", "--batch-size must be a positive integer"),
        ("evaluate --min-accuracy 97.5", "--min-accuracy must lie in [0, 1]."),
        ("evaluate --weights a", "there is no such file; published weights need --model"),
        ("evaluate --weights full --run .", "expected --run or --weights. Received: both"),
        ("evaluate --model ViT_B16", "--model is only used with --weights"),
        ("evaluate --out here", "--out is only used with --weights"),
        ("evaluate --weights in.npz --average --data digits", "--average is for a run"),
        ("evaluate --weights in.npz", "--weights need --data, the images"),
        ("inspect --run nope", "nope: expected a run folder; there is no such folder."),
        ("inspect --run run gone.jpg", "gone.jpg: there is no such picture."),
        ("inspect --run run --out run", "run is not empty and holds no inspection; choose"),
        ("inspect --run run --block 0", "--block must be a positive integer. Received: --block=0."),
        ("inspect --weights in.npz", "--weights need --out, the folder to write."),
        ("inspect --weights in.npz --out o --average", "--average is only used with a run"),
        ("predict", "expected pictures, as in: keras-vit predict photo.jpg"),
        ("predict 0.png", "no run under "),
        ("predict 0.png --run .", ". holds runs; give one of them: run, trials/a."),
        ("predict 0.png --run nope", "nope: expected a run folder; there is no such folder."),
        ("predict 0.png --run run/spec.json", "Received: a file; pass run."),
        ("predict 0.png --run run --bundle b", "expected one of --run, --bundle and --weights"),
        ("predict 0.png --model ViT_B16", "--model is only used with --weights"),
        ("predict 0.png --weights augreg", "published weights need --model, such as ViT_B16"),
        ("predict 0.png --weights run", "run is a run; use --run run."),
        ("predict 0.png --bundle full", "full: expected a bundle's folder. Received: something"),
        (
            "predict 0.png --run int8",
            "Received: an exported bundle; a run is needed, or its weights",
        ),
        ("predict 0.png --weights int8", "expected weights. Received: an exported bundle; a run"),
        ("predict 0.png --top-k 0", "--top-k must be a positive integer"),
        ("predict --run run empty", "empty contains no pictures (.jpg"),
        ("export --run run --golden gone.png", "--golden gone.png: there is no such file."),
        ("export", "make one with: keras-vit fit --data digits --out runs/digits"),
        ("export --run nope", "nope: expected a run folder; there is no such folder."),
        ("export --run .", ". holds runs; give one of them: run, trials/a."),
        ("export --images 0", "--images must be a positive integer. Received: --images=0"),
        ("export --calibrate 0", "--calibrate must be a positive integer. Received: --calibrate=0"),
        ("export --threads 0", "--threads must be a positive integer"),
        ("export --image-size -8", "--image-size must be a positive integer. Received: "),
        ("export --quantize int2", "unknown value 'int2'; did you mean int8 or int4?"),
        ("export --max-drop -1", "--max-drop must not be negative. Received: --max-drop=-1.0"),
        ("export --min-runtime soon", "--min-runtime must be a version of TFLite such as 2.16.1"),
        ("export --model ViT-B_16", "--model is only used with --weights; a run already"),
        ("export --weights a.npz --run run", "expected --run or --weights. Received: both"),
        ("export --weights a.npz", "--weights need --out, the folder to write"),
        ("export --weights a.npz --out b", "a.npz: there is no such file of weights."),
        ("export --weights run --out o", "run is a run; use --run run."),
        ("export --weights in.npz --out o --data nowhere", "nowhere: expected a folder"),
        ("export --weights in.npz --out o --quantize int8", "int8 needs images to measure ranges"),
        ("export --weights in.npz --out o --quantize auto --recipe r.json", "r.json does not exi"),
        ("saved-model --top-k 0", "--top-k must be a positive integer. Received: --top-k=0"),
        ("saved-model --images 0", "--images must be a positive integer. Received: --images=0"),
        ("saved-model --weights a.npz", "--weights need --out, the folder to write"),
        ("saved-model --weights a --model B --out o", "unknown model 'B'; choose one of "),
        ("saved-model --run run --out run", "run is not empty and holds no SavedModel; choose"),
        ("card --run run --out run", "run has other files than those of a card, such as 'spec.js"),
        ("web --bundle bundle --out run", "run is not empty and holds no site; choose another"),
        ("web --bundle bundle --page gone", "gone: expected the folder web_demo of a clone; there"),
        ("android --bundle bundle --app gone", "gone: expected the folder android_demo of a clone"),
        ("compress --run run --method shrink", "unknown value 'shrink'; choose one of qat, prune"),
        ("compress --run run --quantize none", "qat trains for a file of one of dynamic, "),
        ("compress --run run --method prune --sparsity 1.5", "sparsity must lie in [0, 1). Recei"),
        ("compress --run run --method cluster --clusters 1", "clusters must be 2 to 256. Received"),
        ("compress --run run --method cluster --clusters 257", "must be 2 to 256. Received"),
        ("compress --run run --sparsity 0.7", "needs a method with prune. Received: --method qat"),
        ("compress --run run --method qat --clusters 8", "--clusters needs a method with cluster."),
        ("compress --run run --out /proc/x", "/proc cannot be written to; choose another folder"),
        ("compress --run run --duration soon", "--duration must be a number and a unit"),
        ("compress --run run --learning-rate -1", "--learning-rate must not be negative"),
        ("compress --run run --threads 1000", "--threads must be 256 at most. Received: --threads"),
        ("compress --run run --threads 0", "--threads must be a positive integer"),
        ("index", "expected keras-vit index --bundle FOLDER PICTURES"),
        ("index photos --bundle run", "run: expected a bundle's folder. Received: a run"),
        ("index gone --bundle bundle", "gone: there is no such picture"),
        ("zero-shot", "Received: no --weights and no --out and no --labels"),
        ("zero-shot --weights full --out zs", "Received: no --labels."),
        ("zero-shot --weights gone --labels words.txt --out zs", "gone: there is no such folder"),
        ("zero-shot --weights run --labels words.txt --out zs", "run is a run; use"),
        ("zero-shot --weights full --labels gone.txt --out zs", "gone.txt does not exist."),
        ("zero-shot --weights full --labels words.txt --out full", "full is not empty"),
        ("zero-shot --weights full --labels words.txt --relabel full --out zs", "bundle float16"),
        ("zero-shot --weights full --labels words.txt --out zs --output features", "features"),
        ("zero-shot --weights full --labels twice.txt --out zs", "the label 'cat' is there twice"),
        ("zero-shot --weights full --labels gap.txt --out zs", "label 2 is empty; name the class"),
        ("zero-shot --weights full --labels none.txt --out zs", "expected one to 50,000 labels"),
        (
            "zero-shot --weights full --labels words.txt --templates twice.txt --out zs",
            "template 1 must be a line of text with {} where the label goes",
        ),
        (
            "zero-shot --weights full --labels words.txt --out zs --quantize int8",
            "int8 needs images",
        ),
        ("convert-checkpoint", "expected IN and OUT, or --inspect FILE"),
        ("convert-checkpoint in.npz", "expected IN and OUT, or --inspect FILE"),
        ("convert-checkpoint in.npz o.npz --inspect in.npz", "--inspect FILE writes nothing"),
        ("convert-checkpoint --inspect in.npz --activation erf", "leave --activation out"),
        ("convert-checkpoint --inspect in.npz --to npz", "FILE writes nothing; leave --to out"),
        ("convert-checkpoint gone.npz out.npz", "gone.npz: expected a file of weights or a run"),
        ("convert-checkpoint --inspect gone.npz", "gone.npz: expected a file of weights or a run"),
        (
            "convert-checkpoint int8 o.npz",
            "int8 is an exported bundle, which cannot be converted b",
        ),
        ("convert-checkpoint trials out.npz", "trials holds runs; give one of them: trials/a."),
        ("convert-checkpoint --inspect trials", "trials holds runs; give one of them: trials/a."),
        ("convert-checkpoint in.npz in.npz", "in.npz is IN itself; choose another OUT"),
        ("convert-checkpoint run run/weights.npz --overwrite", "run/weights.npz is IN itself; ch"),
        ("convert-checkpoint in.npz run/more.npz", "run/more.npz would be a file of the run run;"),
        ("convert-checkpoint in.npz in.npz/out.npz", "in.npz is a file; choose another folder"),
        ("convert-checkpoint in.npz there.npz", "there.npz exists; choose another OUT or --overwr"),
        ("convert-checkpoint in.npz out.h5", "expected .npz, .safetensors, .keras or a folder, or"),
        ("convert-checkpoint in.npz out.h5 --to keras", "expected a name that ends in .keras"),
        ("convert-checkpoint in.npz full --overwrite", "full is not empty and holds no SavedModel"),
        ("convert-checkpoint in.npz out.npz --num-classes -1", "must not be negative"),
    ],
)
def test_a_mistake_is_one_line_before_anything_slow_is_imported(
    folder, monkeypatch, capsys, line, message
):
    def load(*modules):
        raise AssertionError("the modules of the command were imported")

    name, *words = shlex.split(line)
    command = importlib.import_module(f"keras_vit.cli.{name.replace('-', '_')}")
    monkeypatch.setattr(command, "load", load)
    monkeypatch.setattr(sys, "argv", ["keras-vit", name, *words])
    before = sorted(folder.rglob("*"))
    with pytest.raises(SystemExit) as stop:
        main()
    out, error = capsys.readouterr()
    assert (stop.value.code, out) == (2, ""), error
    assert error.startswith(f"keras-vit {name}: ")
    (shown,) = error.strip().splitlines()
    assert message in shown
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit --recipe finetune-pets --dry-run", "oxford_iiit_pet"),
        (
            "evaluate --split test",
            "digits declares no splits. Received: --split test; the images that training held out "
            "are --split held_out.",
        ),
        (
            "evaluate --weights augreg --model ViT_S16 --data imagenet2012",
            "after downloading ILSVRC2012_img_train.tar",
        ),
        ("inspect --block 9", "block must be from 1 to 1, as the model has. Received: 9."),
        ("inspect --average", "has no average of its weights"),
        ("inspect --image-size 20", "must be a multiple of patch_size=8"),
        ("compress --duration '0 steps'", "--duration '0 steps' is less than one step of training"),
        ("export --recipe r.json", "recipe can only be used with --quantize auto. Received: --qu"),
        ("export --weights in.npz --out o --image-size 17", "must be a multiple of patch_size=16."),
        ("convert-checkpoint in.npz o.npz --image-size 40", "--image-size must be a multiple of p"),
        ("convert-checkpoint --inspect a.txt", "is not a complete .npz or .safetensors file"),
    ],
)
def test_a_mistake_that_only_files_show_is_one_line(
    refused, run, fixtures, tmp_path, monkeypatch, line, message
):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    shutil.copy(fixtures / "vit_token.weights.npz", tmp_path / "in.npz")
    (tmp_path / "a.txt").touch()
    before = sorted(tmp_path.rglob("*"))
    name, *words = shlex.split(line)
    assert message in refused(COMMANDS[name], *words)
    assert sorted(tmp_path.rglob("*")) == before
