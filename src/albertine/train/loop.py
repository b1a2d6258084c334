"""The loop: what every kind of training does, step after step.

    take this process's share of the batch
    compute it piece by piece, adding up gradients
    add up over the processes; ask the doctor
    clip, and move the weights
    tell; now and then evaluate, now and then write a checkpoint

What is trained, on what, and what counts as right is the work's to say (`Work`). A
loss is a mean over the whole step, over all its pieces and processes, so that it is
the same however the step was cut.

Nothing in a step depends on anything but the weights, what the optimizers remember,
the step's number and the place in the data. So a run that goes on from a checkpoint
is the run that was never broken off, bit for bit.
"""

import signal
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from albertine.corpus.chance import ask
from albertine.errors import Status, Stopped, WorkError
from albertine.interop.huggingface import load_folder
from albertine.train.doctor import MOST_RETURNS, Doctor
from albertine.train.ending import Asked, Ending
from albertine.train.gradients import Gradients
from albertine.train.keeper import Keeper
from albertine.train.machine import matrix_rate, now, peak_memory
from albertine.train.optimizers import Optimizers
from albertine.train.ranks import Ranks
from albertine.train.schedule import Schedule
from albertine.train.settings import LoopSettings
from albertine.train.sharding import SpreadGradients, like
from albertine.train.snapshots import Snapshot, ToWrite
from albertine.train.told import Told
from albertine.train.work import Share, Work


