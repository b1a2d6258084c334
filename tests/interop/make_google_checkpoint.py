"""Writes the tiny checkpoint in `google/` with TensorFlow, with the tensor names of Google's reference code.

    python -m pip install tensorflow-cpu && python tests/interop/make_google_checkpoint.py

Values are computed from the tensor's name (`values`), so a test can compute them again. The
checkpoint also holds optimizer state and the step counter, as after training.
"""

import json
import zlib
from pathlib import Path

import numpy as np

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


def values(name: str) -> np.ndarray:
    """Return the values of a tensor, computed from its name."""
    shape = SHAPES[name]
    start = zlib.crc32(name.encode()) % 1000
    wave = np.sin(0.7 * np.arange(start, start + int(np.prod(shape)), dtype=np.float64))
    return (wave * 0.3 + (1.0 if name.endswith("gamma") else 0.0)).astype(np.float32).reshape(shape)


def main() -> None:
    """Write the checkpoint."""
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
