"""The table of readers: every file that a command reads, with its format and the commands.

A new file, or a new command that reads one, is an entry in `READERS`.
"""

from collections.abc import Mapping

from tests.campaign.examples import CAN_EXPORT_WEB, STUDY_COMMAND
from tests.campaign.hostile_input.checksums import STATE, correct_checkpoint, correct_corpus
from tests.campaign.hostile_input.columns import ARROW_SHARD, PARQUET
from tests.campaign.hostile_input.command_lines import COMMAND_LINE, COMMAND_LINES
from tests.campaign.hostile_input.derived_examples import SETTINGS_COMMANDS
from tests.campaign.hostile_input.formats import CSV, JSON, JSON_LINES, RAW, TOML, TSV, Format
from tests.campaign.hostile_input.protobuf_messages import SENTENCEPIECE
from tests.campaign.hostile_input.reader import Reader
from tests.campaign.hostile_input.safetensors_files import SAFETENSORS
from tests.campaign.hostile_input.tensor_bundles import TENSOR_BUNDLE, correct_tensor_bundle
from tests.campaign.hostile_input.text_files import PLAIN, RECORDS, compressed

_CPU = "--device cpu"
_EMBED_EXPORT = "embed exported-encoder --data reviews.csv --text review --out new.npy"
_PREDICT = f"predict classify --data reviews.csv --out new.jsonl {_CPU}"
_FILL_MASK = f"fill-mask run [MASK] --json {_CPU}"
_CHECKPOINT = "run/checkpoints/step-00000006"
_EMBED = (
    f"embed sentences --data reviews.csv --text review --out new.npy {_CPU}",
    f"embed sentences --data reviews.csv --text review --pooling cls --no-normalize {_CPU}",
)
_RESUME = "pretrain --out run --resume"
_BUILD = "corpus build text --tokenizer tokenizer --out new --workers 1 --json"
_STUDY = "study claim.toml --scale smoke"
_TOKENS = "tokenizer show tokenizer words_and_more --json"


def _finetune(data: str, options: str = "") -> str:
    return (
        f"finetune run --out new --data {data} {options} {_CPU} "
        "--train.precision fp32 --train.steps 1 --train.batch-size 4 --train.lr 1e-3"
    )


_MODEL_COMMANDS = (
    _FILL_MASK,
    "info run",
    "info run --json",
    "convert run new",
    f"probe run --corpus corpus --tokens 60 --json {_CPU}",
)
_TASK_COMMANDS = (
    _PREDICT,
    f"evaluate classify --data reviews.csv --json {_CPU}",
    _PREDICT.replace("jsonl", "csv"),
)
_CORPUS_COMMANDS = (
    "corpus check corpus",
    "corpus check corpus --json",
    "check corpus",
    "corpus show corpus --samples 2 --json",
    "corpus show corpus --objective.pair nsp --split dev",
    f"probe run --corpus corpus --tokens 60 --json {_CPU}",
)
_CARD_COMMANDS = (
    f"report-card run --corpus corpus --out card {_CPU}",
    f"report-card run --corpus corpus --out card --json {_CPU}",
)
_RUN_COMMANDS = (_RESUME, "report run", "compare run apart", "pretrain --plot run", _FILL_MASK)
_PAIR = "--question review --context stars"
_TABLE_OPTIONS = "--task classify --text review --label stars"


