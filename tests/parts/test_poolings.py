"""Poolings use only what `InferenceGraph` declares, and export's graph has all of it."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from keras_vit.parts import poolings
from keras_vit.parts.poolings.pooling import InferenceGraph

METHODS = {
    name: f for name, f in vars(InferenceGraph).items() if inspect.getdoc(f) and name[0] != "_"
}
DECLARED = {*InferenceGraph.__annotations__, *METHODS}


@pytest.mark.parametrize("file", sorted(Path(poolings.__file__).parent.glob("*.py")))
def test_poolings_use_only_what_is_declared(file):
    tree = ast.parse(file.read_text())
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "graph"
    }
    assert used <= DECLARED


def test_the_graph_of_an_export_has_all_that_is_declared():
    from keras_vit.deploy.graph.inference import GraphOptions, _Graph

    graph = _Graph(None, {}, GraphOptions(), {})
    assert not [name for name in DECLARED if not hasattr(graph, name)]
    for name, method in METHODS.items():
        _, *declared = inspect.signature(method).parameters
        arguments = dict.fromkeys(declared)
        inspect.signature(getattr(graph, name)).bind(**arguments)
