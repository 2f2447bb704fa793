"""Engines: any number of devices and processes gives the losses of one device.

The number of devices is set before they are used, so these runs are in processes of their own.
"""

import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, runs
from keras_vit._interrupts import TERMINATED
from keras_vit._keras import LEGACY, backend, keras
from keras_vit.cli import fit
from keras_vit.training import Recipe, check_settings, devices, loop, open_engine
from keras_vit.training.engines import Engine
from keras_vit.training.learner import Learner
from keras_vit.training.optimisers import optimizer
from keras_vit.training.tasks import SingleLabel

PROGRAM = Path(__file__).with_name("engine_program.py")
CLIP_NORM = 0.05  # of the program
ROOT = PROGRAM.parents[2]
FLAVOURS = {"tf_keras": {"TF_USE_LEGACY_KERAS": "1"}, "jax": {"KERAS_BACKEND": "jax"}}
STRATEGIES = {"mirrored": "tf_keras", "multiworker": "tf_keras", "jax": "jax"}
_SET_HERE = ("TF_USE_LEGACY_KERAS", "KERAS_BACKEND", "TF_CONFIG", "XLA_FLAGS")


def environment():
    """The variables of this process without those that choose a strategy."""
    return {name: value for name, value in os.environ.items() if name not in _SET_HERE}


def start(out, flavour, variables=(), machine=(), **settings):
    variables = environment() | {"PYTHONPATH": str(ROOT), **FLAVOURS[flavour], **dict(variables)}
    with open(f"{out}.log", "a") as log:
        return subprocess.Popen(
            [*machine, sys.executable, PROGRAM, json.dumps({"out": str(out), **settings})],
            env=variables, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip


def result(process, out):
    printed, _ = process.communicate(timeout=900)
    assert process.returncode == 0, Path(f"{out}.log").read_text()[-3000:]
    return json.loads(printed.splitlines()[-1])


@pytest.fixture(scope="module")
def on_one_device(tmp_path_factory):
    """What one device gives, by flavour; each is trained once."""
    folder = tmp_path_factory.mktemp("one")

    @functools.cache
    def trained(flavour):
        out = folder / flavour
        return result(start(out, flavour), out), weights(out)

    return trained


def weights(out):
    return [dict(np.load(out / name)) for name in ("weights.npz", "weights_ema.npz")]


def assert_equal(found, out, expected):
    """The losses of each step, the held-out metrics, the weights and their average."""
    expected, expected_weights = expected
    count = len(found["losses"])
    # Each gradient was clipped; the first one after a resumption is not known.
    assert found["norms"][1:] == pytest.approx([CLIP_NORM] * (count - 1), rel=1e-3)
    differences = np.subtract(found["losses"], expected["losses"][-count:])
    print(f"{count} losses differ by at most {np.abs(differences).max():.1e}")
    assert found["losses"] == pytest.approx(expected["losses"][-count:], abs=1e-5)
    for name, value in expected["metrics"].items():
        if name != "seconds":
            assert found["metrics"][name] == pytest.approx(value, abs=1e-5), name
    for actual, reference in zip(weights(out), expected_weights, strict=True):
        for name, array in reference.items():
            np.testing.assert_allclose(actual[name], array, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    ("replicas", "accumulate"),
    [
        pytest.param(2, 2, marks=pytest.mark.slow),
        *(pytest.param(*case, marks=pytest.mark.soak(of="devices")) for case in ((2, 1), (4, 1))),
    ],
)
@pytest.mark.parametrize("strategy", ["mirrored", "jax"])
def test_replicas_give_the_losses_of_one_device(
    on_one_device, tmp_path, strategy, replicas, accumulate
):
    out, flavour = tmp_path / "run", STRATEGIES[strategy]
    settings = {"strategy": strategy, "logical_devices": replicas}
    found = result(start(out, flavour, recipe={"accumulate": accumulate}, **settings), out)
    assert found["replicas"] == replicas
    assert_equal(found, out, on_one_device(flavour))


def free_addresses():
    """Two addresses on this machine."""
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in (first, second)]


