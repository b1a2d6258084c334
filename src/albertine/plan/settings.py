"""Settings of `albertine plan`: those of the run to plan, and the hardware; without heavy imports."""

import re
from dataclasses import dataclass

from albertine.pretrain.settings import PretrainSettings
from albertine.settings import SettingError, setting

THIS_MACHINE = "this"
_FACTORS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_MAX_TOKENS = 10**18
MAX_DEVICES = 1_000_000


@dataclass(frozen=True)
class PlanSettings(PretrainSettings):
    """Settings of `albertine plan`: those of the run, of which it uses the ones that cost something.

    So the settings file of a run or a recipe can be planned as it is.
    """

    hardware: str = setting(
        THIS_MACHINE,
        'Devices, as in "8 x H100"; "this" is this machine, which is measured for about ten seconds.',
    )
    tokens: str | None = setting(
        None,
        "Tokens to train on, as in 10B or 300M; by default --train.steps x --train.batch-tokens, and if "
        "they are 0 those of `albertine pretrain` for the corpus, or 655M without a corpus.",
    )
    finetune: str | None = setting(
        None, "Plan fine-tuning on this task in place of pre-training, with the paper's settings (Table 14)."
    )
    examples: int | None = setting(
        None, "With --finetune: training examples, if there are fewer than in the paper's data.", minimum=1
    )
    example_tokens: int | None = setting(
        None, "With --finetune: mean tokens per sequence; by default the maximum length.", minimum=2
    )
    efficiency: float | None = setting(
        None,
        "For named hardware: fraction of the peak rate that matrix products reach; by default what was "
        "measured on such a device, or 0.5.",
        minimum=0.01,
        maximum=1.0,
    )
    price: float | None = setting(
        None, "Price of one device for an hour, in any currency.", minimum=0.0, maximum=1e9
    )

    def check(self) -> None:
        """Raise `SettingError` for values that are not numbers of tokens, or that contradict each other."""
        super().check()
        parse_hardware(self.hardware)
        if self.tokens is not None:
            parse_tokens(self.tokens)
            if self.train.minutes is not None:
                raise SettingError("tokens", self.tokens, "must be left out with minutes", ("train.minutes",))
        for name in ("examples", "example_tokens"):
            if self.finetune is None and getattr(self, name) is not None:
                raise SettingError(name, getattr(self, name), "needs finetune = TASK", ("finetune",))
        if self.finetune is not None and self.tokens is not None:
            problem = (
                "must be left out, because they follow from the task; give --examples or --example-tokens"
            )
            raise SettingError("tokens", self.tokens, problem, ("finetune",))
        if self.finetune is not None and self.train.minutes is not None:
            problem = "must be left out, because fine-tuning takes the paper's steps"
            raise SettingError("train.minutes", self.train.minutes, problem, ("finetune",))


def parse_tokens(text: str) -> int:
    """Return a number of tokens, as in "10B", "1.5B" or "4,000"; raise `SettingError` if it is none."""
    number = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9][0-9_]*)(?:\.[0-9]+)?"  # 1,5B would be read as 15B
    match = re.fullmatch(rf"({number})\s*([KMBT]?)", text.strip().upper())
    if match is None:
        raise SettingError("tokens", text, "must be a number, maybe with K, M, B or T, as in 10B or 300M")
    tokens = float(match[1].replace("_", "").replace(",", "")) * _FACTORS[match[2]]
    if not 1 <= tokens <= _MAX_TOKENS:
        raise SettingError("tokens", text, "must be from 1 to 1,000,000T")
    return round(tokens)


def parse_hardware(text: str) -> tuple[int, str]:
    """Return number and name of the devices in a text such as "8 x H100", or raise `SettingError`."""
    # The x of RTX separates nothing: before the x of a number is a space, or a digit of the name.
    reversed_form = r"([a-z].*?(?:[0-9][^0-9]*?|\s))\s*[x*]\s*([0-9,]+)"
    if reversed_parts := re.fullmatch(reversed_form, text.strip(), re.IGNORECASE):
        text = f"{reversed_parts[2]} x {reversed_parts[1]}"
    number = r"[0-9]{1,3}(?:,[0-9]{3}){1,2}|[0-9]{1,9}"
    match = re.fullmatch(rf"(?:({number})(?:\s*[x*]\s*|\s+))?(\S.*)", text.strip(), re.IGNORECASE)
    if match is None:
        raise SettingError("hardware", text, 'must be a number and a device, as in "8 x H100", or this')
    count = int((match[1] or "1").replace(",", ""))
    if not 1 <= count <= MAX_DEVICES:
        raise SettingError("hardware", text, f"must have from 1 to {MAX_DEVICES:,} devices")
    return count, match[2].strip()
