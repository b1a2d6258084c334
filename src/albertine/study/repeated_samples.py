"""Whether the arms of a claim about repeated samples train long enough to repeat them."""

from albertine.corpus.corpus import open_corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.errors import InputError
from albertine.study.study_run import StudyRun


def check_epochs(run: StudyRun) -> None:
    """Raise `InputError` if an arm with `text_fraction` or `distinct_epochs` sees no sample twice."""
    settings = run.complete_settings
    objective, train = settings.objective, settings.train
    if objective.text_fraction == 1 and objective.distinct_epochs is None:
        return
    try:
        samples = len(PretrainDataset(open_corpus(run.data.corpus), objective))
    except InputError as error:
        raise InputError(f"arm {run.arm}: {error}") from None
    distinct = objective.distinct_epochs or 1
    epochs = train.steps * train.batch_tokens / (samples * objective.max_length)
    if epochs < 2 * distinct:
        raise InputError(
            f"arm {run.arm}: train.steps gives {epochs:.1f} epochs of the arm's text, expected at least "
            f"{2 * distinct}, so that samples repeat; give less text, or more steps"
        )
