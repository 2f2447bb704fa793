"""Folders of the Hugging Face Hub, by its own client from a server on loopback."""

import hashlib
import http.server
import json
import threading
import urllib.parse

import numpy as np
import pytest
from huggingface_hub import constants, hf_hub_download

import keras_vit
from keras_vit import UsageError
from keras_vit.weights.hub_download import fetch_folder

COMMIT = "0123456789" * 4
NAME, URL = "owner/name.v1", "hf://owner/name.v1"
SPEC = keras_vit.ViTSpec(8, 24, 1, 2, 32, activation="erf")


class Handler(http.server.BaseHTTPRequestHandler):
    """As much of the Hub as its client asks for; `server.models` has the files by name."""

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path.strip("/")
        self.server.requests.append(path)
        owner, name, *rest = path.removeprefix("api/models/").split("/")
        files = self.server.models.get(f"{owner}/{name}")
        revision = urllib.parse.unquote(rest[1]) if len(rest) > 1 else "main"
        if files is None:
            self.answer(401, b"", {"X-Error-Code": "RepoNotFound"})
        elif revision not in ("main", "refs/pr/1", COMMIT):
            self.answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
        elif rest[0] == "resolve":
            self.file(files[rest[-1]])
        elif rest[0] == "tree":
            self.answer(200, json.dumps([described(*file) for file in files.items()]).encode())
        else:
            siblings = [{"rfilename": file} for file in files]
            about = {"id": NAME, "sha": COMMIT, "siblings": siblings}
            self.answer(200, json.dumps(about).encode())

    def do_HEAD(self):
        self.do_GET()

    def file(self, content):
        if self.server.gated:
            return self.answer(401, b"", {"X-Error-Code": "GatedRepo"})
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        return self.answer(200, content, {"ETag": etag, "X-Repo-Commit": COMMIT})

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def described(path, content):
    oid = hashlib.sha1(content).hexdigest()
    return {"type": "file", "path": path, "size": len(content), "oid": oid}


@pytest.fixture
def model(randomised):
    labels = ["cat", "dog", "horse"]
    return randomised(keras_vit.ViT(SPEC, 3, 32, labels=labels, name="small"))


@pytest.fixture
def hub(model, tmp_path, monkeypatch):
    """A Hub with one model, which also has files that nobody needs."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("KERAS_VIT_OFFLINE", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    keras_vit.save_weights(model, tmp_path / "model.safetensors", "transformers")
    files = ("config.json", "preprocessor_config.json", "model.safetensors")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.models = {NAME: {file: (tmp_path / file).read_bytes() for file in files}}
        server.models[NAME] |= {"pytorch_model.bin": b"pickle", "a/model.safetensors": b"other"}
        server.requests, server.gated = [], False
        here = f"http://127.0.0.1:{server.server_port}"
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, here)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "ENDPOINT", here)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("url", [URL, f"{URL}@refs/pr/1", f"{URL}@{COMMIT}"])
def test_a_folder_gives_its_model_and_is_downloaded_once(url, hub, model, rng):
    images = rng.normal(size=(2, 32, 32, 3)).astype(np.float32)
    expected = model.predict(images, verbose=0)
    loaded = keras_vit.model_from_weights(url)
    np.testing.assert_allclose(loaded.predict(images, verbose=0), expected, atol=1e-5)
    assert loaded.labels == model.labels
    assert loaded.preprocessing == model.preprocessing
    fetched = {path.partition(COMMIT)[2] for path in hub.requests if "resolve" in path}
    assert fetched == {"/config.json", "/preprocessor_config.json", "/model.safetensors"}
    hub.requests.clear()
    assert keras_vit.model_from_weights(url).labels == model.labels
    assert hub.requests == []


def test_offline_only_the_cache_is_used(hub, monkeypatch):
    monkeypatch.setenv("KERAS_VIT_OFFLINE", "1")
    refused(f"not in the cache.*hf download {NAME} --local-dir")
    assert hub.requests == []
    # A folder of which another program has only downloaded the config is completed.
    monkeypatch.delenv("KERAS_VIT_OFFLINE")
    hf_hub_download(NAME, "config.json")
    monkeypatch.setenv("KERAS_VIT_OFFLINE", "1")
    refused("not in the cache")
    monkeypatch.delenv("KERAS_VIT_OFFLINE")
    assert (fetch_folder(URL) / "model.safetensors").is_file()


def test_further_files_are_fetched_if_the_cache_has_none_of_them(hub):
    hub.models[NAME]["tokenizer.json"] = b"{}"
    assert not (fetch_folder(URL) / "tokenizer.json").exists()
    hub.requests.clear()
    folder = fetch_folder(URL, further=("tokenizer.json", "spiece.model"))
    assert (folder / "tokenizer.json").read_bytes() == b"{}"
    assert any("tokenizer.json" in path for path in hub.requests)
    hub.requests.clear()
    assert fetch_folder(URL, further=("tokenizer.json", "spiece.model")) == folder
    assert hub.requests == []


def refused(message, url=URL, **options):
    with pytest.raises(UsageError, match=message) as error:
        fetch_folder(url, **options)
    assert "\n" not in str(error.value)


def test_what_the_hub_refuses_is_said_in_one_line(hub):
    refused("there is no such model on the Hub, or it is private", "hf://owner/other")
    refused("no such revision", f"{URL}@v9")
    for url in ("hf://name", "hf://a/b/c", "hf://a b/c", f"{URL}@", "hf://a/b?x=1", "hf://../b"):
        refused("expected hf://OWNER/NAME|the Hub has no such names", url)
    hub.gated = True
    refused(f"accepted first, on https://huggingface.co/{NAME}; then log in with 'hf auth login'")


def test_a_folder_without_one_file_of_weights_is_refused(hub):
    del hub.models[NAME]["model.safetensors"]
    refused("has no model.safetensors: its weights are pickles")


def test_a_server_that_is_not_there(hub):
    hub.shutdown()
    hub.server_close()
    refused("the Hub cannot be reached; download it where there is a network")


def test_a_pinned_hash_is_checked(hub):
    content = hub.models[NAME]["model.safetensors"]
    fetch_folder(URL, sha256=hashlib.sha256(content).hexdigest())
    refused("another sha256 than expected", sha256="0" * 64)