def start_both(out, strategy, hosts=None, machines=((), ()), **settings):
    """Two processes that know each other's address; the words of `machines` start them."""
    hosts, both = hosts or free_addresses(), []
    for i, machine in enumerate(machines):
        task = {"type": "worker", "index": i}
        variables = {
            "jax": {
                "KERAS_DISTRIBUTION_JOB_ADDRESSES": ",".join(hosts),
                "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
                "KERAS_DISTRIBUTION_PROCESS_ID": str(i),
            },
            "multiworker": {"TF_CONFIG": json.dumps({"cluster": {"worker": hosts}, "task": task})},
        }[strategy]
        flavour = STRATEGIES[strategy]
        both.append(start(out, flavour, variables, machine, strategy=strategy, **settings))
    return both


def wait_for_step_6(both, log):
    while "step 6\n" not in log.read_text():
        assert [each.poll() for each in both] == [None, None], log.read_text()[-3000:]
        time.sleep(0.1)


def run_ip(words):
    subprocess.run(["ip", *words.split()], check=True, capture_output=True, text=True)


@pytest.fixture
def network():
    """Two network namespaces that are joined by a cable: all that is seen of two machines.

    It has their addresses, the words before a command that run it on each of them, and a function
    that plugs the cable in ("up") or out ("down").
    """
    first, second = names = [f"kv{os.getpid()}{side}" for side in "ab"]
    addresses = ("10.77.0.1", "10.77.0.2")
    # JAX connects CPUs to the address that a machine's own name stands for.
    named = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"')
    try:
        try:
            for name in names:
                run_ip(f"netns add {name}")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"network namespaces need root and iproute2: {error}")
        run_ip(f"link add {first} netns {first} type veth peer name {second} netns {second}")
        machines = []
        for name, address in zip(names, addresses, strict=True):
            run_ip(f"-n {name} address add {address}/24 dev {name}")
            for device in (name, "lo"):
                run_ip(f"-n {name} link set {device} up")
            machines.append(["ip", "netns", "exec", name, *named, address])
        yield SimpleNamespace(
            settings={"hosts": [f"{each}:2222" for each in addresses], "machines": machines},
            set_cable=lambda state: run_ip(f"-n {first} link set {first} {state}"),
        )
    finally:
        for name in names:
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                run_ip(f"netns delete {name}")


def assert_go_on(out, strategy, expected, **machines):
    """Two processes that were stopped go on after their checkpoint to the losses of one."""
    step = max(int(path.stem.partition("-")[2]) for path in (out / "checkpoints").iterdir())
    found = [result(each, out) for each in start_both(out, strategy, resume=True, **machines)]
    assert [each["process"] for each in found] == [0, 1]
    for each in found:
        assert (each["replicas"], len(each["losses"])) == (2, 20 - step)
        assert_equal(each, out, expected)
    assert [each["step"] for each in runs.open_run(out).metrics()] == [10, 20]  # by one process


@pytest.mark.soak(of="devices")
@pytest.mark.parametrize("strategy", ["multiworker", "jax"])
def test_two_processes_that_lose_one_end_and_go_on_to_the_losses_of_one(
    on_one_device, tmp_path, strategy
):
    out, log = tmp_path / "run", tmp_path / "run.log"
    chief, other = both = start_both(out, strategy, checkpoint_every="2 steps", pause=0.5)
    wait_for_step_6(both, log)
    other.kill()
    assert chief.wait(timeout=60) == 1
    assert "another of the 2 processes of this run ended" in log.read_text()
    for each in both:
        each.communicate()
    assert_go_on(out, strategy, on_one_device(STRATEGIES[strategy]))


@pytest.mark.soak(of="devices")
@pytest.mark.parametrize("strategy", ["multiworker", "jax"])
def test_two_processes_that_are_told_to_stop_save_and_go_on_to_the_losses_of_one(
    on_one_device, tmp_path, strategy
):
    out, log = tmp_path / "run", tmp_path / "run.log"
    both = start_both(out, strategy, pause=0.5)
    wait_for_step_6(both, log)
    for each in both:
        each.terminate()
    first, other = (each.wait(timeout=60) for each in both)
    assert first == TERMINATED, log.read_text()[-3000:]
    # JAX itself may end a process that has lost the first one.
    assert other in (TERMINATED, *([-signal.SIGABRT] if strategy == "jax" else []))
    for each in both:
        each.communicate()
    assert len(list((out / "checkpoints").iterdir())) == 1
    assert_go_on(out, strategy, on_one_device(STRATEGIES[strategy]))


