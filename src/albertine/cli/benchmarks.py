"""Commands that measure a part of Albertine, most of them beside another implementation."""

from pathlib import Path
from typing import Annotated

from cyclopts import App

from albertine.bench.settings import (
    CorpusBenchSettings,
    ExitBenchSettings,
    ExportBenchSettings,
    FinetuneBenchSettings,
    GpuBenchSettings,
    GradientBenchSettings,
    ModelBenchSettings,
    PipelineBenchSettings,
    PlanBenchSettings,
    PretrainBenchSettings,
    ScoreBenchSettings,
    ServeBenchSettings,
    StartupBenchSettings,
)
from albertine.cli.application import BENCHMARKS, JsonFlag, app
from albertine.command import DEFAULT_OPTIONS, MODEL_SETTINGS_PARAMETER, SETTINGS_PARAMETER, CommonOptions

bench = App(
    name="bench",
    help="Measure a part of Albertine, mostly beside another implementation in the same run.",
    group=BENCHMARKS,
)


app.command(bench)


@bench.command(name="startup")
def bench_startup(
    *,
    json: JsonFlag = False,
    settings: Annotated[StartupBenchSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare the startup time of the command line with bare Python.

    Example: albertine bench startup --runs 9
    """
    from albertine.bench import startup

    startup.show_startup(startup.measure_startup(options.read_settings(StartupBenchSettings)), as_json=json)


@bench.command(name="export")
def bench_export(
    *,
    json: JsonFlag = False,
    settings: Annotated[ExportBenchSettings | None, MODEL_SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare the engines that run an exported model: size, memory, latency and throughput.

    Needs the extra deploy.

    The model is albert-base unless --model or --config names one.

    Example: albertine bench export --model albert-small
    """
    from albertine.bench import export

    export.show_engines(export.measure_engines(options.read_settings(ExportBenchSettings)), as_json=json)


@bench.command(name="pipeline")
def bench_pipeline(
    model: str,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[PipelineBenchSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare a fine-tuned model, from text to labels, with its bare engine, from token ids to logits.

    Example: albertine bench pipeline my-export

    Args:
        model: A model of single texts: a run or an export.
    """
    from albertine.bench import pipeline

    engine, results = pipeline.measure_pipeline(model, options.read_settings(PipelineBenchSettings))
    pipeline.show_pipeline(engine, results, as_json=json)


@bench.command(name="model")
def bench_model(
    *,
    json: JsonFlag = False,
    settings: Annotated[ModelBenchSettings | None, MODEL_SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare training and forward passes with `transformers`, on the same weights and batches.

    The model is albert-base unless --model or --config names one.

    Example: albertine bench model --batch sentences --precision fp32
    """
    from albertine.bench import model

    model.show_comparisons(model.measure_model(options.read_settings(ModelBenchSettings)), as_json=json)


@bench.command(name="gpu")
def bench_gpu(
    *,
    out: Path,
    json: JsonFlag = False,
    settings: Annotated[GpuBenchSettings | None, MODEL_SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Check every code path of a GPU against fp32 on the CPU, measure it, and write one report.

    A path that fails is a line of the report; the others still run.

    The model is albert-base, or demo with --dry, unless --model or --config names one.

    Example: albertine bench gpu --minutes 10 --out gpu-report

    Args:
        out: Folder for the report in two forms, gpu.json and gpu.txt.
    """
    from albertine.bench import gpu, gpu_report

    gpu_report.check_report_folder(out)
    report = gpu.measure_gpu(options.read_settings(GpuBenchSettings))
    gpu_report.show_gpu_report(report, out, as_json=json)


@bench.command(name="gradients")
def bench_gradients(
    *,
    json: JsonFlag = False,
    settings: Annotated[GradientBenchSettings | None, MODEL_SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare the all-reduce of gradients between processes with that of a BERT of the same shape.

    The model is albert-base unless --model or --config names one.

    Example: albertine bench gradients --model albert-large --processes 2
    """
    from albertine.bench import gradients

    gradients.show_gradients(
        gradients.measure_gradients(options.read_settings(GradientBenchSettings)), as_json=json
    )


@bench.command(name="plan")
def bench_plan(
    *,
    json: JsonFlag = False,
    settings: Annotated[PlanBenchSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare the time and memory that `albertine plan` predicts for this machine with those of five runs.

    Example: albertine bench plan --seconds 120
    """
    from albertine.bench import plan

    plan.show_plans(plan.measure_plans(options.read_settings(PlanBenchSettings)), as_json=json)


@bench.command(name="pretrain")
def bench_pretrain(
    *,
    plot: Path | None = None,
    json: JsonFlag = False,
    settings: Annotated[PretrainBenchSettings | None, MODEL_SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare pre-training with `transformers` in equal time, each at its best learning rate of a sweep.

    The model is albert-tiny unless --model or --config names one.

    Example: albertine bench pretrain --corpus my-corpus --minutes 10 --plot curves.png

    Args:
        plot: File for a plot of both curves, .svg or .png.
    """
    from albertine.bench import pretrain, pretrain_table

    if plot is not None:
        pretrain_table.check_plot_file(plot)
    pretrain_table.show_pretraining(
        pretrain.measure_pretraining(options.read_settings(PretrainBenchSettings)), plot, as_json=json
    )


@bench.command(name="finetune")
def bench_finetune(
    model: str,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[FinetuneBenchSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare fine-tuning with `transformers` from the same checkpoint: scores and examples per second.

    Example: albertine bench finetune my-run --task mrpc --data glue/

    Args:
        model: The checkpoint that both sides start from.
    """
    from albertine.bench import finetune as finetune_bench

    finetune_bench.show_finetuning(
        *finetune_bench.measure_finetuning(model, options.read_settings(FinetuneBenchSettings)), as_json=json
    )


@bench.command(name="exits")
def bench_exits(
    model: str,
    /,
    *,
    out: Path,
    json: JsonFlag = False,
    settings: Annotated[ExitBenchSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Measure what exits save, beside padded batches, models without exits and shallower models.

    An interrupted benchmark resumes with the same command; a larger --seeds adds runs. The models with exits
    can have heads of their own or an exit unit, with the options of `finetune`.

    Example: albertine bench exits my-run --task sst-2 --data glue/ --out exits-on-sst-2

    Args:
        model: The pre-trained model that all runs start from.
        out: Folder for the runs and their results.
    """
    from albertine.bench import exits, exits_picture, exits_table

    result = exits.measure_exit_bench(model, out, options.read_settings(ExitBenchSettings))
    exits_table.show_exits(result, as_json=json)
    exits_picture.draw_exit_bench(result, out / exits_picture.PICTURE_FILE)


@bench.command(name="corpus", usage="Usage: albertine bench corpus --tokenizer PATH [OPTIONS] TEXT...")
def bench_corpus(
    *text: str,
    tokenizer: Path,
    json: JsonFlag = False,
    settings: Annotated[CorpusBenchSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare corpus building and sampling with the `tokenizers` library and the reference algorithm.

    Example: albertine bench corpus novels/ --tokenizer my-tokenizer

    Args:
        text: Files, folders or globs; a few tens of megabytes are enough.
        tokenizer: The folder of a tokenizer.
    """
    from albertine.bench import corpus

    corpus.show_corpus(
        corpus.measure_corpus(text, tokenizer, options.read_settings(CorpusBenchSettings)), as_json=json
    )


@bench.command(name="score")
def bench_score(
    data: str,
    /,
    *,
    tokenizer: Path,
    json: JsonFlag = False,
    settings: Annotated[ScoreBenchSettings | None, MODEL_SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare the scoring of minimal pairs with `transformers`, on the same weights and sentences.

    The model is albert-tiny unless --model or --config names one.

    Example: albertine bench score blimp/data --tokenizer my-tokenizer --pairs 10

    Args:
        data: A folder of .jsonl files with minimal pairs, or one file.
        tokenizer: The folder of a tokenizer.
    """
    from albertine.bench import score as score_bench

    score_bench.show_scoring(
        score_bench.measure_scoring(data, tokenizer, options.read_settings(ScoreBenchSettings)), as_json=json
    )


@bench.command(name="serve")
def bench_serve(
    model: str,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[ServeBenchSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare `albertine serve` with FastAPI and `transformers` under 1, 8 and 64 concurrent clients.

    Example: albertine bench serve stars --seconds 5

    Args:
        model: A model of `albertine serve`; the peer serves classification models.
    """
    from albertine.bench import serve as serve_bench

    serve_bench.show_servers(
        serve_bench.measure_servers(model, options.read_settings(ServeBenchSettings)), as_json=json
    )
