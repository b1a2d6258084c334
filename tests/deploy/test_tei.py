"""Tests of the API of text-embeddings-inference (TEI): its forms of requests, its paths and its errors."""

import base64
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

import albertine
from albertine.deploy import batcher
from albertine.inference.embedding import EmbeddingPipeline
from tests.deploy.conftest import ServerClient, error_of, running_server
from tests.task_fixtures import MODEL

ClientFactory = Callable[[str], ServerClient]


@pytest.fixture(scope="module")
def embed(models: dict[str, Path]) -> EmbeddingPipeline:
    return albertine.pipeline(models["pretrained"], task="embed", device="cpu")


def test_forms_of_predict(client_for: ClientFactory, models: dict[str, Path]) -> None:
    client = client_for("classify")
    pipeline = albertine.pipeline(models["classify"], device="cpu", precision="fp32")

    def expected(*texts: str) -> list[dict[str, Any]]:
        probabilities = pipeline(*texts)["probabilities"].items()
        return [
            {"score": pytest.approx(score, abs=1e-5), "label": label}
            for label, score in sorted(probabilities, key=lambda item: -item[1])
        ]

    forms: list[tuple[Any, Any]] = [
        ("ka lo", expected("ka lo")),
        (["ka lo"], expected("ka lo")),
        (["ka", "mi"], expected("ka", "mi")),
        ([["ka"], ["ka", "mi"]], [expected("ka"), expected("ka", "mi")]),
        ([["ka"]], [expected("ka")]),
    ]
    for inputs, response in forms:
        for options in ({}, {"truncate": True}, {"truncate": None, "raw_scores": False, "other": 1}):
            assert client("/predict", {"inputs": inputs, **options}) == (200, response)
    first, second = client("/predict", {"inputs": "ka lo"})[1]
    assert first["score"] >= second["score"]


def test_raw_scores_are_the_logits(client_for: ClientFactory, models: dict[str, Path]) -> None:
    import torch
    import transformers

    client, text = client_for("classify"), "ka lo mi"
    status, raw = client("/predict", {"inputs": text, "raw_scores": True})
    assert status == 200
    tokenizer = albertine.load_tokenizer(models["classify"])
    model_class: Any = transformers.AutoModelForSequenceClassification
    model = model_class.from_pretrained(models["classify"]).eval()
    with torch.no_grad():
        logits = model(torch.tensor([tokenizer.encode(text)])).logits[0].tolist()
    by_label = {prediction["label"]: prediction["score"] for prediction in raw}
    assert [by_label["x"], by_label["y"]] == pytest.approx(logits, abs=1e-5)
    assert raw[0]["score"] >= raw[1]["score"]
    probabilities = client("/predict", {"inputs": text})[1]
    difference = math.log(probabilities[0]["score"] / probabilities[1]["score"])
    assert difference == pytest.approx(raw[0]["score"] - raw[1]["score"], abs=1e-4)


def test_multi_label_has_a_probability_for_each_label(
    client_for: ClientFactory, models: dict[str, Path]
) -> None:
    client, text = client_for("multi-label"), "ka lo mi"
    status, scores = client("/predict", {"inputs": text})
    assert status == 200
    prediction = client("/predict", {"text": text})[1]
    assert {one["label"]: one["score"] for one in scores} == prediction["probabilities"]
    assert prediction["labels"] == [
        label for label, probability in prediction["probabilities"].items() if probability >= 0.4
    ]
    raw = client("/predict", {"inputs": text, "raw_scores": True})[1]
    logits = {one["label"]: one["score"] for one in raw}
    assert {label: 1 / (1 + math.exp(-logit)) for label, logit in logits.items()} == pytest.approx(
        prediction["probabilities"], abs=1e-5
    )


