"""An encoder as an ONNX graph that gives the hidden states of all tokens, and the vector of each row."""

import onnx_ir as ir
from torch import Tensor, nn

from albertine.engines.encoder_engine import SENTENCE_EMBEDDING, TOKEN_EMBEDDINGS
from albertine.engines.onnx_graph import graph_of_rows
from albertine.interop.sentence_transformers_folder import SentenceModules
from albertine.model.model import Model
from albertine.model.padded import PaddedModel
from albertine.model.sentence_vectors import apply_layers, pool_rows


class ExportedEncoder(nn.Module):
    """An encoder with the pooling and the layers that follow it, and the inputs and outputs of its export."""

    def __init__(self, model: Model, modules: SentenceModules):
        super().__init__()
        self.padded = PaddedModel(model)
        self.sentence_modules = modules

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> dict[str, Tensor]:
        """Return the hidden states of the tokens, and the vector of each row of one sequence.

        The arguments are those of `PaddedModel.forward`. A row may hold several sequences, as in an export
        with a head; then only the hidden states have a meaning.
        """
        hidden = self.padded.hidden(input_ids, attention_mask, token_type_ids)
        modules = self.sentence_modules
        vectors = pool_rows(hidden, attention_mask, modules.poolings)
        vectors = apply_layers(vectors, modules.layers, normalize=modules.normalize)
        return {TOKEN_EMBEDDINGS: hidden, SENTENCE_EMBEDDING: vectors}


def encoder_graph(model: Model, modules: SentenceModules) -> ir.Model:
    """Return an ONNX graph of an encoder in evaluation mode, in fp32."""
    return graph_of_rows(ExportedEncoder(model, modules).eval(), model.settings.max_length)