def _table_reader(name: str, file_format: Format) -> Reader:
    return Reader(
        name,
        file_format,
        (
            f"predict classify --data {name} --out new.jsonl {_CPU}",
            f"predict classify --data {name} --on-error skip --out new.tsv {_CPU}",
            f"predict classify --data {name} --keep mark --on-error skip --out new.jsonl {_CPU}",
            f"predict classify --data {name} --text review,stars --keep all --out new.csv {_CPU}",
            f"evaluate classify --data {name} --json {_CPU}",
            f"evaluate labels --data {name} --json {_CPU}",
            f"evaluate labels --data {name} --label stars,mark --on-error skip --json {_CPU}",
            f"evaluate regress --data {name} --label mark --json {_CPU}",
            f"evaluate tag --data {name} --text review --label stars --json {_CPU}",
            f"predict answer --data {name} {_PAIR} --answers mark --out new.json {_CPU}",
            f"evaluate choose --data {name} {_PAIR} --options review,stars --json {_CPU}",
            f"ensemble classify --data {name} --save new --json {_CPU}",
            f"check {name} --text review --label stars --tokenizer tokenizer --dev reviews.csv",
            f"check {name} --task regress --text review --label mark",
            f"check {name} --task choice --options review,stars --label mark --tokenizer tokenizer",
            f"score run --data {name} --text review --tokens --out new.jsonl {_CPU}",
            f"embed run --data {name} --text review --on-error skip --out new.npy {_CPU}",
            _finetune(name, _TABLE_OPTIONS),
        ),
        needs=(
            "run",
            "classify",
            "labels",
            "regress",
            "tag",
            "answer",
            "choose",
            "tokenizer",
            "reviews.csv",
        ),
        resumable=("new",),
        weight=4,
    )


def _text_reader(name: str, file_format: Format) -> Reader:
    return Reader(
        f"text/{name}",
        file_format,
        (
            _BUILD,
            f"{_BUILD} --on-error skip",
            f"tokenizer show tokenizer --stats text/{name} --json",
            f"check text/{name} --tokenizer tokenizer --vocab-size 400",
        ),
        needs=("tokenizer",),
        resumable=("new",),  # a build keeps its finished parts
    )


