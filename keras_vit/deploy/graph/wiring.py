"""Who reads what in a ViT: which rewrites of its weights are exact.

The encoder runs once with symbolic values, so that no rewrite has a list of layers of its own.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Collection

from keras_vit.encoder.encode import encode
from keras_vit.encoder.ops import Ops
from keras_vit.specs import ResNetSpec, Spec, ViTSpec

# The writer of values that no parameter writes.
_UNKNOWN = "?"
# The end of the name of a query's and key's product that replaces them; see `rewrites.py`.
PROBED = "probed"


@dataclasses.dataclass(frozen=True)
class Attention:
    """One attention layer, by the names of its Dense layers.

    Attributes:
        query, key: the names; of a norm, if one follows the Dense layer.
        value, out: the names.
        constant: the weight from which all queries are computed; None if they depend on the image.
        rotated: whether queries and keys turn by the angles of their positions.
    """

    query: str
    key: str
    value: str
    out: str
    constant: str | None
    rotated: bool


class Wiring:
    """What one symbolic run shows.

    Attributes:
        inputs: for each norm, the parameters whose sum is its input.
        readers: for each norm, the Dense layers that read its output.
        blocked: the norms that something else reads too.
        used: the parameters whose sums are used as they are by something else than a norm.
        scales: for each scale of channels, the Dense layer whose output it multiplies.
        head_norms: for each norm of single heads, the Dense layer whose output it normalises.
        factors: for each norm of a product, the Dense layer whose output is a factor of it.
        reads: for each Dense layer, how many times its output, or a product with it, is read.
        attentions: the attention layers.
        tokens: for each norm, the numbers of first tokens of its output that are read; None: all.
    """

    def __init__(self):
        self.inputs: dict[str, frozenset[str]] = {}
        self.readers: dict[str, list[str]] = {}
        self.blocked: set[str] = set()
        self.used: set[str] = {_UNKNOWN}
        self.scales: dict[str, str] = {}
        self.head_norms: dict[str, str] = {}
        self.factors: dict[str, str] = {}
        self.reads: collections.Counter[str] = collections.Counter()
        self.attentions: list[Attention] = []
        self.tokens: dict[str, set[int | None]] = {}

    @property
    def first_tokens(self) -> int | None:
        """How many first tokens of the encoder's output are read; None for all."""
        counts = self.tokens.get("encoder_norm", {None})
        return None if None in counts else max(counts, default=None)

    @property
    def stream_norms(self) -> list[str]:
        """The norms that read the residual stream, which nothing but norms reads.

        What is subtracted from all channels of the stream, or divides them, has no effect.
        """
        return [norm for norm, writers in self.inputs.items() if not writers & self.used]

    @property
    def stream_sources(self) -> set[str]:
        """The norms whose output is a part of the residual stream."""
        writers = frozenset().union(*(self.inputs[norm] for norm in self.stream_norms))
        return {norm for norm in self.inputs if f"{norm}/gamma" in writers}

    @property
    def scalable_factors(self) -> dict[str, str]:
        """Those of `factors` that only the product reads, which only the norm reads."""
        return {norm: dense for norm, dense in self.factors.items() if self.reads[dense] == 2}

    def foldable(self, parameters: Collection[str]) -> dict[str, list[str]]:
        """For each norm the Dense layers that read it; [] if something else does too.

        A Dense layer that reads several tokens at once has a row of its kernel for each channel of
        each token.
        """
        return {
            norm: [] if norm in self.blocked else [_present(name, parameters) for name in readers]
            for norm, readers in self.readers.items()
        }

    def stream_writers(self, parameters: Collection[str]) -> list[str]:
        """The parameters whose results are added to the residual stream; their last axis is its."""
        writers = frozenset().union(*(self.inputs[norm] for norm in self.stream_norms))
        return sorted(writers & set(parameters))


@functools.cache
def wiring(spec: Spec, head: bool, as_map: bool = False) -> Wiring:
    """The wiring of a model; a BiT has none.

    Args:
        spec: spec of the model.
        head: whether it has a Dense layer "head".
        as_map: whether its output is made of all patches.
    """
    found = Wiring()
    if isinstance(spec, ResNetSpec):
        return found
    ops = _Recorder(spec, found)
    x = encode(ops, _Value(), as_map=as_map)
    ops.use(ops.dense("head", x) if head else x)
    return found


