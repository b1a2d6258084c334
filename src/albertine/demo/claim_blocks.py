"""The part of the report that compares ALBERT's score per parameter with that of two BERTs."""

from albertine.demo.scores import task_score
from albertine.demo.study_pages import PUBLISHED_STUDIES
from albertine.demo.workspace import DemoWorkspace, Start
from albertine.display import counted
from albertine.model.parameter_counts import count_parameters
from albertine.report.page import code_block, html_paragraphs, html_table


def claim_blocks(workspace: DemoWorkspace) -> list[str]:
    """Return what the scores say about the claim and the studies that test it; nothing without BERTs."""
    if not workspace.settings.compare:
        return []
    explanation = (
        "One seed decides nothing, and no learning rate was chosen for the narrow BERT. Two studies test the "
        "claim with five seeds, on generated stories:"
    )
    are_copied = all((workspace.out / study.page).is_file() for study in PUBLISHED_STUDIES)
    return [
        html_paragraphs(_finding(workspace), explanation),
        html_table(
            ("study", "verdict"),
            [(study.title, study.verdict) for study in PUBLISHED_STUDIES],
            links=[study.page for study in PUBLISHED_STUDIES] if are_copied else None,
        ),
        html_paragraphs("These commands repeat them:"),
        code_block(
            "\n".join(
                f"albertine study {study.claim} --scale minutes --out studies" for study in PUBLISHED_STUDIES
            )
        ),
    ]


def _finding(workspace: DemoWorkspace) -> str:
    counts = {
        name: count_parameters(workspace.model_settings(name)).encoder for name in workspace.model_names
    }
    num_tasks = len(workspace.task_names())
    num_ahead = {bert: _num_tasks_ahead(workspace, bert) for bert in ("narrow-bert", "bert")}
    finding = (
        f"ALBERT's claim is its score per parameter. With as many parameters ({counts['albert']:,} and "
        f"{counts['narrow-bert']:,}) and the same training time, ALBERT is ahead of the narrow BERT on "
        f"{num_ahead['narrow-bert']} of {num_tasks} tasks here. It is ahead of the BERT of the same shape, "
        f"with {counts['bert']:,} parameters, on {num_ahead['bert']}."
    )
    if num_ahead["narrow-bert"] < num_tasks:
        num_failed = num_tasks - num_ahead["narrow-bert"]
        finding += (
            f" So at this size and with this training time, the claim fails on {counted(num_failed, 'task')}."
        )
    losses = {name: workspace.probe_models()[name]["probe"]["mask_token_loss"]["value"] for name in counts}
    if losses["narrow-bert"] < losses["albert"]:
        finding += (
            f" On held-out text, the claim fails: the narrow BERT has the lower loss, "
            f"{losses['narrow-bert']:.3f} instead of {losses['albert']:.3f}."
        )
    return finding


def _num_tasks_ahead(workspace: DemoWorkspace, bert: Start) -> int:
    """Return on how many tasks the ALBERT scores higher than a BERT."""
    return sum(
        task_score(workspace.finetune_model(name)) > task_score(workspace.finetune_model(name, bert))
        for name in workspace.task_names()
    )
