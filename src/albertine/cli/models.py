"""Commands about models: sizes, conversion, the demo, reports and report cards."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from albertine import progress
from albertine.cli.application import CHECKPOINTS, MODELS, JsonFlag, app, report_unfinished_runs
from albertine.command import (
    DEFAULT_OPTIONS,
    MODEL_SETTINGS_PARAMETER,
    SETTINGS_PARAMETER,
    CommonOptions,
    NoSettings,
    PathOrUrl,
)
from albertine.demo.settings import DemoSettings
from albertine.errors import InputError
from albertine.export.settings import ExportSettings
from albertine.info.model_info import InfoSettings
from albertine.report_card.settings import ReportCardSettings
from albertine.storage.output_file import check_output_file

_DEFAULT_RANK = 16  # of the differences of layers from shared matrices


@app.command(group=MODELS, usage="Usage: albertine info [OPTIONS] [SOURCE]")
def info(
    source: str | None = None,
    /,
    *,
    compare: str | None = None,
    json: JsonFlag = False,
    settings: Annotated[InfoSettings | None, MODEL_SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Show parameters, operations and memory of a model, next to those of BERT and of the paper.

    Without SOURCE, show all presets in one table.

    Example: albertine info albert-large --model.share attention

    Args:
        source: A preset (see `albertine info`), or a checkpoint: its folder or its hub name.
        compare: A second preset, shown next to the first model.
    """
    from albertine.info import info_table, model_info

    folder = model_info.checkpoint_folder(source)
    if folder:
        resolved_settings = model_info.checkpoint_info_settings(
            folder, options.read_settings(InfoSettings), is_model_changed=options.sets("model")
        )
    else:
        resolved_settings = options.read_settings(InfoSettings, model=source)
    if source or compare or options.sets("model"):
        infos = model_info.compared_infos(resolved_settings, source, compare, folder)
        info_table.show_models(infos, as_json=json)
    else:
        if not json:
            model_info.check_shown_for_presets(resolved_settings)
        info_table.show_presets(model_info.preset_infos(resolved_settings), as_json=json)