@pytest.mark.parametrize(
    ("payload", "expected_status", "message"),
    [
        ({"inputs": 3}, 422, "inputs: must be a text, a pair"),
        ({"inputs": None}, 422, "inputs: must be a text, a pair"),
        ({"inputs": {}}, 422, "inputs: must be a text, a pair"),
        ({"inputs": []}, 422, "inputs: must be a text, a pair"),
        ({"inputs": ["a", "b", "c"]}, 422, "inputs: must be a text, a pair"),
        ({"inputs": [["a"], "b"]}, 422, "inputs: must be a text, a pair"),
        ({"inputs": [["a", "b", "c"]]}, 422, "inputs: must be a text, a pair"),
        ({"inputs": [[]]}, 422, "inputs: must be a text, a pair"),
        ({"inputs": [[["a"]]]}, 422, "inputs: must be a text, a pair"),
        ({"inputs": "a", "truncate": "yes"}, 422, "truncate: must be true or false, not yes"),
        ({"inputs": "a", "raw_scores": 1}, 422, "raw_scores: must be true or false, not 1"),
        ({"inputs": "a", "truncation_direction": "left"}, 422, "truncation_direction: must be right"),
        ({"inputs": "a", "truncation_direction": []}, 422, "truncation_direction: must be right"),
        ({"inputs": "\ud800"}, 422, "inputs: text: an unpaired surrogate"),
        ({"inputs": "x" * 100_001}, 413, "inputs: 100,001 characters; an item may have at most 100,000"),
        ({"inputs": [["a"]] * 1_025}, 413, "inputs: a batch of 1,025; send at most 1,024"),
        ({"inputs": "ka " * 80}, 413, "tokens more than the 64 that the model reads"),
        ({"inputs": "ka " * 80, "raw_scores": True}, 413, "tokens more than the 64 that the model reads"),
    ],
)
def test_wrong_bodies_of_predict(
    payload: Any, expected_status: int, message: str, client_for: ClientFactory
) -> None:
    status, response = client_for("classify")("/predict", payload)
    assert (status, response.get("error_type")) == (expected_status, "Validation")
    assert message in error_of(response)


def test_a_long_text_is_truncated_on_request(client_for: ClientFactory) -> None:
    for raw_scores in (False, True):
        payload = {"inputs": "ka " * 80, "truncate": True, "raw_scores": raw_scores}
        status, response = client_for("classify")("/predict", payload)
        assert (status, len(response)) == (200, 2)


def test_a_pair_for_a_model_of_single_texts_is_an_error(models: dict[str, Path], tmp_path: Path) -> None:
    """Two texts in a list are a pair in this API; whoever means a batch is told its form."""
    folder = tmp_path / "single"
    shutil.copytree(models["classify"], folder)
    card = json.loads((folder / "task.json").read_text())
    (folder / "task.json").write_text(json.dumps({**card, "columns": {"text": "text", "label": "label"}}))
    with running_server(folder) as client:
        for inputs in (["ka", "lo"], [["ka"], ["ka", "lo"]]):
            status, response = client("/predict", {"inputs": inputs})
            assert status == 422
            assert error_of(response) == (
                "inputs: a pair, but the model reads single texts; send a batch as [[text], [text]]"
            )
        assert len(client("/predict", {"inputs": [["ka"], ["lo"]]})[1]) == 2


def test_other_models_and_ensembles_say_what_they_cannot_do(
    client_for: ClientFactory, models: dict[str, Path], tmp_path: Path
) -> None:
    status, response = client_for("regress")("/predict", {"inputs": "ka"})
    assert (status, response["error_type"]) == (424, "Backend")
    assert error_of(response).endswith("send text in place of it")
    assert error_of(client_for("span")("/predict", {"inputs": "ka"})[1]) == (
        "inputs: for classification models; send context and question in place of it"
    )
    assert client_for("classify")("/embed", {"inputs": "ka"})[0] == 404
    shutil.copy(models["classify"] / "task.json", tmp_path)
    members = [{"folder": str(models["classify"]), "weight": 1}]
    (tmp_path / "ensemble.json").write_text(json.dumps({"format": 1, "members": members}))
    with running_server(tmp_path) as client:
        assert client("/predict", {"inputs": "ka"})[0] == 200
        status, response = client("/predict", {"inputs": "ka", "raw_scores": True})
        assert (status, "averages probabilities" in error_of(response)) == (424, True)


