"""Tiny checkpoints with the tensor names of Google's reference code.

The one in `google/` is written by TensorFlow:

    python -m pip install tensorflow-cpu && python tests/interop/make_google_checkpoint.py

Values are computed from the tensor's name (`values`), so a test can compute them again. The
checkpoint also holds optimizer state and the step counter, as after training.

`write_checkpoint` writes checkpoints without TensorFlow; a test checks that its tensor files equal those
of `google/` byte for byte.
"""

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albertine.interop.crc32c import masked_crc32c

V, E, H, F, LAYERS, HEADS = 61, 10, 24, 40, 3, 4
CONFIG = {
    "attention_probs_dropout_prob": 0,
    "embedding_size": E,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0,
    "hidden_size": H,
    "initializer_range": 0.02,
    "inner_group_num": 1,
    "intermediate_size": F,
    "max_position_embeddings": 16,
    "num_attention_heads": HEADS,
    "num_hidden_groups": 1,
    "num_hidden_layers": LAYERS,
    "type_vocab_size": 2,
    "vocab_size": V,
}
LAYER = "bert/encoder/transformer/group_0/inner_group_0/"
SHAPES = {
    "bert/embeddings/word_embeddings": (V, E),
    "bert/embeddings/token_type_embeddings": (2, E),
    "bert/embeddings/position_embeddings": (16, E),
    "bert/embeddings/LayerNorm/beta": (E,),
    "bert/embeddings/LayerNorm/gamma": (E,),
    "bert/encoder/embedding_hidden_mapping_in/kernel": (E, H),
    "bert/encoder/embedding_hidden_mapping_in/bias": (H,),
    **{
        f"{LAYER}attention_1/{part}/{kind}": (H, H) if kind == "kernel" else (H,)
        for part in ("self/query", "self/key", "self/value", "output/dense")
        for kind in ("kernel", "bias")
    },
    **{f"{LAYER}LayerNorm{which}/{kind}": (H,) for which in ("", "_1") for kind in ("beta", "gamma")},
    f"{LAYER}ffn_1/intermediate/dense/kernel": (H, F),
    f"{LAYER}ffn_1/intermediate/dense/bias": (F,),
    f"{LAYER}ffn_1/intermediate/output/dense/kernel": (F, H),
    f"{LAYER}ffn_1/intermediate/output/dense/bias": (H,),
    "bert/pooler/dense/kernel": (H, H),
    "bert/pooler/dense/bias": (H,),
    "cls/predictions/transform/dense/kernel": (H, E),
    "cls/predictions/transform/dense/bias": (E,),
    "cls/predictions/transform/LayerNorm/beta": (E,),
    "cls/predictions/transform/LayerNorm/gamma": (E,),
    "cls/predictions/output_bias": (V,),
    "cls/seq_relationship/output_weights": (2, H),
    "cls/seq_relationship/output_bias": (2,),
}


BERT_CONFIG = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": H,
    "initializer_range": 0.02,
    "intermediate_size": F,
    "max_position_embeddings": 16,
    "num_attention_heads": HEADS,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": V,
}


def _norm(name: str, size: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}/beta": (size,), f"{name}/gamma": (size,)}


def _dense(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}


def _bert_layer(name: str) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for part in ("self/query", "self/key", "self/value", "output/dense"):
        shapes |= _dense(f"{name}/attention/{part}", H, H)
    shapes |= _norm(f"{name}/attention/output/LayerNorm", H) | _dense(f"{name}/intermediate/dense", H, F)
    return shapes | _dense(f"{name}/output/dense", F, H) | _norm(f"{name}/output/LayerNorm", H)


BERT_SHAPES = {
    **{f"bert/embeddings/{kind}_embeddings": (n, H) for kind, n in (("word", V), ("token_type", 2))},
    "bert/embeddings/position_embeddings": (16, H),
    **_norm("bert/embeddings/LayerNorm", H),
    **_bert_layer("bert/encoder/layer_0"),
    **_bert_layer("bert/encoder/layer_1"),
    **_dense("bert/pooler/dense", H, H),
    **_dense("cls/predictions/transform/dense", H, H),
    **_norm("cls/predictions/transform/LayerNorm", H),
    "cls/predictions/output_bias": (V,),
    "cls/seq_relationship/output_weights": (2, H),
    "cls/seq_relationship/output_bias": (2,),
}