READERS: Mapping[str, Reader] = {
    # models
    "config": Reader("run/config.json", JSON, _MODEL_COMMANDS, ("corpus",), weight=4),
    "task-config": Reader("classify/config.json", JSON, _TASK_COMMANDS, ("reviews.csv",)),
    "weights": Reader("run/model.safetensors", SAFETENSORS, _MODEL_COMMANDS, ("corpus",), weight=4),
    "task-weights": Reader(
        "classify/model.safetensors", SAFETENSORS, _TASK_COMMANDS, ("reviews.csv",), weight=4
    ),
    "answerable-weights": Reader(
        "answer/answerable.safetensors",
        SAFETENSORS,
        (f"evaluate answer --data world/squad --json {_CPU}",),
        ("world",),
    ),
    "co-matching-weights": Reader(
        "match/co_matching.safetensors",
        SAFETENSORS,
        (f"evaluate match --data world/race --json {_CPU}",),
        ("world",),
    ),
    "matching-weights": Reader(
        "compare/matching.safetensors",
        SAFETENSORS,
        (f"evaluate compare --data world/glue --json {_CPU}",),
        ("world",),
    ),
    "exit-weights": Reader(
        "answer/exits.safetensors",
        SAFETENSORS,
        (f"evaluate answer --data world/squad --exit patience:1 --json {_CPU}",),
        ("world",),
    ),
    "pickled-weights": Reader(
        "pickled/pytorch_model.bin", RAW, (_FILL_MASK.replace("run", "pickled"), "convert pickled new")
    ),
    "shard-index": Reader(
        "sharded/model.safetensors.index.json",
        JSON,
        (_FILL_MASK.replace("run", "sharded"), "info sharded --json"),
    ),
    "google-config": Reader("google/albert_config.json", JSON, ("info google --json", "convert google new")),
    "google-index": Reader(
        "google/model.ckpt-best.index", TENSOR_BUNDLE, ("convert google new", "info google --json"), weight=4
    ),
    "google-data": Reader("google/model.ckpt-best.data-00000-of-00001", RAW, ("convert google new",)),
    "google-data-with-checksum": Reader(
        "google/model.ckpt-best.data-00000-of-00001",
        RAW,
        ("convert google new",),
        correct_checksums=correct_tensor_bundle,
    ),
    "google-bert-index": Reader(
        "google-bert/bert_model.ckpt.index", TENSOR_BUNDLE, ("convert google-bert new",)
    ),
    # sentence-transformers
    **{
        f"sentences-{name}": Reader(f"sentences/{file}", JSON, _EMBED, ("reviews.csv",))
        for name, file in (
            ("modules", "modules.json"),
            ("length", "sentence_bert_config.json"),
            ("options", "config_sentence_transformers.json"),
            ("pooling", "1_Pooling/config.json"),
            ("dense", "2_Dense/config.json"),
            ("config", "config.json"),
            ("tokenizer-options", "tokenizer_config.json"),
        )
    },
    "sentences-dense-weights": Reader(
        "sentences/2_Dense/model.safetensors", SAFETENSORS, _EMBED, ("reviews.csv",)
    ),
    # studies
    "claim": Reader(
        "claim.toml",
        TOML,
        (f"{_STUDY} --out new --print-plan", f"{_STUDY} --out new --print-plan --json"),
        weight=2,
    ),
    "claim-recurrence": Reader(
        "exponent.toml", TOML, ("study exponent.toml --scale minutes --out new --print-plan --json",)
    ),
    "claim-report": Reader(
        "studies/claims/claim.smoke.json", JSON, ("study --out studies", "study --out studies --json")
    ),
    "study-result": Reader(
        "studies/runs/*/results/probe-500.json",
        JSON,
        (f"{STUDY_COMMAND} --print-plan --json", f"{STUDY_COMMAND} --json"),
        ("claim.toml",),
        resumable=("studies",),
    ),
    "study-training": Reader(
        "studies/runs/*/results/training.json",
        JSON,
        (f"{STUDY_COMMAND} --print-plan", f"{STUDY_COMMAND} --print-plan --json"),
        ("claim.toml",),
    ),
    # tokenizers
    "tokenizer": Reader("tokenizer/tokenizer.json", JSON, (_TOKENS, _BUILD), ("text",), weight=4),
    "tokenizer-options": Reader("tokenizer/tokenizer_config.json", JSON, (_TOKENS, _BUILD), ("text",)),
    "model-tokenizer": Reader("classify/tokenizer.json", JSON, _TASK_COMMANDS, ("reviews.csv",)),
    "model-tokenizer-options": Reader(
        "run/tokenizer_config.json", JSON, (_FILL_MASK, "convert run new"), ("corpus",)
    ),
    "sentencepiece": Reader(
        "sentencepiece/spiece.model",
        SENTENCEPIECE,
        (_TOKENS.replace("tokenizer words", "sentencepiece words"),),
        weight=4,
    ),
    "sentencepiece-corpus": Reader(
        "sentencepiece/spiece.model",
        SENTENCEPIECE,
        (_BUILD.replace("tokenizer", "sentencepiece"),),
        ("text",),
    ),
    **{
        f"wordpiece-{name}": Reader(
            f"wordpiece/{file}", file_format, (_TOKENS.replace("tokenizer words", "wordpiece words"),)
        )
        for name, file, file_format in (
            ("vocabulary", "vocab.txt", PLAIN),
            ("options", "tokenizer_config.json", JSON),
            ("special-tokens", "special_tokens_map.json", JSON),
        )
    },
    # corpora
    "manifest": Reader("corpus/manifest.json", JSON, _CORPUS_COMMANDS, ("run",), weight=4),
    "shard": Reader("corpus/train-00000.arrow", ARROW_SHARD, _CORPUS_COMMANDS, ("run",)),
    "shard-with-checksum": Reader(
        "corpus/train-00000.arrow",
        ARROW_SHARD,
        _CORPUS_COMMANDS,
        ("run",),
        correct_checksums=correct_corpus,
        weight=4,
    ),
    "dev-shard-with-checksum": Reader(
        "corpus/dev-00000.arrow", ARROW_SHARD, _CORPUS_COMMANDS, ("run",), correct_checksums=correct_corpus
    ),
    "corpus-tokenizer": Reader("corpus/tokenizer/tokenizer.json", JSON, _CORPUS_COMMANDS, ("run",)),
    # runs and ensembles
    "task-card": Reader("classify/task.json", JSON, _TASK_COMMANDS, ("reviews.csv",), weight=4),
    "multi-label-card": Reader(
        "labels/task.json",
        JSON,
        (f"predict labels --data reviews.csv --out new.csv {_CPU}",),
        ("reviews.csv",),
    ),
    "span-card": Reader(
        "answer/task.json", JSON, (f"predict answer --data world/squad --out new.json {_CPU}",), ("world",)
    ),
    "ensemble": Reader(
        "ensemble/ensemble.json",
        JSON,
        (_PREDICT.replace("classify", "ensemble"), f"evaluate ensemble --data reviews.csv --json {_CPU}"),
        ("classify", "reviews.csv"),
    ),
    "export": Reader(
        "exported/export.json", JSON, (_PREDICT.replace("classify", "exported"),), ("reviews.csv",), weight=2
    ),
    "encoder-export": Reader("exported-encoder/export.json", JSON, (_EMBED_EXPORT,), ("reviews.csv",)),
    "encoder-export-modules": Reader(
        "exported-encoder/modules.json", JSON, (_EMBED_EXPORT,), ("reviews.csv",)
    ),
    "export-config": Reader(
        "exported/config.json", JSON, (_PREDICT.replace("classify", "exported"),), ("reviews.csv",)
    ),
    **(
        {
            "web-export": Reader(
                "exported-web/export.json",
                JSON,
                (_PREDICT.replace("classify", "exported-web"),),
                ("reviews.csv",),
            ),
            "web-export-config": Reader(
                "exported-web/config.json",
                JSON,
                (_PREDICT.replace("classify", "exported-web"),),
                ("reviews.csv",),
            ),
        }
        if CAN_EXPORT_WEB
        else {}
    ),
    "trainer-state": Reader(
        f"{_CHECKPOINT}/state.json",
        STATE,
        (_RESUME,),
        ("run", "corpus", "run/checkpoints"),
        resumable=("run",),
        weight=4,
    ),
    "optimizer-state": Reader(
        f"{_CHECKPOINT}/optimizer.safetensors",
        SAFETENSORS,
        (f"{_RESUME} --train.steps 7", _RESUME),
        ("run", "corpus", "run/checkpoints"),
        correct_checksums=correct_checkpoint,
        resumable=("run",),
    ),
    "metrics": Reader(
        "run/metrics.jsonl",
        JSON_LINES,
        _RUN_COMMANDS,
        ("corpus", "run/checkpoints", "apart"),
        resumable=("run",),
    ),
    "finetuning-metrics": Reader(
        "classify/metrics.jsonl",
        JSON_LINES,
        ("report classify", _PREDICT),
        ("reviews.csv",),
        resumable=("classify",),
    ),
    "card-inputs": Reader("card/inputs.json", JSON, _CARD_COMMANDS, ("run", "corpus"), resumable=("card",)),
    "card-result": Reader(
        "card/results/held-out.json", JSON, _CARD_COMMANDS, ("run", "corpus"), resumable=("card",)
    ),
    "results": Reader(
        "classify/results.json",
        JSON,
        ("report classify", "compare classify classify-2"),
        ("classify-2",),
        resumable=("classify",),
    ),
    "run-settings": Reader(
        "run/settings.toml",
        TOML,
        (_RESUME, "report run", "compare run apart", _FILL_MASK),
        ("corpus", "run/checkpoints", "apart"),
        resumable=("run",),
    ),
    # tables and tasks
    "csv": _table_reader("reviews.csv", CSV),
    "tsv": _table_reader("reviews.tsv", TSV),
    "jsonl": _table_reader("reviews.jsonl", JSON_LINES),
    "parquet": _table_reader("reviews.parquet", PARQUET),
    "csv-gz": _table_reader("reviews.csv.gz", compressed(CSV)),
    "jsonl-gz": _table_reader("reviews.jsonl.gz", compressed(JSON_LINES)),
    "conll": Reader(
        "tags.conll",
        TSV,
        (
            f"evaluate tag --data tags.conll --json {_CPU}",
            f"predict tag --data tags.conll --out new.jsonl {_CPU}",
            "check tags.conll --task tag",
            _finetune("tags.conll", "--task tag"),
        ),
        ("tag", "run"),
        resumable=("new",),
    ),
    "conllu": Reader(
        "words.conllu", TSV, (f"predict tag --data words.conllu --out new.jsonl {_CPU}",), ("tag",)
    ),
    "squad": Reader(
        "world/squad/dev-v2.0.json",
        JSON,
        (
            f"evaluate answer --data world/squad --json {_CPU}",
            f"predict answer --data world/squad --out new.json {_CPU}",
            "check world/squad/dev-v2.0.json --task squad-2.0 --tokenizer tokenizer",
        ),
        ("answer", "tokenizer"),
        weight=4,
    ),
    "race": Reader(
        "world/race/dev/middle/0.txt",
        JSON,
        (
            f"evaluate choose --data world/race --json {_CPU}",
            f"predict choose --data world/race --split dev --on-error skip --out new.jsonl {_CPU}",
        ),
        ("choose",),
        weight=4,
    ),
    "dream": Reader(
        "dream/dev.json",
        JSON,
        (
            f"evaluate choose --task dream --data dream --json {_CPU}",
            "check dream/dev.json --task dream --dev dream/dev.json",
        ),
        ("choose",),
    ),
    "glue-dev": Reader(
        "world/glue/CoLA/dev.tsv",
        TSV,
        (
            f"evaluate judge --data world/glue --json {_CPU}",
            "check world/glue/CoLA/dev.tsv --task cola",
        ),
        ("judge",),
    ),
    "glue-test": Reader(
        "world/glue/CoLA/test.tsv", TSV, (f"predict judge --data world/glue --out new {_CPU}",), ("judge",)
    ),
    "minimal-pairs": Reader(
        "pairs/agreement.jsonl",
        JSON_LINES,
        (
            f"evaluate run --task blimp --data pairs --json {_CPU}",
            f"evaluate run --task blimp --data pairs --method both --on-error skip {_CPU}",
        ),
        ("run",),
        weight=4,
    ),
    # text
    "sentences": Reader(
        "sentences.txt",
        PLAIN,
        (
            f"score run --data sentences.txt --out new.csv {_CPU}",
            f"score run --data sentences.txt --on-error skip --method token {_CPU}",
            f"embed run --data sentences.txt --out new.npy {_CPU}",
        ),
        ("run",),
    ),
    "text": _text_reader("plain.txt", PLAIN),
    "text-jsonl": _text_reader("lines.jsonl", RECORDS),
    "text-gz": _text_reader("plain.txt.gz", compressed(PLAIN)),
    "text-jsonl-gz": _text_reader("lines.jsonl.gz", compressed(RECORDS)),
    "text-parquet": _text_reader("table.parquet", PARQUET),
    # settings and command lines
    **{
        f"settings-{name}": Reader(
            f"settings/{name}.toml",
            TOML,
            (f"{command} --config settings/{name}.toml",),
            ("run", "classify", "corpus", "tokenizer", "text", "reviews.csv"),
            weight=1,
            accepted_special="a pipe",  # as the shell makes for --config <(...); the command waits for it
        )
        for name, command in SETTINGS_COMMANDS.items()
    },
    **{
        f"arguments-{name.replace(' ', '-')}": Reader(
            f"arguments/{name.replace(' ', '-')}.json",
            COMMAND_LINE,
            (),
            ("run", "classify", "classify-2", "corpus", "tokenizer", "text", "pairs", "reviews.csv"),
            resumable=("run/report.html",),
            weight=1,
        )
        for name in COMMAND_LINES
    },
}