@pytest.mark.soak(of="devices")
@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("multiworker", "another of the 2 processes of this run ended"),
        ("jax", "heartbeat"),  # JAX ends its processes itself, with a message of its own
    ],
)
def test_two_machines_whose_network_fails_end_and_go_on_to_the_losses_of_one(
    on_one_device, network, tmp_path, strategy, message
):
    out, log = tmp_path / "run", tmp_path / "run.log"
    both = start_both(out, strategy, checkpoint_every="2 steps", pause=0.5, **network.settings)
    wait_for_step_6(both, log)
    network.set_cable("down")
    for each in both:
        assert each.wait(timeout=60) != 0
        each.communicate()
    assert message in log.read_text()
    network.set_cable("up")
    assert_go_on(out, strategy, on_one_device(STRATEGIES[strategy]), **network.settings)


@pytest.mark.slow
def test_the_command_chooses_the_flavour_and_says_so(image_folder, tmp_path, command):
    words = ["train/fit.py", "--data", image_folder, "--model", "ViT_Pico4", "--out", "run"]
    words += ["--duration", "2 steps", "--warmup", "0 steps", "--image-size", 8]
    words += ["--logical-devices", 2]
    options = {"cwd": tmp_path, "env": environment()}
    said = command(*words, "--batch-size", 4, "--dry-run", check=0, **options).stdout
    assert said.startswith("strategy mirrored runs with TF_USE_LEGACY_KERAS=1\n")
    assert " on 2 devices, to " in said
    refused = command(*words, "--batch-size", 5, check=2, **options).stderr
    assert "Received: --batch-size=5; the nearest that they divide: 4 and 6." in refused


@pytest.mark.flavours
@pytest.mark.parametrize(("processes", "size"), [(2, 40), (2, 4), (1, 4)])
def test_every_held_out_image_is_read_by_one_process_and_counts_once(
    rng, size, processes, monkeypatch
):
    keras.utils.set_random_seed(0)
    spec = keras_vit.ViTSpec(patch_size=8, hidden_dim=16, depth=1, num_heads=2, mlp_dim=16)
    model = keras_vit.ViT(spec, 3, 8)
    head = model.get_layer("head")
    head.set_weights([rng.normal(size=(16, 3)).astype(np.float32), np.zeros(3, np.float32)])
    task = SingleLabel(3, label_smoothing=0.1)
    images = rng.integers(0, 256, (13, 8, 8, 3), np.uint8)
    targets = np.eye(3, dtype=np.float32)[np.arange(13) % 3]
    held_out = np.array([12, 0, 1, 2, 3, 4, 5, 6, 7, 9, 10])
    learner = Learner(model, task)
    logits = learner.predict(images[held_out], verbose=0).astype(np.float64)
    read = []

    def batches(source, indices, preprocessing, count):
        import tensorflow as tf

        read.append(indices)
        return tf.data.Dataset.from_tensor_slices((images[indices], indices % 3)).batch(count)

    monkeypatch.setattr(loop.data, "evaluation_batches", batches)
    sums = {"loss": 0.0, "accuracy": 0.0}
    for process in range(processes):
        engine = Engine(replicas=processes, processes=processes, process=process)
        split = SimpleNamespace(held_out=held_out)
        begun = SimpleNamespace(model=model, source=None, split=split, recipe=Recipe(jit=False))
        plan = SimpleNamespace(batch_size=size)
        ready = SimpleNamespace(
            learner=learner, task=task, engine=engine, plan=plan, begun=begun, images=None
        )
        found = loop.HeldOut(ready, []).evaluate()
        assert found.keys() == sums.keys()
        for name in sums:
            sums[name] += found[name] * len(np.unique(read[-1]))
    assert sorted(np.concatenate([np.unique(each) for each in read])) == sorted(held_out)
    log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    smooth = targets[held_out] * 0.9 + 0.1 / 3
    loss = -(smooth * log_probabilities).sum(-1).mean()
    right = (logits.argmax(-1) == targets[held_out].argmax(-1)).mean()
    assert sums["loss"] / len(held_out) == pytest.approx(loss, abs=1e-5)
    assert sums["accuracy"] / len(held_out) == pytest.approx(right)