def values(name: str, shape: Sequence[int] | None = None) -> np.ndarray:
    """Return the values of a tensor, computed from its name."""
    shape = SHAPES[name] if shape is None else shape
    start = zlib.crc32(name.encode()) % 1000
    wave = np.sin(0.7 * np.arange(start, start + int(np.prod(shape)), dtype=np.float64))
    return (wave * 0.3 + (1.0 if name.endswith("gamma") else 0.0)).astype(np.float32).reshape(shape)


def write_checkpoint(
    folder: Path, config: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], *, family: str = "albert"
) -> Path:
    """Write a checkpoint of Google's code, of ALBERT or BERT, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{family}_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    prefix = folder / ("model.ckpt-best" if family == "albert" else "bert_model.ckpt")
    tensors = {name: values(name, shape) for name, shape in shapes.items()}
    write_tensor_bundle(prefix, tensors | {"global_step": np.int64(7)})
    return folder


def write_tensor_bundle(
    prefix: Path, tensors: Mapping[str, Any], *, header_fields: bytes = b"", entry_fields: bytes = b""
) -> None:
    """Write tensors as TensorFlow's `Saver` does: PREFIX.index and PREFIX.data-00000-of-00001.

    `header_fields` are added to the header, and `entry_fields` to the entry of each tensor.
    """
    header = b"\x08\x01\x1a\x02\x08\x01"  # one data file, version 1
    entries, data = [(b"", header + header_fields)], b""
    for name, tensor in sorted(tensors.items()):
        content = tensor.tobytes()
        shape = b"".join(_field(2, _number(1, size)) for size in tensor.shape)
        entry = _number(1, {"float32": 1, "int64": 9, "uint16": 14}[tensor.dtype.name]) + _field(2, shape)
        entry += _number(4, len(data)) if data else b""
        entry += _number(5, len(content)) + b"\x35" + struct.pack("<I", masked_crc32c(content))
        entries.append((name.encode(), entry + entry_fields))
        data += content
    Path(f"{prefix}.data-00000-of-00001").write_bytes(data)
    blocks = [_block(entries, 16), _block([], 1)]
    last_key = bytes([entries[-1][0][0] + 1])  # sorts after all other keys
    blocks.append(_block([(last_key, _varint(0) + _varint(len(blocks[0]) - 5))], 1))
    starts = [0, len(blocks[0]), len(blocks[0]) + len(blocks[1])]
    handles = b"".join(_varint(starts[i]) + _varint(len(blocks[i]) - 5) for i in (1, 2))
    footer = handles.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    Path(f"{prefix}.index").write_bytes(b"".join(blocks) + footer)


def _block(entries: Sequence[tuple[bytes, bytes]], interval: int) -> bytes:
    """Return a block of a sorted string table: each key without the prefix shared with the previous one."""
    block, previous, restarts = b"", b"", []
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number % interval == 0:
            restarts.append(len(block))
        else:
            while shared < min(len(key), len(previous)) and key[shared] == previous[shared]:
                shared += 1
        block += _varint(shared) + _varint(len(key) - shared) + _varint(len(value)) + key[shared:] + value
        previous = key
    restarts = restarts or [0]
    block += b"".join(struct.pack("<I", one) for one in (*restarts, len(restarts))) + b"\0"
    return block + struct.pack("<I", masked_crc32c(block))


def _varint(value: int) -> bytes:
    content = b""
    while value > 0x7F:
        content += bytes([value & 0x7F | 0x80])
        value >>= 7
    return content + bytes([value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def main() -> None:
    """Write the checkpoint of `google/` with TensorFlow."""
    import tensorflow as tf

    folder = Path(__file__).parent / "google"
    folder.mkdir(exist_ok=True)
    (folder / "albert_config.json").write_text(json.dumps(CONFIG, indent=2) + "\n", encoding="utf-8")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = [tf.compat.v1.get_variable(name, initializer=values(name)) for name in SHAPES]
        variables.append(
            tf.compat.v1.get_variable("bert/pooler/dense/bias/adam_m", initializer=np.zeros(H, np.float32))
        )
        variables.append(tf.compat.v1.get_variable("global_step", initializer=np.int64(7)))
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver(variables)
        saver.save(session, str(folder / "model.ckpt-best"), write_meta_graph=False, write_state=False)


if __name__ == "__main__":
    main()
