"""Write the graph that queries are computed by: ``python -m docs.query_graph``; needs `onnx`.

The installed model's weights are bytes, and its own graph makes floats of them before it computes.
This one computes with the bytes. It holds no weights: each of them is a place in the file of the
installed model, which is given to it when it is loaded. It takes one text at a time, so that
nothing pads and nothing is masked, and it returns the vectors of the text's tokens.

Each input of a multiplication is brought to bytes by one scale for all tokens of the text. So a
text would have slightly other numbers beside another text; alone, it always has the same.

Processors without instructions for just that add two products of a byte and a signed byte in 16
bits, and cut what does not fit. With these weights that happens in the matrices of attention, and
shows: theirs are made unsigned there, which is exact, and half as fast. When the graph is loaded
it multiplies the greatest bytes, and by what comes out one of the two is left of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx  # type: ignore[import-not-found,unused-ignore]  # the dependency group `graph`
from onnx import TensorProto, helper

from hookgate.builtin_plugins.embedding.onnx import QUERY_GRAPH, find_files
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings

LAYERS, HEADS, DIMENSION, INNER = 6, 12, 384, 1536
EPSILON = 1e-12
CONTRIB = "com.microsoft"
"""The operators of onnxruntime that are not in the standard."""

PROBE = 4, 64, 16
"""Rows, columns, and columns of the other one, of the matrices that are multiplied for a trial."""

TYPES: dict[Any, int] = {TensorProto.INT8: 1, TensorProto.UINT8: 1, TensorProto.FLOAT: 4}
"""The bytes of a number."""


class Graph:
    """A graph in the making.

    Args:
        weights: The file of the installed model.
    """

    def __init__(self, weights: Path) -> None:
        self._file, self._bytes = weights.name, weights.read_bytes()
        self._held = {one.name: one for one in onnx.load(weights).graph.initializer}
        self._nodes: list[Any] = []
        self._named = 0
        self._weights: dict[str, Any] = {}
        self._constants: list[Any] = []
        self._whole = self.adds_whole()

    def matrices(self) -> list[str]:
        """Return the names of the matrices of all layers, in the order of the computation."""
        found = [name[:-2] for name in self._held if re.fullmatch(r"val_\d+_q", name)]
        return sorted(found, key=lambda name: int(name[4:]))

    def weight(self, name: str, *shape: int, kind: int | None = None) -> str:
        """Take a tensor of the installed model, or the first rows of it, by its place there.

        Args:
            name: Its name there.
            shape: Its shape here.
            kind: The type that its bytes are read as; its own without it.
        """
        held = self._held[name]
        kind = held.data_type if kind is None else kind
        at = self._bytes.index(held.raw_data)
        length = TYPES[kind]
        for side in shape:
            length *= side
        assert length <= len(held.raw_data)
        name = name if kind == held.data_type else f"{name}.{kind}"
        tensor = TensorProto(name=name, data_type=kind, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", self._file), ("offset", at), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        self._weights[name] = tensor
        return name

    def node(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **more: Any) -> Any:
        """Add a node; return the name of its output, or the names of several."""
        self._named += 1
        names = [f"{kind}.{self._named}.{at}" for at in range(outputs)]
        self._nodes.append(helper.make_node(kind, inputs, names, domain=domain, **more))
        return names[0] if outputs == 1 else names

    def constant(self, name: str, kind: int, values: list[int], *shape: int) -> str:
        """Take numbers that are the same for every text; return their name."""
        self._constants.append(helper.make_tensor(name, kind, shape, values))
        return name

    def either(self, condition: str, one: Callable[[], str], other: Callable[[], str]) -> Any:
        """Return what one of two computes, by a condition that is known when this is loaded."""
        around, branches = self._nodes, []
        for compute in (one, other):
            self._nodes = []
            out = helper.make_tensor_value_info(compute(), TensorProto.FLOAT, None)
            branches.append(helper.make_graph(self._nodes, out.name, [], [out]))
        self._nodes = around
        return self.node("If", condition, then_branch=branches[0], else_branch=branches[1])

    def adds_whole(self) -> str:
        """Return whether products of bytes and signed bytes are added whole, as a condition."""
        rows, inner, columns = PROBE
        least = [
            self.node(
                "ConstantOfShape",
                self.constant(f"probe.{value}", TensorProto.INT64, [*shape], 2),
                value=helper.make_tensor("value", kind, [1], [value]),
            )
            for kind, value, shape in (
                (TensorProto.UINT8, 255, (rows, inner)),
                (TensorProto.INT8, 127, (inner, columns)),
            )
        ]
        found = self.node("ReduceMin", self.node("MatMulInteger", *least), keepdims=0)
        due = self.constant("probe", TensorProto.INT32, [inner * 255 * 127])
        condition: str = self.node("Equal", found, due)
        return condition

    def model(self, states: str) -> Any:
        """Return the whole: ids of tokens go in, their `states` come out."""
        self._nodes.append(helper.make_node("Identity", [states], ["states"]))
        ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])
        out = helper.make_tensor_value_info("states", TensorProto.FLOAT, [1, "tokens", DIMENSION])
        held = [*self._constants, *self._weights.values()]
        graph = helper.make_graph(self._nodes, "queries", [ids], [out], held)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    # -- parts of the model --------------------------------------------------

    def norm(self, states: str, name: str) -> str:
        """Bring each token's vector to mean 0 and variance 1."""
        # Fused with the addition before it, it takes five times as long.
        scale = self.weight(f"{name}.weight", DIMENSION)
        bias = self.weight(f"{name}.bias", DIMENSION)
        made: str = self.node("LayerNormalization", states, scale, bias, axis=-1, epsilon=EPSILON)
        return made

    def bytes_of(self, states: str) -> list[str]:
        """Bring vectors to bytes: return them, their scale, and the byte that stands for 0."""
        made: list[str] = self.node("DynamicQuantizeLinear", states, outputs=3)
        return made

    def product(
        self, values: list[str], name: str, rows: int, columns: int, bias: str, exact: bool = False
    ) -> str:
        """Multiply bytes by a matrix of bytes, and return floats.

        Args:
            values: What `bytes_of` returned.
            name: The matrix.
            rows: Its rows.
            columns: Its columns.
            bias: What is added; "" for nothing.
            exact: Whether no sum may be cut on any processor.
        """
        scales = self.weight(f"{name}_scale", columns)
        added = self.weight(bias, columns) if bias else ""

        def times(matrix: str, middle: str = "") -> str:
            made: str = self.node(
                "MatMulIntegerToFloat", values[0], matrix, values[1], scales, values[2], middle,
                added, domain=CONTRIB,
            )  # fmt: skip
            return made

        signed = self.weight(f"{name}_q", rows, columns)
        if not exact:
            return times(signed)
        same = self.weight(f"{name}_q", rows, columns, kind=TensorProto.UINT8)
        # The other half of the byte's values: done once, when the graph is loaded.
        made: str = self.either(
            self._whole,
            lambda: times(signed),
            lambda: times(self.node("BitwiseXor", same, "middle"), "middle"),
        )
        return made

    def embeddings(self) -> str:
        """Return the vectors that the tokens begin with."""
        name = "inner.embeddings."
        words, places = f"{name}word_embeddings.weight", f"{name}position_embeddings.weight"
        found = self.node("Gather", self.weight(f"{words}_q", 30522, DIMENSION), "input_ids")
        scales = self.node("Gather", self.weight(f"{words}_scale", 30522, 1), "input_ids")
        states = self.node("Mul", self.node("Cast", found, to=TensorProto.FLOAT), scales)
        # What does not hang on the text is computed once, when the graph is loaded.
        table = self.node("Cast", self.weight(f"{places}_q", 512, DIMENSION), to=TensorProto.FLOAT)
        table = self.node("Mul", table, self.weight(f"{places}_scale", 512, 1))
        kind = self.weight(f"{name}token_type_embeddings.weight", DIMENSION)
        table = self.node("Add", table, kind)
        count = self.node("Shape", "input_ids", start=1, end=2)
        zero = self.constant("zero", TensorProto.INT64, [0], 1)
        table = self.node("Slice", table, zero, count, zero)
        return self.norm(self.node("Add", states, table), f"{name}LayerNorm")

    def layer(self, states: str, number: int, matrices: list[str]) -> str:
        """Return what a layer makes of the tokens' vectors."""
        name = f"inner.encoder.layer.{number}."
        query, key, value, out, wide, narrow = matrices
        values = self.bytes_of(states)
        heads = [
            self.product(
                values, matrix, DIMENSION, DIMENSION, f"{name}attention.self.{what}.bias", True
            )
            for matrix, what in ((query, "query"), (key, "key"), (value, "value"))
        ]
        seen = self.node("MultiHeadAttention", *heads, domain=CONTRIB, num_heads=HEADS)
        bias = f"{name}attention.output.dense.bias"
        made = self.product(self.bytes_of(seen), out, DIMENSION, DIMENSION, bias, True)
        states = self.norm(self.node("Add", states, made), f"{name}attention.output.LayerNorm")
        made = self.product(self.bytes_of(states), wide, DIMENSION, INNER, "")
        bias = self.weight(f"{name}intermediate.dense.bias", INNER)
        made = self.node("BiasGelu", made, bias, domain=CONTRIB)
        bias = f"{name}output.dense.bias"
        made = self.product(self.bytes_of(made), narrow, INNER, DIMENSION, bias)
        return self.norm(self.node("Add", states, made), f"{name}output.LayerNorm")


def made() -> bytes:
    """Return the file's bytes."""
    graph = Graph(find_files(EmbeddingSettings()).weights)
    graph.constant("middle", TensorProto.UINT8, [128], 1)
    matrices = graph.matrices()
    assert len(matrices) == 6 * LAYERS
    states = graph.embeddings()
    for number in range(LAYERS):
        states = graph.layer(states, number, matrices[6 * number : 6 * number + 6])
    data: bytes = graph.model(states).SerializeToString(deterministic=True)
    return data


def main() -> None:
    """Write the file."""
    QUERY_GRAPH.write_bytes(made())
    print(f"{QUERY_GRAPH.name}: {QUERY_GRAPH.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