class Trainer:
    """A training run.

    Attributes:
        network: what is trained.
        step: how many steps have been taken.
        scores: the last ones on held-out data.
        best: step of the best checkpoint, and its loss or what its work has in place of one.
        saved: the step of the last checkpoint; -1 where there is none.
    """

    def __init__(
        self,
        network: Any,
        work: Work,
        train: LoopSettings,
        keeper: Keeper,
        ranks: Ranks,
        dtype: torch.dtype,
        scales: Mapping[str, float] = MappingProxyType({}),
    ):
        self.network, self._work, self._train = network, work, train
        self._keeper, self._ranks = keeper, ranks
        self._schedule = Schedule.settled(train)
        self._optimizers = Optimizers(network, train, dtype, scales)
        self._spread = train.shard and ranks.all > 1
        self._gradients = SpreadGradients(network) if self._spread else Gradients(network)
        self._doctor, self._ending = Doctor(), Ending()
        self._roof = matrix_rate(dtype, ranks.device) * ranks.all
        self._every = train.evaluate_every or max(1, train.steps // 40)
        self._position = work.position
        self.saved, self._saved_at, self._late = -1, time.monotonic(), False
        self._evaluated, self._unsaved = -1, True
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.scores: dict[str, float] = {}
        self.best: dict[str, float] | None = None
        self._resume()

    @property
    def finished(self) -> bool:
        """Whether the last step has been taken, and looked at."""
        return (self.step >= self._train.steps or self._in_vain()) and not self._to_evaluate()

    def _in_vain(self) -> bool:
        """Tell whether it has been long enough without getting better."""
        patience = self._train.patience
        return bool(patience and self.best and self.step - self.best["step"] >= patience * self._every)

    def run(self) -> None:
        """Train to the last step."""
        self.network.train()
        with self._ending.listening():
            try:
                if self._to_evaluate():  # at the start, or where it was broken off
                    self._evaluate()
                    self._save()
                while not self.finished:
                    self._advance()
            except Asked:
                self._leave()
            finally:
                self._work.close()
            self._save()
            self._keeper.snapshots.finish()

    def _to_evaluate(self) -> bool:
        """Tell whether the weights of this step are to be measured and have not been."""
        due = self.step % self._every == 0 or self.step >= self._train.steps
        return due and self._evaluated != self.step

    def _advance(self) -> None:
        """Take a step, and do what is due after it."""
        told = self._step()
        if told is None:
            return
        if self._ranks.first:
            self._keeper.step(told)
        remark = self._work.remark(told)
        if remark:
            self._event(remark)
        better = self._to_evaluate() and self._evaluate()
        if self._in_vain() and self.step < self._train.steps:
            assert self.best
            self._event(f"no better than at step {self.best['step']:,} for long enough; the run ends here")
        every = self._train.save_every
        if self.finished or better or self._late or (every and self.step % every == 0):
            self._save()

    def _step(self) -> Told | None:
        """Compute a step and move the weights; None if the run went back instead."""
        started = now(self._ranks.device)
        with self._ending.may_drop(self._ranks.all == 1):
            if self._work.turns(self.step):  # losses from here on compare with none before
                self._doctor.forget()
                self.best = None
            share = self._work.share(self.step)
            if self._spread:  # gathering weights takes all processes, as often as any of them
                share = share.padded(self._ranks.most(len(share.pieces)))
            of_share = [sum(counts) for counts in zip(*(piece.counts for piece in share.pieces), strict=True)]
            of_share = of_share or [0] * len(self._work.parts)
            asked = float(self._ending.signal != 0)
            late = float(self._ranks.first and self._save_is_late())
            *totals, tokens, operations, asked, late = self._ranks.total(
                [*of_share, share.tokens, share.operations, asked, late]
            )
            self._late = bool(late)
            if asked:
                raise Asked
            sums = self._computed(share, totals)
        self._gradients.add_up(self._ranks)
        self._ranks.add_up(sums)
        norm = float(self._gradients.norm())
        losses, right = (
            [one / total if total else 0.0 for one, total in zip(row, totals, strict=True)]
            for row in sums.tolist()
        )
        verdict = self._doctor.look(self.step + 1, sum(losses), norm)
        if verdict == "go back":
            self._go_back(sum(losses))
            return None
        rate = self._schedule.rate(self.step) * self._doctor.factor
        if verdict == "fine":
            self._gradients.clip(norm, self._train.clip)
            self._optimizers.step(rate)
            self._work.follow(self.network, self.step + 1)
        elif self._doctor.bad == 1:
            self._event(
                f"loss {sum(losses):.3g}, gradient {norm:.3g}: not finite; the step is left out",
                self.step + 1,
            )
        self.step, self._position, self._unsaved = self.step + 1, self._work.position, True
        seconds = now(self._ranks.device) - started
        self.seconds, self.tokens = self.seconds + seconds, self.tokens + int(tokens)
        return Told(
            step=self.step,
            tokens=self.tokens,
            seconds=self.seconds,
            loss=sum(losses),
            losses=dict(zip(self._work.parts, losses, strict=True)),
            right=dict(zip(self._work.parts, right, strict=True)),
            lr=rate,
            norm=norm,
            speed=tokens / seconds,
            roof=operations / seconds / self._roof,
            memory=peak_memory(self._ranks.device),
            left_out=verdict == "leave out",
        )

    def _computed(self, share: Share, totals: Sequence[float]) -> Tensor:
        """Compute a share's gradients; return the sums of losses and of right answers, by objective."""
        self._gradients.clear()
        sums = torch.zeros(2, len(totals), dtype=torch.float64, device=self._ranks.device)
        for number, piece in enumerate(share.pieces):
            key = ask(self._train.seed, self.step, self._ranks.rank, number)
            torch.manual_seed(int(key[0]))
            measured = self._work.measure(self.network, piece.to(self._ranks.device), self.step)
            # A mean over everything, of means over pieces: each weighs as much as it has of the whole.
            losses = [
                part.loss * (count / total)
                for part, count, total in zip(measured, piece.counts, totals, strict=True)
                if total
            ]
            if losses:
                sum(losses[1:], start=losses[0]).backward()
            counts = sums.new_tensor(piece.counts)
            sums[0] += torch.stack([part.loss.detach().double() for part in measured]) * counts
            sums[1] += torch.stack([part.right for part in measured])
        return sums

    def _evaluate(self) -> bool:
        """Measure on held-out data; tell whether this is the best so far."""
        self.network.eval()
        with self._ending.may_drop(self._ranks.all == 1):
            self.scores = self._work.evaluate(self.network, self.step)
        self.network.train()
        self._evaluated, self._unsaved = self.step, True
        if not self.scores:
            return False
        if self._ranks.first:
            self._keeper.evaluation(self.step, self.scores)
        loss = self._work.badness(self.scores)
        if self.best and loss >= self.best["loss"]:
            return False
        self.best = {"step": self.step, "loss": loss}
        return True

    def _save_is_late(self) -> bool:
        return time.monotonic() - self._saved_at >= 60 * self._train.save_minutes

    def _save(self) -> None:
        """Write a checkpoint of where the run is, if there is none of it yet."""
        if not self._unsaved:
            return
        self.saved, self._saved_at, self._unsaved = self.step, time.monotonic(), False
        if not (self._ranks.first or self._spread):  # spread tensors are gathered by all
            return
        remembered = self._optimizers.tensors()
        files = self._work.files(self.network, self.step)
        if not self._ranks.first:
            return
        state = {
            "step": self.step,
            "steps": self._train.steps,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "position": self._position,
            "data": self._work.data,
            "doctor": self._doctor.state(),
            "scores": self.scores,
            "evaluated": self._evaluated,
            "best": self.best,
        }
        best = None if self.best is None else int(self.best["step"])
        self._keeper.save(ToWrite(files, remembered, state, best, self._doctor.healthy))

    def _resume(self) -> None:
        """Go on from the newest checkpoint, if there is one."""
        snapshot = self._ranks.by_first(self._keeper.snapshots.newest)
        if self._ranks.from_first(snapshot is not None):
            self._take_up(snapshot)
            self.saved, self._unsaved = self.step, False
            if snapshot:
                self._keeper.publish(snapshot, self.best)

    def _take_up(self, snapshot: Snapshot | None) -> None:
        """Be where a checkpoint was; only the first process has it, and tells the others."""
        state = self._ranks.from_first(snapshot.state if snapshot else None)
        self._work.refuse_changed(state["data"])
        stored = dict(load_folder(snapshot.folder).named_parameters()) if snapshot else {}
        weights = self._ranks.tensors_from_first({name: one.detach() for name, one in stored.items()})
        with torch.no_grad():
            for name, parameter in self.network.named_parameters():
                parameter.copy_(like(weights[name].to(parameter.device), parameter))
        remembered = self._ranks.tensors_from_first(snapshot.optimizer() if snapshot else {})
        self._optimizers.restore(remembered)
        self.step, self.tokens, self.seconds = state["step"], state["tokens"], state["seconds"]
        self._doctor = Doctor(**state["doctor"])
        self.scores, self.best, self._position = state["scores"], state["best"], state["position"]
        self._evaluated = state["evaluated"]
        self._work.go_to(self.step, self._position)

    def _go_back(self, loss: float) -> None:
        """Take the last checkpoint from before the trouble, and go on at half the rate."""
        at, doctor = self.step + 1, self._doctor
        doctor.went_back()
        advice = "lower --train.lr or lengthen --train.warmup"
        if doctor.returns > MOST_RETURNS:
            raise WorkError(
                f"the loss ran away at step {at:,} (it is {loss:.3g}), after {MOST_RETURNS} returns, "
                f"each at half the rate; {advice}"
            )
        snapshot = self._ranks.by_first(lambda: self._keeper.before(doctor.healthy))
        if not self._ranks.from_first(snapshot is not None):
            raise WorkError(
                f"the loss ran away at step {at:,} (it is {loss:.3g}) with no checkpoint before; {advice}"
            )
        self._take_up(snapshot)
        self._doctor = doctor
        if self.best and self.best["step"] > self.step:
            self.best = None
        if self._ranks.first:
            self._keeper.went_back(self.step)
        self._event(
            f"the loss ran away at step {at:,} (it was {loss:.3g}); went back to this step, "
            f"on at {doctor.factor:g} of the rate"
        )
        self._unsaved = True  # the same weights, but the doctor knows more
        self._save()

    def _event(self, what: str, step: int | None = None) -> None:
        if self._ranks.first:
            self._keeper.event(self.step if step is None else step, what)

    def _leave(self) -> None:
        """Keep what there is, and end."""
        self._save()
        self._keeper.snapshots.finish()
        interrupted = self._ending.signal == signal.SIGINT
        raise Stopped(
            f"asked to end at step {self.step:,} of {self._train.steps:,}; "
            "it is kept, and the same command goes on from there",
            Status.INTERRUPTED if interrupted else Status.TERMINATED,
        )
