"""The forms of each event: templates of clauses, one of which is drawn for each sentence.

A slot in braces names a field of the event; a verb in brackets is inflected. All plain
forms of an event name every field, so any two of them are paraphrases. A form with the
prefix `~` omits fields that the reader knows already, and a form with the prefix `+` adds
a detail; both occur only in stories.

| slot | example |
|---|---|
| `{who}`, `{who's}` | a person, the possessive |
| `{who=}` | a person as subject, where the form does not start with it |
| `{thing}`, `{thing.the}` | a thing; the second is never a pronoun |
| `{spot}`, `{spot-}`, `{spot@}` | on the shelf; from the shelf; in the kitchen (its place) |
| `{place}`, `{place+}` | the mill; a tall mill, if it is new |
| `{place@}`, `{place>}`, `{place-}` | at the mill; to the mill; from the mill |
| `{number} {goods}` | six eggs, one egg |
| `{goods.them}` | the eggs; "them" at a repeated mention |
| `{goods.many}` | eggs, whatever their number |
| `{thing.place}` | in the kitchen: the place of a fixture, only in questions |
| `{a trade}`, `{manner}` | a baker; an adverb |
| `[thing.breaks]`, `[chore]` | the verb in a field |
| `[be:number]` | a verb that agrees with a number |

Any other field is inserted unchanged. The capital is added when the sentence is built.
"""

from albertine.world import events as e