def test_an_ensemble_reads_as_much_as_its_shortest_member(models: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(models["classify"], tmp_path / "short")
    card = json.loads((models["classify"] / "task.json").read_text())
    (tmp_path / "task.json").write_text(json.dumps(card))
    (tmp_path / "short" / "task.json").write_text(json.dumps({**card, "max_length": 16}))
    members = [{"folder": str(folder), "weight": 1} for folder in (models["classify"], tmp_path / "short")]
    (tmp_path / "ensemble.json").write_text(json.dumps({"format": 1, "members": members}))
    with running_server(tmp_path) as client:
        assert client("/info")[1]["max_input_length"] == 16
        status, response = client("/predict", {"inputs": "ka " * 20})
        assert (status, "tokens more than the 16 that the model reads" in error_of(response)) == (413, True)
        assert client("/predict", {"inputs": "ka " * 20, "truncate": True})[0] == 200


def test_a_full_queue_is_429(client_for: ClientFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "MAX_QUEUED_ITEMS", 0)
    status, response, headers = client_for("classify").request("/predict", b'{"inputs": "ka"}')
    assert (status, response["error_type"], headers["Retry-After"]) == (429, "Overloaded", "5")


def test_forms_of_embed(client_for: ClientFactory, embed: EmbeddingPipeline) -> None:
    client = client_for("pretrained")
    status, response = client("/embed", {"inputs": ["ka lo", "bra"], "normalize": False})
    assert status == 200
    assert np.array(response) == pytest.approx(embed(["ka lo", "bra"], normalize=False), abs=1e-5)
    for options in ({}, {"normalize": True}, {"normalize": None}):
        status, response = client("/embed", {"inputs": "ka lo", **options})
        assert (status, len(response)) == (200, 1)
        assert np.array(response[0]) == pytest.approx(embed("ka lo"), abs=1e-5)
    assert client("/embed", {"inputs": ""})[0] == 200
    too_long = "ka " * embed.max_length
    status, response = client("/embed", {"inputs": ["ka", too_long]})
    assert (status, f"tokens more than the {embed.max_length}" in error_of(response)) == (413, True)
    status, response = client("/embed", {"inputs": too_long, "truncate": True})
    assert np.array(response[0]) == pytest.approx(embed(too_long), abs=1e-5)


def test_a_folder_of_sentence_transformers_serves_vectors(
    models: dict[str, Path], embed: EmbeddingPipeline, tmp_path: Path
) -> None:
    folder = tmp_path / "sentences"
    shutil.copytree(models["pretrained"], folder)
    (folder / "1_Pooling").mkdir()
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    pooling = {"word_embedding_dimension": MODEL.hidden_size, "pooling_mode_cls_token": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    with running_server(folder) as client:
        status, response = client("/embed", {"inputs": ["ka lo"], "normalize": False})
        assert status == 200
        expected = albertine.pipeline(models["pretrained"], task="embed", device="cpu")(
            "ka lo", pooling="cls", normalize=False
        )
        assert np.array(response[0]) == pytest.approx(expected, abs=1e-5)
        info = client("/info")[1]
        assert info["model_type"] == {"embedding": {"pooling": "cls"}}
        assert client("/fill-mask", {"text": "ka"})[0] == 404


@pytest.mark.parametrize(
    ("payload", "expected_status"),
    [
        ({}, 422), ([], 422), ("a", 422), ({"inputs": 1}, 422), ({"inputs": []}, 422),
        ({"inputs": [[1]]}, 422),
        ({"inputs": ["a", None]}, 422), ({"inputs": "a", "normalize": 0}, 422), ({"inputs": "\ud800"}, 422),
        ({"inputs": "a", "prompt_name": "query"}, 422), ({"inputs": "a", "dimensions": 2}, 422),
        ({"inputs": ["a"] * 1_025}, 413), ({"inputs": "x" * 100_001}, 413),
    ],
)  # fmt: skip
def test_wrong_bodies_of_embed(payload: Any, expected_status: int, client_for: ClientFactory) -> None:
    status, response = client_for("pretrained")("/embed", payload)
    assert (status, response.get("error_type")) == (expected_status, "Validation")
    error_of(response)


def test_an_empty_list_of_texts_is_named(client_for: ClientFactory) -> None:
    message = error_of(client_for("pretrained")("/embed", {"inputs": []})[1])
    assert message == "inputs: an empty list; send at least one text"


def test_info_has_the_keys_of_tei(client_for: ClientFactory) -> None:
    info = client_for("classify")("/info")[1]
    assert (info["model_id"], info["model_dtype"], info["max_input_length"]) == ("classify", "float32", 64)
    assert info["model_type"] == {
        "classifier": {"id2label": {"0": "x", "1": "y"}, "label2id": {"x": 0, "y": 1}}
    }
    assert info["max_client_batch_size"] == 1_024
    assert info["max_batch_tokens"] > 0
    assert info["version"] == albertine.__version__
    assert client_for("pretrained")("/info")[1]["model_type"] == {"embedding": {"pooling": "mean"}}
    assert client_for("tag")("/info")[1]["model_type"] is None


@pytest.mark.parametrize("path", ["/", "/invocations"])
def test_the_default_path_predicts_or_embeds(path: str, client_for: ClientFactory) -> None:
    predict, embed = client_for("classify"), client_for("pretrained")
    for item in ({"inputs": "ka lo"}, {"inputs": [["ka"], ["ka", "lo"]]}, {"text": "ka lo"}):
        assert predict(path, item) == predict("/predict", item)
    assert embed(path, {"inputs": ["ka", "lo"]}) == embed("/embed", {"inputs": ["ka", "lo"]})
    assert embed(path, {"text": "ka"})[0] == 422
    status, response, headers = client_for("tag").request(path, b'{"text": "ka"}')
    assert (status, headers["Allow"]) == ((405, "GET, HEAD") if path == "/" else (404, None))
    error_of(response)
    assert predict.request("/", b"", method="PUT")[2]["Allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embeddings"])
def test_vectors_in_the_form_of_openai(
    path: str, client_for: ClientFactory, embed: EmbeddingPipeline
) -> None:
    client, texts = client_for("pretrained"), ["ka lo", "bra"]
    status, response = client(path, {"input": texts, "model": "any", "user": "me"})
    assert status == 200
    vectors = [one.pop("embedding") for one in response["data"]]
    assert np.array(vectors) == pytest.approx(embed(texts), abs=1e-5)
    num_tokens = sum(len(embed.tokenizer.encode(text)) for text in texts)
    assert response == {
        "object": "list",
        "data": [{"object": "embedding", "index": index} for index in range(2)],
        "model": client("/info")[1]["model_id"],
        "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
    }
    status, response = client(path, {"input": "ka lo", "encoding_format": "base64"})
    (one,) = response["data"]
    vector = np.frombuffer(base64.b64decode(one["embedding"]), "<f4")
    assert vector == pytest.approx(embed("ka lo"), abs=1e-5)


@pytest.mark.parametrize(
    ("payload", "expected_status", "message"),
    [
        ({"inputs": "ka"}, 422, "must be a JSON object with input, a text or a list of texts"),
        ([], 422, "must be a JSON object with input"),
        ({"input": [[1, 2]]}, 422, "input: must be a text or a list of texts; token ids"),
        ({"input": []}, 422, "input: an empty list"),
        ({"input": "\ud800"}, 422, "input: text: an unpaired surrogate"),
        ({"input": ["a"] * 1_025}, 413, "input: a batch of 1,025"),
        ({"input": "ka", "dimensions": 2}, 422, "dimensions: not supported"),
        (
            {"input": "ka", "encoding_format": "int8"},
            422,
            "encoding_format: must be float or base64, not int8",
        ),
        ({"input": "ka " * 80}, 413, "that the model reads; send a shorter one"),
    ],
)
def test_wrong_bodies_in_the_form_of_openai(
    payload: Any, expected_status: int, message: str, client_for: ClientFactory
) -> None:
    status, response = client_for("pretrained")("/v1/embeddings", payload)
    assert (status, response["code"], response["type"]) == (expected_status, expected_status, "Validation")
    assert response["message"] == error_of(response)
    assert message in response["message"]


def test_tokens_of_texts(client_for: ClientFactory, models: dict[str, Path]) -> None:
    client, tokenizer = client_for("classify"), albertine.load_tokenizer(models["classify"])
    _, (spelled_out,) = client("/tokenize", {"inputs": ["ka <pad> [MASK]"]})
    special = vars(tokenizer.special_ids).values()
    read = {token["id"] for token in spelled_out if not token["special"]}
    assert read.isdisjoint({*special} - {tokenizer.special_ids.unk})
    text = "ka  lo bra [SEP]"
    status, (tokens, short) = client("/tokenize", {"inputs": [text, "ka"]})
    assert status == 200
    first, *inner, last = tokens
    assert first == {
        "id": tokenizer.special_ids.cls,
        "text": "[CLS]",
        "special": True,
        "start": None,
        "stop": None,
    }
    assert (last["id"], last["text"]) == (tokenizer.special_ids.sep, "[SEP]")
    assert [token["id"] for token in short] == tokenizer.encode("ka")
    status, response = client("/tokenize", {"inputs": ["x" * 60_000, "x" * 50_000]})
    assert (status, error_of(response)) == (413, "inputs: 110,000 characters; send at most 100,000")
    # Special tokens never result from text.
    assert tokenizer.special_ids.sep not in [token["id"] for token in inner]
    assert [token["id"] for token in inner][:3] == tokenizer.encode(text, add_special_tokens=False)[:3]
    for token in inner:
        assert token["text"] == text[token["start"] : token["stop"]]
        assert not token["special"]
    covered = {position for token in inner for position in range(token["start"], token["stop"])}
    assert covered == {position for position, character in enumerate(text) if character != " "}
    assert client("/tokenize", {"inputs": text, "add_special_tokens": False}) == (200, [inner])
    assert client("/tokenize", [])[0] == 422
    for inputs in (1, None):
        assert client("/tokenize", {"inputs": inputs})[0] == 422
    for option in ({"add_special_tokens": 1}, {"prompt_name": "query"}):
        assert client("/tokenize", {"inputs": "ka", **option})[0] == 422


def test_the_paths_of_tei_have_metrics_of_their_own(client_for: ClientFactory) -> None:
    client = client_for("pretrained")
    for path, key in (("/", "inputs"), ("/v1/embeddings", "input"), ("/tokenize", "inputs")):
        assert client(path, {key: "ka"})[0] == 200
        assert f'albertine_requests_total{{route="{path}",status="200"}}' in client("/metrics")[1]


def test_the_client_of_hugging_face_works(client_for: ClientFactory, embed: EmbeddingPipeline) -> None:
    for path in ("", "/embed"):
        client = InferenceClient(model=f"http://127.0.0.1:{client_for('pretrained').port}{path}")
        vectors = client.feature_extraction(["ka lo", "bra"], normalize=True, truncate=True)
        assert vectors == pytest.approx(embed(["ka lo", "bra"]), abs=1e-5)
    for path in ("", "/predict"):
        client = InferenceClient(model=f"http://127.0.0.1:{client_for('classify').port}{path}")
        functions: dict[bool, Literal["none"] | None] = {False: None, True: "none"}
        for is_raw, function in functions.items():
            expected = client_for("classify")("/predict", {"inputs": "ka lo", "raw_scores": is_raw})[1]
            assert len(expected) > 1
            assert (
                list(map(dict, client.text_classification("ka lo", function_to_apply=function))) == expected
            )
            assert (
                list(map(dict, client.text_classification("ka lo", top_k=1, function_to_apply=function)))
                == expected[:1]
            )
        with pytest.raises(HfHubHTTPError, match="candidate_labels"):
            client.zero_shot_classification("ka lo", ["x", "y"])


@pytest.mark.parametrize(
    ("parameters", "inputs", "message"),
    [
        ({"top_k": 0}, "ka", "top_k: must be a number of labels, at least 1"),
        ({"top_k": True}, "ka", "top_k: must be a number of labels, at least 1"),
        ({"function_to_apply": "softmax"}, "ka", "function_to_apply: must be none"),
        ({"function_to_apply": ["none"]}, "ka", "function_to_apply: must be none"),
        ({}, ["ka", "lo"], "two texts or a pair"),
        ([1], "ka", "parameters: must be a JSON object"),
    ],
)
def test_wrong_parameters_of_the_hub(
    parameters: Any, inputs: Any, message: str, client_for: ClientFactory
) -> None:
    status, response = client_for("classify")("/predict", {"inputs": inputs, "parameters": parameters})
    assert status == 422
    assert message in response["error"]
