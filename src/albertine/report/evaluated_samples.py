"""How many held-out samples the loss of a pre-training run is measured on."""

from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.errors import InputError
from albertine.pretrain.settings import PretrainSettings
from albertine.storage.urls import storage_url


def num_evaluated_samples(settings: PretrainSettings) -> int:
    """Return the number of samples of the last evaluation; if the corpus cannot be read, the maximum."""
    objective = settings.objective_at(max(0, settings.train.steps - 1))
    wanted = max(1, settings.train.evaluation_tokens // objective.max_length)
    if settings.corpus is None or storage_url(settings.corpus) is not None:
        return wanted
    try:
        return min(wanted, len(PretrainDataset(Corpus(settings.corpus), objective, "dev")))
    except InputError:  # the corpus was moved
        return wanted
