"""Tests that replaced identifiers are not used again. docs/glossary.md has the project's own terms."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = sorted(
    file for folder in ("src", "tests", "examples", "tools") for file in (ROOT / folder).rglob("*.py")
)

# Former names of classes, functions, attributes and variables, with the names that replaced them.
REPLACED = {
    "Told": "StepMetrics",
    "Sheet": "EncodedExample",
    "Card": "TaskCard",
    "Kind": "TaskType",
    "Desk": "RequestBatcher",
    "Offer": "Endpoint",
    "Guess": "TokenPrediction",
    "Guesser": "FillMaskPipeline",
    "guesser": "fill_mask_pipeline",
    "Tuned": "FinetunedModel",
    "Tuning": "Finetuning",
    "Keeper": "RunRecorder",
    "keeper": "recorder",
    "Journal": "MetricsLog",
    "journal": "metrics_log",
    "Snapshot": "Checkpoint",
    "Snapshots": "CheckpointStore",
    "Ending": "ShutdownSignal",
    "Asked": "ShutdownRequested",
    "Elsewhere": "FailedOnMainRank",
    "Ranks": "Distributed",
    "from_first": "broadcast",
    "by_first": "run_on_main",
    "add_up": "all_reduce",
    "Piece": "MicroBatch",
    "at_once": "micro_batch_tokens",
    "Frames": "SequenceBuilder",
    "framed": "build",
    "Cuts": "AttentionLayout",
    "Shape": "LayerOptions",
    "lengthened": "pad",
    "shortened": "unpad_into",
    "widened": "linear_gelu",
    "Waves": "Sinusoids",
    "look_at_neighbours": "apply_local_start",
    "occupied": "run_lock",
    "new_folder": "atomic_folder",
    "to_disk": "sync_to_disk",
    "settled": "resolved_settings",
    "abreast": "run_in_parallel",
    "legs": "pretrain_runs",
    "neighbours": "local_start",
    "badness": "score_to_minimize",
    "headline": "primary_metric",
    "maybe_none": "allows_no_answer",
    "plan_of": "depth_plan",
    "settings_of": "read_run_settings",
    "Troubles": "ReadErrors",
    "parted": "split_marker",
    "in_words": "format_metrics",
    "roof": "utilization",
    "nursery": "fork_server",
    "Nursery": "ForkServer",
    "SpecialPieces": "SpecialTokenIds",
    "Sampler": "PretrainDataset",
    "Computation": "ComputeOptions",
    "Anatomy": "ModelInfo",
    "Frequencies": "TokenFrequencies",
    "Stages": "CurriculumStages",
    "cut_normal": "truncated_normal",
    "same_everywhere": "broadcast_parameters",
    "tensors_from_first": "broadcast_tensors",
    "spread_out": "shard_model",
    "left_out": "skipped",
    "went_back": "discard_after",
    "all_the_same": "identical_predictions",
    "unanswered": "is_unlabeled",
    "be_quiet": "set_quiet",
    "guesses_of": "predict_sample_masks",
    "kinds_of": "head_kinds",
    "initialise": "init_weights",
    "DEVIATION": "INITIALIZER_RANGE",
    "is_splittable": "has_byte_ranges",
    "EncodingReport": "EncodingCounts",
    "TASK_DEEDS": "TASK_ACTIONS",
    "with_persons_swapped": "with_people_swapped",
    "Lies": "ThingAt",
    "LiesAt": "AtSpot",
    "Stands": "FixtureAt",
    "Mend": "Repair",
    "RunsPlace": "HasWorker",
    "IsKin": "HasRelation",
    "Has": "HasGoods",
    "command_block": "code_block",
    "has_readable_samples": "can_draw_held_out_samples",
}


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every identifier of a syntax tree with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.keyword(arg=str(name)):
                yield name, node.value.lineno
            case ast.alias(name=name, asname=alias):
                yield from ((part, node.lineno) for part in [*name.split("."), *([alias] if alias else [])])


def test_replaced_identifiers_are_not_used() -> None:
    uses = [
        f"{file.relative_to(ROOT)}:{line}: {name} (now {REPLACED[name]})"
        for file in FILES
        for name, line in identifiers(ast.parse(file.read_text(encoding="utf-8")))
        if name in REPLACED
    ]
    assert not uses, "\n".join(uses)
