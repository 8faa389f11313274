"""One fit, from the data on disk to the tagger in its folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nershift.auto.ask import Ask, identity
from nershift.auto.costs import Speed, cost, reference
from nershift.auto.encoders import choose_encoder
from nershift.auto.evidence import Knowledge, read_evidence
from nershift.auto.folder import FitFolder
from nershift.auto.materials import FINAL, PROBE, TARGET, Materials
from nershift.auto.plan import Plan, make_plan
from nershift.auto.pool import Answer, LocalPool, Pool
from nershift.auto.publish import publish
from nershift.auto.race import Runner, after_round, final_order, ranked, rounds
from nershift.auto.recipe import RECIPES, Recipe
from nershift.auto.result import Fit, Outcome
from nershift.auto.schedule import Clock, Desk, Task, seconds_of
from nershift.auto.situation import Situation, look
from nershift.auto.votes import OF_ONE_RECIPE, VOTERS, Ballot, ballot
from nershift.errors import CheckpointError, NershiftError, SetupError
from nershift.evaluation.predictions import read_predictions
from nershift.run import NO_MODEL

_GRACE = 1.12  # times the minutes, after which nothing is waited for
_ON_TOP = 5.0  # seconds for scores and the report
_SPARE = 1.15  # times the seconds that voters should take
_LATE = 2.0  # seconds that may pass before the clock is looked at
_ON_A_GPU = 8  # trainings at once that one GPU serves well
Tell = Callable[[str], None]


def situation_of(ask: Ask) -> Situation:
    """The facts, for those who plan."""
    chosen = choose_encoder(ask.encoder, ask.target.language, ask.device, ask.download)
    texts = [text for name, text in ask.raw.items() if name in (TARGET, ask.target.name)]
    return look(
        ask.target,
        ask.sources,
        sum(map(len, texts)),
        same=ask.same,
        encoder=chosen,
        device=ask.device,
        tagger=ask.start,
    )


def room(here: Situation, workers: int) -> tuple[int, int]:
    """Trainings at once, and threads of each; more threads than that gain little for models of this size."""
    places = workers or (min(_ON_A_GPU, here.cores) if here.device.startswith("cuda") else here.cores)
    return places, max(1, min(4, here.cores // places))


class Fitting:
    """One fit, from its folder to its outcome."""

    def __init__(
        self,
        ask: Ask,
        out: Path,
        minutes: float,
        workers: int,
        ray: str | None,
        overwrite: bool,
        report: bool,
        tell: Tell,
    ) -> None:
        if minutes <= 0:
            raise SetupError(f"found {minutes:g}", place="--minutes", expected="more than 0")
        self.ask, self.report, self.tell, self.ray, self.workers = ask, report, tell, ray, workers
        self.known = Knowledge(read_evidence(ask.without))
        self.folder = FitFolder(out, identity(ask), overwrite)
        self.clock = Clock(60 * minutes, self.folder.spent)
        self.minutes, self.speed = minutes, Speed()
        self.runners: dict[str, Runner] = {}
        self.published, self.voters = "", tuple[str, ...]()
        self.ballots = list[Ballot]()

    def run(self) -> Fit:
        if self.folder.finished:
            self.tell(f"{self.folder.path} holds this fit already; --overwrite makes it anew")
            return Fit.open(self.folder.path)
        self.here = situation_of(self.ask)
        for line in self.here.describe():
            self.tell(line)
        places, threads = room(self.here, self.workers)
        interrupted = False
        with self._pool(places, threads) as pool:
            self.desk = Desk(pool, self.clock, self.speed)
            try:
                self._prepare(pool.places, threads)
                self._race()
                self._finals()
            except KeyboardInterrupt:
                interrupted = True
                self.tell("interrupted: the best tagger so far is kept")
        self.folder.spend(self.clock.now)
        return self._conclude(interrupted)

    def _pool(self, places: int, threads: int) -> Pool:
        if self.ray is not None:
            from nershift.auto.ray_pool import RayPool

            return RayPool(self.ray, self.workers, self.folder.work)
        return LocalPool(places, threads, self.folder.work / "workers")

    # -- before the race ---------------------------------------------------------------------------------

    def _prepare(self, places: int, threads: int) -> None:
        """Write the data, time the machine, and make the plan, or read the one of an interrupted fit."""
        kept = self.folder.plan
        able = [r for r in RECIPES.values() if self.here.meets(r.needs)]
        draft = make_plan(self.here, self.known, self.speed, self.minutes, places, threads, self.ask.recipes)
        self.materials = Materials.write(
            self.folder.work.resolve(),
            replace(self.ask.target, splits={k: v for k, v in self.ask.target.splits.items() if k in ("train", "dev")}),
            self.ask.sources,
            {TARGET if name == self.ask.target.name else name: text for name, text in self.ask.raw.items()},
            trials=draft.trials,
            device=self.ask.device,
            seed=self.ask.seed,
            same=self.ask.same,
            encoder=self.here.encoder.place if self.here.encoder else None,
            tagger=self.ask.start,
        )
        self.plan = Plan.from_dict(kept, self.here) if kept is not None else draft
        self._train(self.plan.candidate(self.plan.first).recipe, then=self._first_is_there)
        if kept is None:
            self._probe(able)
            self.plan = make_plan(self.here, self.known, self.speed, self.minutes, places, threads, self.ask.recipes)
            self.folder.keep_plan(self.plan.to_dict())
        for line in self.plan.describe()[len(self.here.describe()) + 1 :]:
            self.tell(line)
        self.runners = {c.recipe.name: Runner(c.recipe.name, c.expected) for c in self.plan.candidates}

    def _probe(self, able: Sequence[Recipe]) -> None:
        """Time a few updates of the kinds of training that the plan is made of."""
        if not self.here.labelled:
            return
        for pretrained in (False, True):
            recipe = next((r for r in able if r.transformer == pretrained and r.method == "target_only"), None)
            if recipe is None:
                continue

            def heard(answer: Answer, recipe: Recipe = recipe, pretrained: bool = pretrained) -> None:
                if not answer.failed:
                    self.speed.learn(recipe, reference(self.here, pretrained), answer.per_update, weight=1.0)
                elif pretrained:
                    self.tell(f"the encoder cannot be used: {answer.failed}")

            self.desk.add(Task(self.materials.probe(recipe), recipe, lambda: 10.0, then=heard))
        while any(name.startswith(PROBE) for name in self._in_hand()):
            self.desk.step()

    # -- the race ----------------------------------------------------------------------------------------

    def _race(self) -> None:
        """Rounds of trials, in which fewer and fewer take part.

        A place that has nothing to do in a round works ahead on later trials; what they say counts when their round
        comes, so that the outcome does not depend on who was quick.
        """
        staying, counted = list(self.runners.values()), list[int]()
        for trials in rounds(self.plan.trials):
            order = ranked(staying, counted)
            for trial in (*trials, *range(trials[-1] + 1, self.plan.trials)):
                for runner in order:
                    self._try(runner, trial)
            counted += trials
            self._work_off({self._trial_of(runner, trial) for runner in staying for trial in trials})
            staying = [r for r in staying if not r.failed]
            if any(set(trials) - set(r.predictions) for r in staying):
                break  # the clock has cut this round: what was believed before decides
            before, staying = staying, after_round(staying, counted)
            gone = [r for r in before if r not in staying]
            self.desk.drop({self._trial_of(r, trial) for r in gone for trial in range(self.plan.trials)})
        self.desk.drop({t.job.name for t in self.desk.waiting if t.until is not None})
        self._work_off(set())

    def _trial_of(self, runner: Runner, trial: int) -> str:
        """The name of the job that judges a recipe."""
        return self.materials.trial(RECIPES[runner.name], trial)[-1].name

    def _try(self, runner: Runner, trial: int, seed: int | None = None) -> None:
        """One trial of a recipe, with what it starts from."""
        recipe, _ = _recipe_of(runner.name)

        def heard(answer: Answer) -> None:
            if answer.failed and answer.job.name not in self.desk.cut:
                runner.failed = answer.failed
                self.tell(f"{runner.name} failed: {answer.failed}")
            elif not answer.failed:
                runner.predictions[trial] = read_predictions(answer.job.folder / "predictions.jsonl")
                self._tell_score(runner)
                _slim(answer.job.folder)

        *before, last = self.materials.trial(recipe, trial, seed)
        for job in before:
            self._add(job, recipe, partial(self._race_ends, job.name))
        self._add(last, recipe, partial(self._trials_end, last.name), heard)

    def _add(
        self, job: Any, recipe: Recipe, until: Callable[[], float] | None, then: Callable[[Answer], None] | None = None
    ) -> None:
        folds = self.plan.trials if job.held else 0

        def expected() -> float:
            return seconds_of(job, cost(recipe, self.here, self.known, self.speed, folds))

        self.desk.add(Task(job, recipe, expected, until, then or (lambda answer: None)))

    def _race_ends(self, job: str = "") -> float:
        """When a job of the race must have ended, so that the one that leads can be trained on everything after it."""
        leader = self._leader()
        if leader is None:
            return self.clock.seconds
        needed = 0.0
        if not self._final_of(leader).finished:
            needed = self._cost_of_final(RECIPES[leader], {job, *self.desk.running})
        return self.clock.seconds - needed - _ON_TOP

    def _trials_end(self, job: str) -> float:
        """The same for a trial, which nothing is built on: it leaves time for the voters too."""
        leader = self._leader()
        return self._race_ends(job) - (self._cost_of_voters(RECIPES[leader]) if leader is not None else 0.0)

    def _cost_of_voters(self, recipe: Recipe) -> float:
        """Seconds beyond its own training until two more are trained; they share what the sources taught."""
        if self.ask.one_model:
            return 0.0
        waves = -(-VOTERS // self.plan.places)
        one = cost(recipe, self.here, self.known, self.speed).train
        return (_SPARE * waves - 1) * one + _LATE

    def _cost_of_final(self, recipe: Recipe, without: Collection[str] = (), seed: int | None = None) -> float:
        """Seconds that its jobs still take, but for some of them."""
        expected = cost(recipe, self.here, self.known, self.speed)
        jobs = [job for job in self.materials.final(recipe, seed) if not job.finished and job.name not in without]
        return sum(max(0.0, seconds_of(job, expected) - self.desk.seconds_at(job.name)) for job in jobs)

    def _leader(self) -> str | None:
        order = final_order(list(self.runners.values()))
        return order[0].name if order else None

    def _final_of(self, name: str) -> Any:
        return self.materials.final(RECIPES[name])[-1]

    def _tell_score(self, runner: Runner) -> None:
        score = runner.score()
        if score is not None:
            f1 = f"F1 {100 * score.value:.1f} ({100 * score.low:.0f} to {100 * score.high:.0f})"
            done = f"{len(runner.predictions)} of {self.plan.trials}"
            self.tell(f"{self.clock.now:4.0f} s  {runner.name}: {f1} after {done}")

    def _first_is_there(self, answer: Answer) -> None:
        if not answer.failed:
            name = answer.job.name.removesuffix(FINAL)
            self._publish((name,))
            self.tell(f"{self.clock.now:4.0f} s  a first tagger is in {self.folder.path} ({name})")

    def _work_off(self, names: set[str]) -> None:
        """Step until these jobs are done; with none, until all is."""
        while self.desk.busy:
            if names and not names & set(self._in_hand()):
                return
            self.desk.step()
            self.folder.spend(self.clock.now)
            if self.clock.now > _GRACE * self.clock.seconds:
                self.desk.drop(set(self._in_hand()))

    def _in_hand(self) -> list[str]:
        return [t.job.name for t in self.desk.waiting] + list(self.desk.running)

    # -- after the race ----------------------------------------------------------------------------------

    def _finals(self) -> None:
        """Train the winner on everything, and those that vote with it where that pays; if it fails, the next."""
        while order := final_order(list(self.runners.values())):
            winner = self._affordable(order)
            self._train_to_keep(winner, order)
            if not winner.failed:
                return

    def _affordable(self, order: Sequence[Runner]) -> Runner:
        for runner in order[:-1]:
            if self._fits(RECIPES[runner.name]):
                return runner
            self.tell(f"{runner.name} leads, but there is no time left to train it on all labels")
        return order[-1]

    def _train_to_keep(self, winner: Runner, order: Sequence[Runner]) -> None:
        def heard(answer: Answer) -> None:
            if answer.failed:
                winner.failed = answer.failed
                self.tell(f"{winner.name} failed when it learned all labels: {answer.failed}")

        self._train(RECIPES[winner.name], then=heard)
        chosen = None if self.ask.one_model else self._vote(winner, order)
        for name in chosen.voters[1:] if chosen else ():
            self._train(*_recipe_of(name), until=lambda: self.clock.seconds)
        self._work_off(set())
        voters = chosen.voters if chosen else (winner.name,)
        there = tuple(v for v in voters if self._job_of(v).finished)
        if len(there) < len(voters):
            there = tuple(v for v in (winner.name,) if v in there)
        if there:
            self._publish(there)

    def _fits(self, recipe: Recipe) -> bool:
        return self.clock.now + self._cost_of_final(recipe) + _ON_TOP < _GRACE * self.clock.seconds

    def _train(
        self,
        recipe: Recipe,
        seed: int | None = None,
        then: Callable[[Answer], None] = lambda answer: None,
        until: Callable[[], float] | None = None,
    ) -> None:
        """On all labels."""
        *before, last = self.materials.final(recipe, seed)
        for job in before:
            self._add(job, recipe, until)
        self._add(last, recipe, until, then)

    def _vote(self, winner: Runner, order: Sequence[Runner]) -> Ballot | None:
        """The vote that promises most: of other recipes, or of other seeds of the winner."""
        seeds = range(self.ask.seed + 1, self.ask.seed + VOTERS) if self._seed_matters(winner) else ()
        kin = [Runner(f"{winner.name}@{seed}", winner.expected) for seed in seeds]
        found: list[Ballot | None] = []
        if len(winner.predictions) == self.plan.trials > 0:
            if self._room_for(kin, winner):
                for trial in range(self.plan.trials):
                    for runner in kin:
                        self._try(runner, trial, _recipe_of(runner.name)[1])
                self._work_off(set())
            found += [ballot(winner, kin, OF_ONE_RECIPE), ballot(winner, [r for r in order if r is not winner])]
        if kin and not any(found):
            found.append(Ballot((winner.name, *(r.name for r in kin)), None, OF_ONE_RECIPE))
        self.ballots = [b for b in found if b is not None]
        paying = [b for b in self.ballots if b.pays and self._can_train(b)]
        return max(paying, key=lambda b: b.expected, default=None)

    def _seed_matters(self, winner: Runner) -> bool:
        """Does anything differ between its trainings, which share what they learn from the sources?"""
        return cost(RECIPES[winner.name], self.here, self.known, self.speed).train > 0

    def _room_for(self, kin: Sequence[Runner], winner: Runner) -> bool:
        """Is there time to judge other seeds of the winner, and to train them?"""
        one = cost(RECIPES[winner.name], self.here, self.known, self.speed, self.plan.trials).train
        trials = one * len(kin) * self.plan.trials / self.plan.places
        finals = one * (1 + len(kin)) / self.plan.places + one
        return self.clock.left > trials + finals + _ON_TOP

    def _can_train(self, found: Ballot) -> bool:
        """Is there time for those that are not trained yet? If the guess is wrong, the clock ends them."""
        needed = [self._cost_of_final(recipe, seed=seed) for recipe, seed in map(_recipe_of, found.voters)]
        waves = -(-sum(seconds > 0 for seconds in needed) // self.plan.places)
        return self.clock.left > waves * max(needed) + _ON_TOP

    def _job_of(self, name: str) -> Any:
        return self.materials.final(*_recipe_of(name))[-1]

    def _publish(self, voters: Sequence[str]) -> None:
        publish(self.folder.path, [self._job_of(name).folder for name in voters])
        self.published = voters[0]
        self.voters = tuple(voters)

    def _conclude(self, interrupted: bool) -> Fit:
        """Score the choice on test, once, and write what is to be said of it."""
        if not self.published:
            raise CheckpointError(
                "no tagger was finished in the time",
                place=str(self.folder.path),
                expected=f"more than {self.minutes:g} minutes",
                fix="give the same command with more --minutes: what is done is not repeated",
            )
        outcome = Outcome(
            plan=self.plan,
            runners=tuple(final_order(list(self.runners.values()))),
            failed=tuple(r for r in self.runners.values() if r.failed),
            winner=self.published,
            voters=self.voters,
            ballots=tuple(self.ballots),
            seconds=self.clock.now,
            cut=tuple(self.desk.cut),
            interrupted=interrupted,
        )
        with suppress(NershiftError):
            self.folder.spend(self.clock.now)
        done = outcome.write(self.folder.path, self.ask, self.materials, self.known, report=self.report)
        if not interrupted:
            self.folder.finish()
        return done


def _recipe_of(voter: str) -> tuple[Recipe, int | None]:
    """The recipe and, of a voter that has one of its own, the seed."""
    name, _, seed = voter.partition("@")
    return RECIPES[name], int(seed) if seed else None


_HEAVY = ("*.safetensors", "model.json", "manifest.json", "tokenizer*", "vocab*")


def _slim(folder: Path) -> None:
    """A trial is judged by its predictions: its weights are not needed any more."""
    (folder / NO_MODEL).touch()
    shutil.rmtree(folder / "state", ignore_errors=True)
    for pattern in _HEAVY:
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