@app.command(group=CHECKPOINTS)
def export(
    source: str,
    /,
    *,
    out: PathOrUrl | None = None,
    force: Annotated[bool, Parameter(negative="")] = False,
    settings: Annotated[ExportSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Export a model for ONNX Runtime, OpenVINO or web browsers, and verify the result.

    Weights are stored once, however many layers share them. `albertine predict`, `evaluate` and `serve` run
    the new folder; `embed` and `serve` run one that was written with --task embed. The README.md in it shows
    how other programs do so. With --precision int8, the scores before and after are compared, and a model
    that loses more than one point is not written. --to web writes a page that runs the model in the visitor's
    browser; it needs Node.js.

    Example: albertine export stars --to openvino --precision int8 --data reviews.csv --out stars-int8

    Args:
        source: A fine-tuned or pre-trained model: a run, the folder of a checkpoint, or a hub name; with
            --task embed also a folder of sentence-transformers.
        out: A new folder or URL.
        force: Keep a model in int8 whatever it loses.
    """
    from albertine.export.export import export as export_model
    from albertine.export.show import show_export

    resolved_settings = options.read_settings(ExportSettings)
    if out is None:
        raise InputError("--out is missing; give the folder of the export")
    report_unfinished_runs(source)
    show_export(source, out, resolved_settings, export_model(source, out, resolved_settings, force=force))


@app.command(group=CHECKPOINTS)
def convert(
    source: str,
    destination: PathOrUrl,
    /,
    *,
    share: Literal["all"] | None = None,
    rank: int | None = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Convert a checkpoint to the layout of `transformers`, and verify the result.

    Example: albertine convert old-checkpoint new-folder

    Args:
        source: A checkpoint: a folder of transformers or of Google's code for ALBERT or BERT, or a hub name.
        destination: A new folder or URL.
        share: Make all layers of a model share their weights, such as those of a BERT; the result is close
            to the original and needs more training.
        rank: With --share: rank of each layer's own difference from the shared matrices; 16 by default.
    """
    from albertine.interop.convert import convert_checkpoint

    options.read_settings(NoSettings)
    if rank is not None and share is None:
        raise InputError(f"--rank {rank}: needs --share all")
    if rank is not None and rank < 0:
        raise InputError(f"--rank {rank}: must be at least 0")
    if share is not None and rank is None:
        rank = _DEFAULT_RANK
    convert_checkpoint(source, destination, rank=rank)


@app.command(group=MODELS)
def demo(
    *,
    out: Path = Path("albertine-demo"),
    settings: Annotated[DemoSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Run the whole workflow in minutes: text, pre-training, fine-tuning, report.

    If interrupted, run the same command again to resume.

    Example: albertine demo --text my-texts/ --out my-demo

    Args:
        out: The folder for all results.
    """
    from albertine.demo.run import run_demo

    run_demo(out, options.read_settings(DemoSettings))


@app.command(group=MODELS)
def report(run: PathOrUrl, /, *, out: Path | None = None, options: CommonOptions = DEFAULT_OPTIONS) -> None:
    """Write a report of a pre-training or fine-tuning run to RUN/report.html.

    Example: albertine report my-run

    Args:
        run: The folder or URL of a run of `albertine pretrain` or `albertine finetune`.
        out: Write the report to this new file (.html) instead; needed for a URL.
    """
    from albertine.report.write import write_report

    options.read_settings(NoSettings)
    _check_page_file(out)
    write_report(run, out)


@app.command(group=MODELS, usage="Usage: albertine compare [OPTIONS] FIRST SECOND [MORE...]")
def compare(
    first: PathOrUrl,
    second: PathOrUrl,
    /,
    *more: PathOrUrl,
    out: Path | None = None,
    json: JsonFlag = False,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare runs: their scores, curves, and the settings in which they differ.

    With several seeds in common, the difference from the first run has a 95% interval.

    Example: albertine compare runs/a runs/b --out comparison.html

    Args:
        first: A run, or the folder of runs with several seeds: --out of pretrain or finetune, or its URL.
        second: Another one of the same kind.
        more: More runs.
        out: Also write the comparison, with overlaid curves, as a page to this new file (.html).
    """
    from albertine.report.compared_runs import compare_runs
    from albertine.report.comparison_page import comparison_page
    from albertine.report.comparison_table import show_comparison

    options.read_settings(NoSettings)
    _check_page_file(out)
    comparison = compare_runs([first, second, *more])
    if out is not None:
        comparison_page(comparison).write(out)
        progress.print_message(f"{out}: open it in a browser")
    show_comparison(comparison, as_json=json)


def _check_page_file(out: Path | None) -> None:
    """Raise `InputError` if the file for a page exists, or is not named .html."""
    if out is None:
        return
    if out.suffix != ".html":
        raise InputError(f"--out {out}: the page is HTML; give a file name that ends in .html")
    check_output_file(out)


@app.command(group=MODELS)
def report_card(
    model: str,
    /,
    *,
    out: Path | None = None,
    json: JsonFlag = False,
    settings: Annotated[ReportCardSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Measure a pre-trained model: held-out text, BLiMP, and five tasks with and without pre-training.

    Parts whose data is missing are skipped. If interrupted, run the same command again to resume.

    Example: albertine report-card my-run --corpus my-corpus --data tasks/ --out my-card

    Args:
        model: A run, the folder of a checkpoint of transformers or Google, or a hub name.
        out: The folder of the card: a new one, or one to complete.
    """
    from albertine.report_card.run import make_report_card
    from albertine.report_card.table import show_card

    resolved_settings = options.read_settings(ReportCardSettings)
    if out is None:
        raise InputError("--out is missing; give the folder of the report card")
    report_unfinished_runs(model)
    show_card(make_report_card(model, out, resolved_settings), as_json=json)