@dataclasses.dataclass(frozen=True)
class _Value:
    """What is known of a tensor.

    Attributes:
        writers: the parameters whose sum it is.
        norm: the norm whose output it is, for one or several tokens, or a mean of tokens.
        dense: the Dense layer whose output it is, perhaps divided into heads.
        factor: if it is a product, the Dense layer whose output is its second factor.
        constant: the weight from which alone it is computed.
        attention: the attention layer whose output it is, without the name of its last Dense.
        rotated: whether it was turned by the angles of positions.
        tokens: the number of first tokens that it has of the norm's output; None for all.
    """

    writers: frozenset[str] = frozenset({_UNKNOWN})
    norm: str | None = None
    dense: str | None = None
    factor: str | None = None
    constant: str | None = None
    attention: Attention | None = None
    rotated: bool = False
    tokens: int | None = None


class _Recorder(Ops):
    """Runs parts with `_Value`s and notes in a `Wiring` who reads them."""

    def __init__(self, spec: ViTSpec, found: Wiring):
        self.spec, self.found = spec, found

    def use(self, *values: _Value) -> None:
        """Notes that the values are used as they are."""
        for x in values:
            self.found.used |= x.writers
            self._block(x)

    def _read(self, x: _Value) -> None:
        self.found.reads.update(filter(None, (x.dense, x.factor)))

    def _block(self, x: _Value) -> None:
        self._read(x)
        if x.norm:
            self.found.blocked.add(x.norm)
            self.found.tokens[x.norm].add(x.tokens)

    def dense(self, name, x):
        name = self.path + name
        self._read(x)
        if x.norm:
            self.found.readers[x.norm].append(name)
            self.found.tokens[x.norm].add(x.tokens)
        if x.attention:
            self.found.attentions.append(dataclasses.replace(x.attention, out=name))
        self.found.used |= x.writers
        writers = frozenset({f"{name}/kernel", f"{name}/bias"})
        return _Value(writers, dense=name, constant=x.constant)

    def norm(self, name, x):
        name = self.path + name
        self._block(x)
        self.found.inputs[name] = x.writers
        if x.dense and _UNKNOWN in x.writers:
            self.found.head_norms[name] = x.dense
        if x.factor:
            self.found.factors[name] = x.factor
        self.found.readers[name], self.found.tokens[name] = [], set()
        return _Value(frozenset({f"{name}/gamma", f"{name}/beta"}), norm=name)

    def scale(self, name, x):
        if x.dense:
            self.found.scales[self.path + name] = x.dense
            return _Value(x.writers)
        self.use(x)
        return _Value()

    def constant(self, name, x):
        name = self.path + name
        return _Value(frozenset({name}), constant=name)

    def tokens(self, x):
        tokens = _Value(frozenset({f"{self.path}class_token"}))
        return tokens if self.spec.prefix_tokens > self.spec.registers else None

    def positions(self, x):
        names = (f"{self.path}class_position", f"{self.path}positions")
        return tuple(_Value(frozenset({name})) for name in names)

    def attend(self, query, key, value):
        self.use(query, key, value)
        names = query.norm or query.dense, key.norm or key.dense, value.dense
        rotated = query.rotated or key.rotated
        found = Attention(*names, out="", constant=query.constant, rotated=rotated)
        return _Value(attention=found)

    def rotate(self, x):
        return dataclasses.replace(x, rotated=True)

    def activation(self, name, x):
        self.use(x)
        return _Value()

    def tanh(self, x):
        return self.activation("tanh", x)

    def normalized(self, x):
        return self.activation("normalized", x)

    def product(self, x, y):
        self.use(x, y)
        return _Value(factor=y.dense)

    def add(self, name, x, y):
        self._block(x)
        self._block(y)
        return _Value(x.writers | y.writers)

    def concat(self, parts, axis=1):
        x, *others = parts
        if x.norm and all(other.norm == x.norm for other in others):
            counts = {part.tokens for part in parts}
            return dataclasses.replace(x, tokens=None if None in counts else max(counts))
        return functools.reduce(functools.partial(self.add, ""), others, x)

    def first(self, x, count):
        return dataclasses.replace(x, tokens=count)

    def rest(self, x, count):
        return dataclasses.replace(x, tokens=None)

    def heads(self, x):
        self.use(x)  # a norm of each head is no norm of all channels
        return dataclasses.replace(x, writers=frozenset({_UNKNOWN}))

    def _same(self, x):
        return x

    patches = mean = flat = _same


def _present(name: str, parameters: Collection[str]) -> str:
    """The Dense layer that takes the place of `name` in the parameters."""
    probed = f"{name.rpartition('/')[0]}/{PROBED}"
    return name if f"{name}/kernel" in parameters else probed