FORMS: dict[type, tuple[str, ...]] = {
    e.Lives: (
        "{who} [live] {place@}",
        "{who} [make] {who's} home {place@}",
        "+{who} [be] born {place@} and [live] there still",
        "+{who} [have] a narrow house {place@}",
        "+{who} [have] always lived {place@}",
    ),
    e.Works: (
        "{who} [work] as {a trade} {place@}",
        "{who} [earn] {who's} bread as {a trade} {place@}",
        "~{who} [be] {a trade} by trade",
    ),
    e.HasTrait: (
        "~{who} [be] {trait}",
        "{who} [be] {trait} and would always {habit}",
        "~everybody knew that {who=} [be] {trait}",
        "+{who} [be] as {trait} as ever",
        "{who} would {habit}, for {who=} [be] {trait}",
    ),
    e.HasRelation: (
        "{who} [be] {whom's} {relation}",
        "{whom} [have] {a relation}, {who}",
    ),
    e.Owns: (
        "{who} [own] {thing}",
        "+{who} [have] {thing} of {who's} own",
        "{thing} [belong] to {who}",
        "+{who} [carry] {thing} everywhere",
        "+{who} [be] fond of {thing}, which was {who's} own",
    ),
    e.ThingAt: (
        "{thing} [lie] {spot}",
        "{thing} [be] {spot}",
        "there was {thing} {spot}",
        "+{spot} lay {thing}",
        "+somebody had left {thing} {spot}",
    ),
    e.FixtureAt: (
        "{thing} [stand] {place@}",
        "there was {thing} {place@}",
        "+{place@} stood {thing}",
    ),
    e.HasGoods: (
        "{who} [have] {number} {goods}",
        "{who} [be] the owner of {number} {goods}",
        "+{who} [keep] {number} {goods} for the week",
        "+{who} [count] {who's} {goods.many}: there were {number}",
    ),
    e.HasStall: (
        "{who} [have] a stall {place@}",
        "{who} [keep] a stall {place@}",
        "{who} [sell] things at a stall {place@}",
        "+{place@} {who=} [set] up a stall",
    ),
    e.Keeps: (
        "{who} [keep] {a animal} called {name}",
        "{who} [have] {a animal} by the name of {name}",
        "+{a animal} called {name} lived with {who}",
    ),
    e.Go: (
        "{who} [go] {place>}",
        "{who} [walk] {place>}",
        "{who} [make] {who's} way {place>}",
        "{who} [come] {place>}",
        "{who} [go] over {place>}",
        "+{who} [hurry] {place>}",
        "+{who} [wander] over {place>}",
        "+{who} [step] out and [go] {place>}",
        "+{who} [come] {place>} with long strides",
        "+it was not far {place>}, and {who=} [walk]",
    ),
    e.Take: (
        "{who} [take] {thing} {spot-}",
        "{who} [fetch] {thing} {spot-}",
        "{thing} [be] taken {spot-} by {who}",
        "~{who} [take] {thing}",
        "~{who} [pick] up {thing.the}",
        "+{who} [lift] {thing} gently {spot-}",
    ),
    e.Put: (
        "{who} [put] {thing} {spot}",
        "{who} [lay] {thing} {spot}",
        "{who} [place] {thing} {spot}",
        "{thing} [be] put {spot} by {who}",
        "+{who} [set] {thing} down {spot}",
    ),
    e.Give: (
        "{who} [give] {thing} to {whom}",
        "{who} [hand] {thing} to {whom}",
        "{who} [pass] {thing} to {whom}",
        "{thing} [be] given to {whom} by {who}",
        "{whom} [get] {thing.the} from {who}",
        "{whom} [receive] {thing.the} from {who}",
        "{who} [let] {whom} have {thing.the}",
        "+{who} [press] {thing} into {whom's} hand",
    ),
    e.Return: (
        "{who} [give] {thing.the} back to {whom}",
        "{who} [return] {thing.the} to {whom}",
        "{who} [bring] {thing.the} back to {whom}",
        "{thing} [be] returned to {whom} by {who}",
        "{whom} [get] {thing.the} back from {who}",
        "{whom} [have] {thing.the} back from {who}",
    ),
    e.Lose: (
        "{who} [leave] {thing} behind {spot}",
        "{who} [forget] {thing} {spot}",
        "~{who} [lose] {thing} {spot@}",
        "~{who} [lose] {thing} somewhere",
        "+without noticing it, {who=} [leave] {thing} {spot}",
    ),
    e.Find: (
        "{who} [find] {thing} {spot}",
        "{who} [discover] {thing} {spot}",
        "{thing} [be] found {spot} by {who}",
        "+there, {spot}, {who=} [find] {thing}",
        "+{who} [come] upon {thing} {spot}",
    ),
    e.Buy: (
        "{who} [buy] {thing.the} from {whom} for {price}",
        "{who} [pay] {whom} {price} for {thing.the}",
        "{who} [buy] {thing.the} for {price} from {whom}",
        "{whom} [take] {price} from {who} for {thing.the}",
        "{whom} [sell] {thing.the} to {who} for {price}",
        "~{who} [buy] {thing} for {price}",
    ),
    e.BuyGoods: (
        "{who} [buy] {number} {goods} from {whom} for {price}",
        "{who} [pay] {whom} {price} for {number} {goods}",
        "{who} [buy] {number} {goods} for {price} from {whom}",
        "{whom} [take] {price} from {who} for {number} {goods}",
        "{whom} [sell] {number} {goods} to {who} for {price}",
        "~{who} [buy] {number} {goods} for {price}",
    ),
    e.UseGoods: (
        "{who} [goods.use] {number} of {goods.them}",
        "{number} of {goods.them} [be:number] {goods.used} by {who}",
        "~{who} [goods.use] {number} {goods}",
    ),
    e.ShareGoods: (
        "{who} [give] {whom} {number} of {goods.them}",
        "{who} [give] {number} of {goods.them} to {whom}",
        "{whom} [get] {number} of {goods.them} from {who}",
        "{who} [hand] {whom} {number} of {goods.them}",
        "{whom} [receive] {number} of {goods.them} from {who}",
        "{number} of {goods.them} [go] from {who} to {whom}",
    ),
    e.Break: (
        "{who} [thing.breaks] {thing}",
        "{thing} [be] {thing.broken} by {who}",
        "+by accident {who=} [thing.breaks] {thing}",
        "+{who} [stumble] and [thing.breaks] {thing}",
    ),
    e.Repair: (
        "{who} [thing.repairs] {thing}",
        "{thing} [be] {thing.repaired} by {who}",
        "+{who} [take] out some tools and [thing.repairs] {thing}",
        "+with a steady hand {who=} [thing.repairs] {thing}",
    ),
    e.Feel: (
        "{who} [be] {mood}",
        "{who} [feel] {mood}",
        "+{who} [be] quite {mood}",
        "+{who} [be] {mood} and [make] no secret of it",
        "+you could see that {who=} [be] {mood}",
        "+{who} [look] {mood}",
    ),
    e.Seek: (
        "{who} [look] for {thing} {spot} and [do] not find it",
        "{who} [search] for {thing} {spot}, in vain",
        "~{who} [look] about {spot@} for {thing} and [do] not see it",
        "+{who} [look] {spot}, but {thing} was not there",
        "{thing} was not {spot}, though {who=} [look] there",
    ),
    e.Miss: (
        "{who} [notice] that {thing} was gone",
        "{who} [miss] {thing}",
        "+{who} [feel] for {thing}, and it was gone",
        "+{who} [turn] out every pocket, but {thing} was gone",
    ),
    e.Meet: (
        "{who} [meet] {whom} {place@}",
        "{who} [come] upon {whom} {place@}",
        "{whom} [be] met {place@} by {who}",
        "+{place@} {who=} [run] into {whom}",
        "+{whom} [stand] {place@} and [wave] to {who}",
    ),
    e.Ask: (
        "{who} [ask] {whom} about {thing}, but {whom=} had not seen it",
        '+"Have you seen {thing.the}?" {who=} [ask] {whom}, who had not',
        '+"I have not seen {thing.the}," {whom=} [say] when {who=} asked',
    ),
    e.PlanErrand: (
        "to {errand}, {who=} [have] to go {place>}",
        "~{who} [want] to {errand}",
        "~{who} [have] to {errand}",
        "~{who} [mean] to {errand}",
        '+"I must go {place>} to {errand}," {who=} [say]',
        "+it was time to {errand}, and for that {who=} [need] to go {place>}",
    ),
    e.Want: (
        "{who} [want] {thing}",
        "{who} [wish] for {thing}",
        "+{who} [look] at {thing} again and again",
        "+{who} [have] long wanted {thing}",
    ),
    e.Chore: (
        "{who} [chore]",
        "{who} [chore]",
        "{who} [chore]",
        "+for a while {who=} [chore]",
        "+{manner} {who=} [chore]",
        "+as {who=} always did, {who=} [chore]",
        "+there was time, so {who=} [chore]",
        "+with half a mind on other things {who=} [chore]",
        "+{who} [chore] and [hum] the while",
        "+{who} [chore], which [take] longer than it should",
        "+{who} [chore] and [think] of nothing else",
    ),
    e.Letter: (
        "{who} wrote to {whom} from {place}",
        "from {place} {who=} wrote to {whom}",
        "a letter came from {place} for {whom}; it was from {who}",
        "this is what {who=} wrote to {whom} from {place}",
        "{who} took pen and paper, and this went from {place} to {whom}",
        "{whom} opened the letter that {who=} had sent from {place}",
    ),
    e.Remark: (
        '"{what}," {who=} [say]',
        '"{what}," {who=} [mutter]',
        '{who} [sigh]: "{what}."',
        '"{what}," {who=} [murmur] to nobody in particular',
        '"{what}!" {who=} [call]',
        '{who} [laugh] and [say], "{what}."',
    ),
    e.VillageSite: (
        "{place} [lie] on {river} below {hill}",
        "{place} [stand] where {river} bends round {hill}",
        "{river} [flow] past {place}, and {hill} [rise] behind it",
    ),
    e.Near: (
        "{place+} [stand] {direction} of {other}",
        "{direction} of {other} [stand] {place+}",
        "{direction} of {other} there [be] {place+}",
        "if you walk {direction} from {other}, you come to {place+}",
    ),
    e.BuiltOf: (
        "{place} [be] built of {material}",
        "{place} [be] made of {material}",
        "the builders of {place} used {material}",
    ),
    e.HasOrnament: ("{place} [have] {ornament}",),
    e.HasWorker: (
        "{who} [work] {place@} as {a trade}",
        "{who} [be] {a trade} {place@}",
        "the {trade} {place@} [be] {who}",
    ),
    e.CountAtPlace: (
        "there [be:number] {number} {what} {place@}",
        "{place} [have] {number} {what}",
        "you can count {number} {what} {place@}",
    ),
}