@pytest.mark.flavours
@pytest.mark.slow
@pytest.mark.skipif(backend() != "tensorflow", reason="TPUStrategy is TensorFlow's")
@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_step_of_a_tpu_compiles_with_static_shapes(small_spec, accumulate):
    import tensorflow as tf

    recipe = Recipe(image_size=16, batch_size=4, accumulate=accumulate, precision="mixed_bfloat16")
    model = keras_vit.ViT(small_spec, 3, 16, dtype=recipe.precision)
    task = SingleLabel(3)
    learner = Learner(model, task, accumulate)
    learner.compile(optimizer=optimizer(recipe, model, 10, 2), loss=task.loss(), jit_compile=True)
    learner.optimizer.build(learner.trainable_variables)

    @tf.function(jit_compile=True)
    def step(images, targets):
        return learner.train_step((images, targets))

    batch = tf.zeros((4, 16, 16, 3), tf.uint8), tf.one_hot([0, 1, 2, 0], 3)
    assert float(step(*batch)["loss"]) == pytest.approx(np.log(3), rel=1e-3)
    program = step.experimental_get_compiler_ir(*batch)(stage="hlo")
    assert "bf16[" in program
    assert "<=" not in program  # how HLO writes a dimension that is not static


def test_a_batch_that_the_replicas_do_not_divide_is_refused(tmp_path):
    Engine(replicas=4).check_batch(32)
    for batch, message in (
        ((30,), "batch_size=30; the nearest that they divide: 28 and 32"),
        ((3,), "batch_size=3; the nearest that they divide: 4[.]"),
        ((32, 3), "each of the 4 replicas, 8. Received: accumulate=3"),
    ):
        with pytest.raises(UsageError, match=message):
            Engine(replicas=4).check_batch(*batch)
    with pytest.raises(UsageError, match="the nearest that they divide: 4 and 6"):
        recipe = Recipe(batch_size=5)
        check_settings("none", recipe, None, tmp_path / "run", engine=Engine(replicas=2))


@pytest.mark.flavours
def test_a_process_maps_its_rows_of_each_batch():
    rows = [Engine(replicas=4, processes=2, process=i).rows(8) for i in range(2)]
    assert [list(range(8))[each] for each in rows] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.flavours
def test_a_strategy_names_the_keras_that_it_needs():
    wrong = "mirrored" if not LEGACY else "jax"
    if wrong == "mirrored" or backend() != "jax":
        with pytest.raises(UsageError, match="set .*=.* before Keras is imported"):
            open_engine(wrong)
    assert open_engine() == Engine()


@pytest.fixture
def set_variables(monkeypatch):
    """Sets these environment variables, and no others that choose a strategy."""
    for name in (*_SET_HERE, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)

    def set_all(variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all


WORKERS = json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker"}})


@pytest.mark.parametrize(
    ("variables", "arguments", "expected"),
    [
        ({}, {}, "one"),
        ({}, {"logical_devices": 4}, "mirrored"),
        ({"KERAS_BACKEND": "jax"}, {}, "one"),
        ({"KERAS_BACKEND": "jax"}, {"logical_devices": 4}, "jax"),
        ({"KERAS_BACKEND": "jax", "JAX_COORDINATOR_ADDRESS": "a:1"}, {}, "jax"),
        ({"KERAS_BACKEND": "jax", "SLURM_STEP_NUM_TASKS": "2"}, {}, "jax"),
        ({"KERAS_BACKEND": "jax", "TPU_WORKER_HOSTNAMES": "a,b"}, {}, "jax"),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, {}, "mirrored"),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, {}, "one"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, {}, "one"),
        ({"KERAS_BACKEND": "jax", "CUDA_VISIBLE_DEVICES": "0,1"}, {}, "jax"),
        ({"TF_CONFIG": WORKERS}, {}, "multiworker"),
        ({"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}}'}, {}, "one"),
        ({}, {"tpu": "local"}, "tpu"),
    ],
)
def test_auto_chooses_the_strategy(set_variables, variables, arguments, expected):
    set_variables(variables)
    assert devices.choose("auto", **arguments) == expected


DEMANDING = [{"lora": 4}, {"remat": True}, {"layer_decay": 0.75}, {"optimizer": "muon"}]


@pytest.mark.parametrize("settings", DEMANDING)
@pytest.mark.parametrize(
    ("variables", "arguments", "with_cuda", "expected"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, {}, True, "jax"),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, {}, False, "one"),  # JAX would train on the CPU
        ({"CUDA_VISIBLE_DEVICES": "0"}, {}, True, "one"),
        ({}, {"logical_devices": 4}, False, "jax"),
    ],
)
def test_auto_chooses_a_strategy_that_can_train_the_recipe(
    monkeypatch, set_variables, settings, variables, arguments, with_cuda, expected
):
    set_variables(variables)
    monkeypatch.setattr(devices, "_jax_has_gpus", lambda: with_cuda)
    assert devices.choose("auto", **arguments, recipe=Recipe(**settings)) == expected


