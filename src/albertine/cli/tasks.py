"""Commands that fine-tune a model on a task, evaluate it, predict and embed with it, and serve it."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from albertine.cli.application import TASKS, ClusterOption, JsonFlag, app, report_unfinished_runs
from albertine.command import DEFAULT_OPTIONS, SETTINGS_PARAMETER, CommonOptions, PathOrUrl
from albertine.deploy.settings import ServeSettings
from albertine.errors import InputError, NothingLearned
from albertine.executors.cluster import open_cluster
from albertine.finetune.settings import GRID_WITHOUT_SWEEP, SweepSettings
from albertine.inference.settings import EmbedSettings, EnsembleSettings, EvaluateSettings, PredictSettings


@app.command(group=TASKS, usage="Usage: albertine finetune [OPTIONS] [MODEL]")
def finetune(
    model: str | None = None,
    /,
    *,
    out: PathOrUrl | None = None,
    sweep: Annotated[bool, Parameter(negative="")] = False,
    cluster: ClusterOption = None,
    json: JsonFlag = False,
    settings: Annotated[SweepSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Fine-tune a model on a task of the paper or on your own labeled file. Resumes if interrupted.

    The exit status is 3 if the run is complete but its model has learned nothing.

    Example: albertine finetune my-run --task classify --data reviews.csv --label stars --out stars

    Args:
        model: The model to start from: a run, a checkpoint, a URL of one, or a hub name.
        out: The folder or URL of the run: a new one, or one to resume. It holds the best model on dev.
        sweep: Try a grid of learning rates, batch sizes and dropouts (--grid.*), and keep the best.
    """
    from albertine.finetune.finetune import finetune as run_finetuning
    from albertine.finetune.results_table import show_finetune_results

    resolved_settings = options.read_settings(SweepSettings)
    if out is None:
        raise InputError("--out is missing; give the folder of the run")
    if "grid" in options.overrides and not sweep:
        raise InputError(GRID_WITHOUT_SWEEP)
    report_unfinished_runs(*filter(None, (model, resolved_settings.init_from)))
    with open_cluster(cluster) as executor:
        results = run_finetuning(model, out, resolved_settings, sweep=sweep, executor=executor)
    show_finetune_results(out, results, as_json=json)
    if results.problem is not None:
        raise NothingLearned(f"{out}: {results.problem}")


@app.command(group=TASKS, usage="Usage: albertine evaluate [OPTIONS] MODEL...")
def evaluate(
    *model: str,
    json: JsonFlag = False,
    settings: Annotated[EvaluateSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Evaluate fine-tuned models with their tasks' official metrics, or pre-trained ones on minimal pairs.

    Several models are also averaged as in the paper. Column names default to those used for fine-tuning.
    With --task blimp, pre-trained models compare the sentences of minimal pairs. With --exits all, the score
    of a fine-tuned model is compared with its depth, FLOPs and time for several exit rules.

    Example: albertine evaluate my-cola my-mnli --data glue/

    Args:
        model: Runs, checkpoints (also of transformers), ensembles, URLs of these, or hub names.
    """
    from albertine.inference.show_evaluation import show_evaluation

    resolved_settings = options.read_settings(EvaluateSettings)
    report_unfinished_runs(*model)
    show_evaluation(model, resolved_settings, as_json=json)


@app.command(group=TASKS)
def predict(
    model: str,
    /,
    *,
    out: PathOrUrl | None = None,
    cluster: ClusterOption = None,
    settings: Annotated[PredictSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Predict each row of a file with a fine-tuned model; the file may have any size. Resumes if interrupted.

    Column names default to those used for fine-tuning. A .txt file has a text on each line, for models that
    judge single texts.

    Example: albertine predict stars --data new.csv --out answers.csv

    Args:
        model: A fine-tuned run, a checkpoint (also of transformers), an ensemble, a URL of one, or a hub
            name.
        out: A .jsonl, .csv or .tsv file, a folder for GLUE, or .json for SQuAD, or a URL; default: JSON on
            standard output.
    """
    from albertine.inference.predict import predict as predict_file

    resolved_settings = options.read_settings(PredictSettings)
    report_unfinished_runs(model)
    with open_cluster(cluster) as executor:
        predict_file(model, resolved_settings, out, executor=executor)


@app.command(group=TASKS)
def embed(
    model: str,
    /,
    *,
    out: PathOrUrl | None = None,
    settings: Annotated[EmbedSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Turn each text of a file into a vector, with any model; the file may have any size.

    The vectors of a folder of sentence-transformers equal those of that library.

    Example: albertine embed my-run --data sentences.txt --out vectors.npy

    Args:
        model: A run, a checkpoint (also of transformers or sentence-transformers), an export with --task
            embed, a URL of one of these, or a hub name.
        out: A new .npy or .jsonl file, or its URL; default: JSON lines on standard output.
    """
    from albertine.inference.embed import embed as embed_file

    resolved_settings = options.read_settings(EmbedSettings)
    report_unfinished_runs(model)
    embed_file(model, resolved_settings, out)


@app.command(group=TASKS, usage="Usage: albertine ensemble [OPTIONS] MODEL...")
def ensemble(
    *model: str,
    out: PathOrUrl | None = None,
    save: Path | None = None,
    json: JsonFlag = False,
    settings: Annotated[EnsembleSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Average the predictions of several fine-tuned models, selected on dev, and show the gain.

    Example: albertine ensemble run/seed-0 run/seed-1 run/seed-2 --data glue/RTE --save rte-ensemble

    Args:
        model: Candidates, fine-tuned on the same task.
        out: A new file, folder or URL for the predictions on the test split, as in `albertine predict`.
        save: A new folder for the ensemble as a model, for `albertine predict`, `evaluate` and `serve`.
    """
    from albertine.inference import results_table
    from albertine.inference.ensemble import evaluate_ensemble

    resolved_settings = options.read_settings(EnsembleSettings)
    report_unfinished_runs(*model)
    results_table.show_ensemble(evaluate_ensemble(model, resolved_settings, out, save), as_json=json)


@app.command(group=TASKS)
def serve(
    model: str,
    /,
    *,
    settings: Annotated[ServeSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Serve a fine-tuned or pre-trained model over HTTP, with a web page for trying it.

    The command prints the address; GET /info lists the endpoints and their fields.

    Example: albertine serve stars --port 8080

    Args:
        model: A run, the folder of a checkpoint (also of transformers) or ensemble, or a hub name.
    """
    from albertine.deploy.server import run_server

    resolved_settings = options.read_settings(ServeSettings)
    report_unfinished_runs(model)
    run_server(model, resolved_settings, debug=options.debug)
