"""The peer of `albertine bench serve`: a server of a classification model, with FastAPI and `transformers`.

python -m albertine.bench.peer_server MODEL MAX_LENGTH     prints its address; for classification models

It is what the guides of both libraries show: a route that FastAPI validates and runs in a thread, and one
forward pass for each request.
"""

import os
import socket
import sys
from typing import Annotated, Any

import torch
import uvicorn

from albertine.bench.peer_model import peer_options
from albertine.interop.hub import locate_model
from albertine.interop.transformers_config import checkpoint_model_settings


def create_peer_app(source: str, max_length: int) -> Any:
    """Return the application that serves a model of `transformers`; it truncates texts like Albertine's."""
    from fastapi import Body, FastAPI
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = locate_model(source)
    options = peer_options(folder, checkpoint_model_settings(folder))
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, **options)
    model: Any = AutoModelForSequenceClassification.from_pretrained(
        folder,
        dtype=torch.float32,  # by default, it would be that of the file
        **options,
    ).eval()
    labels = model.config.id2label
    app = FastAPI()

    @app.post("/predict")
    def predict(
        text: Annotated[str, Body(embed=True)], text_pair: Annotated[str | None, Body(embed=True)] = None
    ) -> dict[str, Any]:
        inputs = tokenizer(text, text_pair, truncation=True, max_length=max_length, return_tensors="pt")
        with torch.inference_mode():
            probabilities = model(**inputs).logits[0].softmax(0).tolist()
        best = max(range(len(probabilities)), key=probabilities.__getitem__)
        return {
            "label": labels[best],
            "probabilities": {labels[index]: value for index, value in enumerate(probabilities)},
        }

    return app


def main() -> None:
    """Serve the model of the first argument, with the maximum length of the second, on a free port."""
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    app = create_peer_app(sys.argv[1], int(sys.argv[2]))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)  # the address is valid from here on
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False)).run([listener])


if __name__ == "__main__":
    main()