def test_jax_has_gpus_where_its_plugin_is_installed(tmp_path, monkeypatch):
    folder = tmp_path / "jax_cuda12_pjrt-0.10.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: jax-cuda12-pjrt\nVersion: 0.10\n")
    plugin = "[jax_plugins]\nxla_cuda12 = jax_plugins.xla_cuda12\n"
    (folder / "entry_points.txt").write_text(plugin)
    monkeypatch.setattr(sys, "path", [])
    assert not devices._jax_has_gpus()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert devices._jax_has_gpus()


@pytest.mark.parametrize("settings", DEMANDING)
def test_a_recipe_that_a_strategy_cannot_train_is_refused_with_those_that_can(settings):
    (name,) = settings
    with pytest.raises(UsageError, match=f"{name} needs Keras 3; choose strategy='jax' or "):
        devices.choose("mirrored", recipe=Recipe(**settings))
    for strategy in ("jax", "one"):
        assert devices.choose(strategy, recipe=Recipe(**settings)) == strategy


@pytest.mark.flavours
@pytest.mark.skipif(not LEGACY, reason="it is about tf_keras")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lora": 2}, "lora needs Keras 3"),
        ({"remat": True}, "remat needs Keras 3"),
        ({"layer_decay": 0.75}, "layer_decay needs Keras 3"),
        ({"optimizer": "lamb"}, r"tf_keras .* has no Lamb"),
        ({"optimizer": "muon"}, r"tf_keras .* has no Muon"),
        *(({"optimizer": name}, None) for name in ("adamw", "lion", "sgd")),
    ],
)
def test_the_settings_that_need_keras_3_are_those_that_tf_keras_refuses(
    tmp_path, settings, message
):
    recipe = Recipe(**settings)
    assert bool(devices.keras_3_setting(recipe)) == bool(message)
    with pytest.raises(UsageError, match=message) if message else contextlib.nullcontext():
        check_settings("none", recipe, "ViT_Pico4", tmp_path / "run")


def test_fit_says_why_auto_chose_another_strategy(monkeypatch, set_variables, capsys):
    set_variables({"CUDA_VISIBLE_DEVICES": "0,1"})
    monkeypatch.setattr(devices, "_jax_has_gpus", lambda: False)
    arguments = fit.Arguments(model="ViT_Ti16", settings=Recipe(lora=4))
    fit._say_why(arguments, arguments.chosen_strategy(arguments.settings))
    expected = "strategy one instead of mirrored: --lora=4 needs Keras 3; all GPUs need pip install"
    assert capsys.readouterr().out.startswith(expected)


@pytest.mark.parametrize(
    ("strategy", "arguments", "message"),
    [
        ("mirrored", {"tpu": "local"}, "tpu='local' is for strategy='tpu'"),
        ("one", {"logical_devices": 2}, "=2 is for strategy='mirrored' or strategy='jax'"),
        ("miror", {}, "did you mean mirrored"),
        ("auto", {}, "TF_CONFIG must be JSON"),
    ],
)
def test_settings_of_another_strategy_are_refused(set_variables, strategy, arguments, message):
    set_variables({"TF_CONFIG": "{cluster"})
    with pytest.raises(UsageError, match=message):
        devices.choose(strategy, **arguments)
