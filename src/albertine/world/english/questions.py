"""The wordings of questions: for each event type and answer field, several wordings of one question.

All wordings of a question ask for the same, so any two of them are duplicates. The slots are
those of the table in `forms.py`. A wording does not name the answer, and `tasks/queries.py` keeps
only questions that have one answer in the story.
"""

from albertine.world import events as e
from albertine.world import facts

QUESTIONS: dict[type, dict[str, tuple[str, ...]]] = {
    e.Lives: {
        "place": ("Where did {who} live?", "In which village was {who's} home?", "Where was {who} at home?"),
        "who": ("Who lived {place@}?", "Whose home was {place@}?", "Which of them was at home {place@}?"),
    },
    e.Works: {
        "trade": ("What was {who's} trade?", "What did {who} do for a living?", "What work did {who} do?"),
        "who": (
            "Who worked {place@}?",
            "Who had a trade {place@}?",
            "Which person earned a living {place@}?",
        ),
        "place": (
            "Where did {who} work?",
            "In which place did {who} work?",
            "Where was it that {who} worked?",
        ),
    },
    e.Keeps: {
        "name": ("What was {who's} {animal} called?", "What was the name of the {animal} that {who} kept?"),
        "who": ("Who kept {a animal} called {name}?", "To whom did the {animal} {name} belong?"),
    },
    e.FixtureAt: {
        "place": ("Where did {thing} stand?", "Where was {thing}?", "In which place did {thing} stand?"),
    },
    e.ThingAt: {
        "spot": (
            "In or on what did {thing} lie at first?",
            "What was {thing} in or on to begin with?",
        ),
    },
    e.HasGoods: {
        "number": (
            "How many {goods.many} did {who} have at first?",
            "With how many {goods.many} did {who} begin?",
        ),
    },
    e.Take: {
        "who": (
            "Who took {thing} {spot-}?",
            "By whom was {thing} taken {spot-}?",
            "Which person fetched {thing} {spot-}?",
        ),
        "thing": (
            "What did {who} take {spot-}?",
            "Which thing did {who} fetch {spot-}?",
            "What was taken {spot-} by {who}?",
        ),
        "spot": (
            "Out of or off what did {who} take {thing}?",
            "What was {thing} in or on when {who} took it?",
        ),
    },
    e.Put: {
        "who": (
            "Who put {thing} {spot}?",
            "By whom was {thing} put {spot}?",
            "Which person laid {thing} {spot}?",
        ),
        "thing": (
            "What did {who} put {spot}?",
            "Which thing did {who} lay {spot}?",
            "What was put {spot} by {who}?",
        ),
        "spot": (
            "In or on what did {who} put {thing}?",
            "What did {who} put {thing} in or on?",
            "In or on what was {thing} put by {who}?",
        ),
    },
    e.Give: {
        "who": (
            "Who gave {thing} to {whom}?",
            "Who let {whom} have {thing}?",
            "From whom did {whom} get {thing}?",
            "By whom was {thing} handed to {whom}?",
            "Who was it that {whom} received {thing} from?",
        ),
        "thing": (
            "What did {who} give to {whom}?",
            "What did {who} let {whom} have?",
            "What did {whom} get from {who}?",
            "What was it that {whom} received from {who}?",
            "What was handed to {whom} by {who}?",
        ),
        "whom": (
            "To whom did {who} give {thing}?",
            "Whom did {who} let have {thing}?",
            "Who got {thing} from {who}?",
            "Who was handed {thing} by {who}?",
            "Who was it that {who} passed {thing} to?",
        ),
    },
    e.Return: {
        "who": (
            "Who brought {thing} back to {whom}?",
            "By whom was {thing} returned to {whom}?",
            "From whom did {whom} get {thing} back?",
            "Who was it that gave {whom} {thing.the} back?",
        ),
        "thing": (
            "What did {who} bring back to {whom}?",
            "What was it that {who} returned to {whom}?",
            "What did {whom} get back from {who}?",
            "What was returned to {whom} by {who}?",
        ),
        "whom": (
            "To whom did {who} return {thing}?",
            "Who was it that {who} brought {thing} back to?",
            "Who got {thing} back from {who}?",
            "Who was it that got {thing} back from {who}?",
        ),
    },
    e.Lose: {
        "who": (
            "Who left {thing} behind?",
            "By whom was {thing} left behind?",
            "Who was it that left {thing} behind?",
        ),
        "thing": (
            "What did {who} leave behind {spot}?",
            "What was left behind {spot} by {who}?",
            "What was it that {who} left behind {spot}?",
        ),
    },
    e.Find: {
        "who": ("Who found {thing}?", "Who was it that discovered {thing}?", "By whom was {thing} found?"),
        "thing": ("What did {who} find {spot}?", "What was it that {who} discovered {spot}?"),
        "spot": (
            "In or on what did {who} find {thing}?",
            "What was {thing} in or on when {who} found it?",
            "In or on what was {thing} found by {who}?",
        ),
    },
    e.Buy: {
        "who": (
            "Who bought {thing} from {whom}?",
            "Who was it that bought {thing} from {whom}?",
            "To whom did {whom} sell {thing}?",
            "Who was it that {whom} sold {thing} to?",
        ),
        "thing": (
            "What did {who} buy from {whom} for {price}?",
            "What was it that {who} bought from {whom} for {price}?",
            "What did {whom} sell to {who} for {price}?",
            "What was sold to {who} by {whom} for {price}?",
        ),
        "price": (
            "How much did {who} pay {whom} for {thing}?",
            "For how much did {who} buy {thing} from {whom}?",
            "What was the price of {thing} when {whom} sold it to {who}?",
            "For how much did {whom} sell {thing} to {who}?",
            "What did {thing} from {whom} cost {who}?",
        ),
        "whom": (
            "From whom did {who} buy {thing}?",
            "Who was it that {who} bought {thing} from?",
            "Who sold {thing} to {who}?",
            "By whom was {thing} sold to {who}?",
        ),
    },
    e.BuyGoods: {
        "number": (
            "How many {goods.many} did {who} buy from {whom}?",
            "What number of {goods.many} did {who} buy from {whom}?",
            "How many {goods.many} did {whom} sell to {who}?",
            "What number of {goods.many} did {whom} sell to {who}?",
        ),
        "price": (
            "How much did {who} pay {whom} for the {goods.many}?",
            "For how much did {who} buy {goods.many} from {whom}?",
            "What did the {goods.many} from {whom} cost {who}?",
            "For how much did {whom} sell {goods.many} to {who}?",
        ),
        "whom": (
            "From whom did {who} buy {goods.many}?",
            "Who was it that {who} bought {goods.many} from?",
            "Who sold {goods.many} to {who}?",
            "By whom were {goods.many} sold to {who}?",
        ),
        "who": (
            "Who bought {goods.many} from {whom}?",
            "Who was it that bought {goods.many} from {whom}?",
            "To whom did {whom} sell {goods.many}?",
            "Who was it that {whom} sold {goods.many} to?",
        ),
    },
    e.ShareGoods: {
        "number": (
            "How many {goods.many} did {who} give to {whom}?",
            "What number of {goods.many} did {who} let {whom} have?",
            "How many {goods.many} did {whom} get from {who}?",
            "What number of {goods.many} did {whom} receive from {who}?",
        ),
        "whom": (
            "To whom did {who} give some of the {goods.many}?",
            "Whom did {who} let have some of the {goods.many}?",
            "Who got some of the {goods.many} from {who}?",
            "Who was handed some of the {goods.many} by {who}?",
        ),
        "who": (
            "Who gave {whom} some of the {goods.many}?",
            "Who let {whom} have some of the {goods.many}?",
            "From whom did {whom} get some of the {goods.many}?",
            "By whom was {whom} given some of the {goods.many}?",
        ),
    },
    e.Break: {
        "who": (
            "Who damaged {thing}?",
            "By whom was {thing} damaged?",
            "Who was it that damaged {thing}?",
        ),
        "thing": ("What did {who} damage {thing.place}?", "What was damaged {thing.place} by {who}?"),
    },
    e.Repair: {
        "who": (
            "Who put {thing} right?",
            "By whom was {thing} put right?",
            "Who was it that put {thing} right?",
        ),
    },
    e.Meet: {
        "whom": ("Whom did {who} meet {place@}?", "Who was it that {who} came upon {place@}?"),
        "place": (
            "Where did {who} meet {whom}?",
            "Where was it that {who} came upon {whom}?",
            "Where was {whom} met by {who}?",
            "At which place did {whom} run into {who}?",
        ),
    },
    e.Near: {
        "place": (
            "What stands next to {other} on its {direction} side?",
            "What is next to {other} in the {direction}?",
        ),
        "direction": (
            "On which side of {other} does {place} stand?",
            "In which direction from {other} is {place}?",
            "If you stand at {other}, where do you look for {place}?",
            "Where does {place} lie if you come from {other}?",
        ),
    },
    e.BuiltOf: {
        "material": (
            "What is {place} made of?",
            "Of what is {place} built?",
            "What material is {place} made of?",
        ),
    },
    e.HasOrnament: {
        "place": ("Which place has {ornament}?", "Where does one see {ornament}?"),
    },
    e.HasWorker: {
        "who": ("Who works {place@}?", "Who is the {trade} {place@}?"),
        "trade": ("What is {who's} trade?", "What does {who} do for a living?"),
    },
    e.CountAtPlace: {
        "number": ("How many {what} are there {place@}?", "How many {what} can one count {place@}?"),
    },
}

# Questions about the state at the end of a story, and at the time of an event (%s).
LAST: dict[type, tuple[str, ...]] = {
    facts.HasThing: ("Who was carrying {thing} at the end?", "With whom was {thing} at the end?"),
    facts.AtSpot: ("In or on what was {thing} at the end?", "What was {thing} in or on at last?"),
    facts.AtPlace: ("Where was {who} at the end?", "Where did {who} end up?"),
    facts.HasExactly: (
        "How many {goods.many} did {who} have at the end?",
        "How many {goods.many} were left to {who} at last?",
    ),
}
BEFORE: dict[type, tuple[str, ...]] = {
    facts.HasThing: ("Who was carrying {thing} at the time when %s?", "With whom was {thing} when %s?"),
    facts.AtSpot: ("In or on what was {thing} at the time when %s?", "What was {thing} in or on when %s?"),
}
