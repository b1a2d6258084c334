"""The lexicon of the little world: tables of words and phrases, grouped by use.

Every list starts with the most frequent word: stories draw earlier entries more often, so
that word frequencies follow a power law as in real text. A line may have several columns,
separated by bars; the comment above the list names them.

Many words are ambiguous on purpose (saw, rose, left, well, light, spring, watch, bank,
match, ring, letter, chest, kind, bark, nail, post, fair ...), so that only the context
tells their meaning.
"""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _lines(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of a table, one per line, with columns separated by bars."""
    return tuple(tuple(part.strip() for part in line.split("|")) for line in text.strip().splitlines())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


WOMEN = _words("""
Mara Anna Edith Rose Clara Ivy Nell Hanna Ruth Lena Agnes Tilda Olive Dora Flora Greta Selma Hazel Martha
Judith Elsa Nora Wilma Bettina Cora Frieda Ada Sybil Joan Thea Vera Winifred Petra Maud Rhoda Lydia Ingrid
Esther Beatrix Phoebe
""")

MEN = _words("""
Tobias Sam Henrik Oscar Peter Jonas Will Frank Gideon Arne Basil Hugo Otto Felix Martin Ralph Edmund Silas
Leo Anton Rufus Caleb Ned Konrad Walter Aldous Victor Lars Barnaby Emil Crispin Matthias Theo Ambrose Ivo
Harold Jasper Linus Mark Percy
""")

FAMILIES = _words("""
Finch Miller Brook Carter Wood Hale Marsh Fisher Reed Stone Hill Barker Fox Drake Lamb Rowe Winter Moss
Thorne Vale Penny Birch Swann Cole Tanner Hobbs Field Crane Lark Nightingale Sparrow Holt Pike Weaver Frost
Bell Glover Ashby Quill Larkin
""")

VILLAGES = _words("""
Hollin Arlen Brackwater Milden Saltby Fenwick Oakham Stanmere Lindale Wexcombe Harrow Thornby Eastwick
Ravensend Dunmoor Merrow Kelding Birchover Addle Corley Tarnside Whitsand Penrow Elmstead Gorse Orford Langley
Stoke Withy Ambling
""")

RIVERS = _words("Arle Wend Tamble Lyde Brant Esk Ouzel Sorrow Minnow Teal Swale Marl")

HILLS = _phrases("""
Gallow Hill
Beacon Hill
Saint Ann's Hill
Crow Hill
the Long Ridge
Harper's Down
the Giant's Chair
Windy Knoll
""")

# trade | place of work
TRADES = _lines("""
baker | bakery
miller | mill
smith | forge
teacher | school
innkeeper | inn
fisher | harbour
carpenter | workshop
gardener | orchard
clerk | bank
doctor | surgery
weaver | weaving shed
shepherd | sheepfold
postmaster | post office
cobbler | cobbler's shop
librarian | library
ferryman | landing
clockmaker | clockmaker's shop
potter | pottery
beekeeper | bee garden
stationmaster | station
tailor | tailor's shop
grocer | grocer's shop
brewer | brewery
organist | chapel
painter | studio
nurse | hospital
printer | printing house
candlemaker | candle shed
""")

# Stories use the first two columns; the others are the inverse relation, that of the other person.
# relation of a woman to another person | of a man | inverse relation of a woman | of a man
KIN = _lines("""
sister | brother | sister | brother
cousin | cousin | cousin | cousin
neighbour | neighbour | neighbour | neighbour
friend | friend | friend | friend
aunt | uncle | niece | nephew
mother | father | daughter | son
grandmother | grandfather | granddaughter | grandson
godmother | godfather | godchild | godchild
landlady | landlord | lodger | lodger
""")

# trait | habit that shows it, as a verb phrase
TRAITS = _lines("""
kind | think of others first
patient | wait without a word
stubborn | give way to nobody
curious | look behind every door
careful | count everything twice
forgetful | leave things behind
cheerful | whistle at work
shy | blush before strangers
quick | finish before everyone else
honest | tell the truth at any price
proud | polish every button
gentle | speak softly to animals
restless | walk up and down
thrifty | save each bit of string
brave | go first into the dark
gloomy | expect rain on every holiday
generous | share the last crust
strict | keep the hours like a clock
dreamy | gaze into the distance
tidy | fold every cloth
talkative | talk to anybody on the road
grumpy | grumble before breakfast
sensible | carry an umbrella
clumsy | bump into doorposts
""")

# room | preposition | indoors or outdoors
ROOMS = _lines("""
kitchen | in | in
garden | in | out
hall | in | in
yard | in | out
parlour | in | in
cellar | in | in
attic | in | in
barn | in | out
bedroom | in | in
stable | in | out
pantry | in | in
workshop | in | in
study | in | in
porch | on | out
nursery | in | in
loft | in | in
wash-house | in | in
woodshed | in | out
""")

# place in a village | preposition | adjective | indoors or outdoors
PLACES = _lines("""
mill | at | tall | in
inn | at | low | in
church | in | grey | in
bridge | on | narrow | out
market square | in | wide | out
school | at | red | in
forge | at | smoky | in
harbour | in | busy | out
well | by | deep | out
station | at | small | in
bakery | in | warm | in
bank | in | solemn | in
library | in | quiet | in
orchard | in | walled | out
post office | in | tidy | in
churchyard | in | shady | out
meadow | in | wet | out
landing | at | muddy | out
crossroads | at | lonely | out
chapel | in | white | in
pottery | at | dusty | in
sheepfold | at | windy | out
brewery | at | old | in
town hall | in | handsome | in
lighthouse | at | lonely | in
quarry | in | steep | out
pond | by | round | out
park | in | green | out
hospital | at | long | in
theatre | in | gilded | in
""")

# spot for a thing | preposition | indoors, outdoors or both
SPOTS = _lines("""
table | on | in
bench | on | both
shelf | on | in
basket | in | both
drawer | in | in
wall | on | out
chest | in | in
barrel | in | out
cupboard | in | in
box | in | both
windowsill | on | both
desk | on | in
crate | in | both
stove | on | in
trunk | in | in
gatepost | on | out
chair | on | in
stool | on | both
mantelpiece | on | in
bucket | in | both
sideboard | on | in
ledge | on | both
sack | in | both
hook | on | both
handcart | in | out
""")

# kind of thing | adjectives
THINGS = _lines("""
key | brass iron rusty small
letter | sealed long crumpled short
lamp | oil tin green little
book | red thin leather heavy
watch | silver gold pocket cheap
knife | sharp bone folding kitchen
basket | wicker round deep willow
coat | blue woollen patched warm
ring | gold plain silver opal
map | torn old painted folded
hat | straw black felt wide
cup | blue chipped tin china
umbrella | black broken silk striped
scarf | red knitted silk grey
spade | garden iron worn short
kettle | copper dented big black
fiddle | old cherry borrowed small
candlestick | pewter brass tall crooked
rope | long wet thick frayed
blanket | grey woollen striped soft
hammer | heavy small claw wooden
saw | long rusty new short
comb | ivory bone broken tortoiseshell
bell | little brass cracked silver
purse | leather empty velvet beaded
parcel | brown flat heavy square
jug | stone blue milk cracked
bow | yew painted short toy
matchbox | tin yellow damp full
picture | framed tiny dark painted
flute | wooden silver old slender
spoon | wooden silver long bent
mirror | round hand cracked oval
lantern | storm tin red paper
whistle | tin wooden shrill dog
pen | steel goose-feather fine green
notebook | black thin lined checked
needle | darning bent long fine
pitcher | glass clay white tall
doll | rag wooden china smiling
kite | paper green tailed huge
pipe | clay briar short curved
chess set | ivory travelling wooden old
telescope | brass ship's little long
compass | brass pocket old dented
brooch | amber silver oval enamel
drum | toy tin painted loud
bottle | green medicine tall corked
brush | paint soft stiff broad
seal | wax lead heavy carved
ticket | return pink bent lost
stamp | foreign blue rare torn
thimble | silver steel tiny worn
axe | heavy hand blunt new
""")

# kind of fixture | adjectives | verb for breaking | verb for repairing | indoors, outdoors or both
BREAKABLES = _lines("""
jug | stone blue striped tall | crack | glue | in
clock | kitchen tall cuckoo wall | break | repair | in
chair | oak rocking cane little | break | mend | in
window | round back small high | smash | replace | both
wheel | cart front spoked back | crack | mend | out
gate | garden iron white side | break | repair | out
lamp | reading glass hanging blue | smash | repair | in
fence | wooden low picket long | break | rebuild | out
vase | glass china painted tall | chip | glue | in
ladder | long short fruit rickety | snap | mend | both
boat | rowing flat green fishing | dent | patch | out
plate | willow-pattern dinner white blue | crack | glue | in
sledge | red long small wooden | crack | repair | both
music-box | walnut tiny enamel round | jam | repair | in
""")

# goods | lowest and highest price in pence | verb for using them
GOODS = _lines("""
apple | 1 3 | eat
egg | 1 2 | eat
loaf | 3 6 | eat
candle | 2 5 | use
pear | 1 4 | eat
onion | 1 2 | eat
nail | 1 2 | use
bun | 1 3 | eat
herring | 2 5 | eat
button | 1 3 | use
potato | 1 2 | eat
plum | 1 2 | eat
cheese | 6 12 | eat
brick | 2 4 | use
lemon | 2 5 | eat
turnip | 1 3 | eat
pie | 4 9 | eat
cake | 5 12 | eat
carrot | 1 2 | eat
ribbon | 2 6 | use
tulip | 2 4 | use
log | 1 3 | use
sausage | 2 5 | eat
peach | 2 5 | eat
cherry | 1 2 | eat
biscuit | 1 2 | eat
cabbage | 2 4 | eat
spool | 2 4 | use
pancake | 1 3 | eat
pot | 4 9 | use
""")

# animal | names
ANIMALS = _lines("""
cat | Pepper Smudge Duchess Tinker
dog | Bramble Captain Biscuit Rolf
goat | Nanny Clover Horns Button
hen | Speckle Henny Madam Dot
mare | Star Juniper Molly Queen
donkey | Balthasar Patience Grey Moke
goose | Gertrude Pilgrim Snowy Major
parrot | Admiral Polly Pickle Bishop
pony | Nutmeg Patch Thistle Duke
crow | Sooty Jack Midnight Parson
""")

GOOD_MOODS = _words(
    "glad pleased relieved happy proud delighted grateful cheerful thankful content hopeful merry"
)
BAD_MOODS = _words(
    "angry sad cross worried sorry upset unhappy ashamed uneasy annoyed disappointed gloomy miserable"
)

# Words that occur only in the warm season.
WARM = _words(
    "swallows bees lavender roses blossom dew moth frog beans blackberries lettuce onions vines shade bulbs "
    "sun ford brook hay"
)
WEATHER_GOOD = _words("glad pleased cheerful hopeful merry happy")
WEATHER_BAD = _words("cross gloomy annoyed uneasy miserable unhappy")

# weather | season | sentence for its start | sentences for its signs
WEATHERS = _lines("""
rain | warm | It [start] to rain | the rain [drum] on the roofs | the gutters [run] over
sun | any | The sun [come] out | the stones [grow] warm | light [lie] on the water
wind | any | A wind [get] up | the shutters [rattle] | dust [whirl] over the road
fog | any | Fog [come] in from the river | the hills [vanish] | voices [sound] far away
snow | cold | Snow [begin] to fall | the paths [turn] white | the fields [lie] still
thunder | warm | Thunder [roll] in the west | the dogs [hide] | the air [grow] heavy
frost | cold | It [freeze] hard | the puddles [crack] underfoot | breath [hang] in the air
heat | warm | The heat [settle] on the street | the horses [hang] their heads | butter [melt] on the plates
drizzle | warm | A thin drizzle [set] in | the slates [shine] | the washing [stay] wet
calm | any | It [grow] still | smoke [rise] straight from the chimneys | the pond [lie] like glass
""")

# part of the day, in order | phrases that start a sentence
HOURS = _lines("""
dawn | at dawn | before the sun was up | at first light
morning | in the morning | after breakfast | when the shop doors opened | at eight o'clock | at nine o'clock
noon | at noon | when the church clock struck twelve | at dinner time | in the middle of the day
afternoon | in the afternoon | after dinner | at three o'clock | when the shadows grew | towards four o'clock
evening | in the evening | at dusk | when the lamps were lit | after supper | at seven o'clock
night | at night | late in the evening | by candlelight | when the house was quiet | at ten o'clock
""")

DAYS = _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
SEASONS = _words("spring summer autumn winter")

# Chores that change no state, as verb phrases.
KITCHEN_CHORES = _phrases("""
light the fire
wash the plates
peel potatoes
knead the dough
stir the soup
polish the spoons
boil water for tea
shell peas
butter some bread
warm some milk
copy out a recipe
skim the broth
scour the pans
chop parsley
dry the cups
sift flour
salt the butter
bottle plums
grind coffee
carry up the coal
""")

INDOOR_CHORES = _phrases("""
sweep the floor
fold the sheets
read the newspaper
iron the shirts
darn a sock
wind the wool
dust the picture frames
write in a diary
sew on a button
air the rooms
beat the carpet
clean the windows
hum an old tune
count the spare coins
oil the hinges
press flowers in a heavy book
shake out the rugs
hang up the coats
stuff a cushion
wipe the lamp glass
patch a pair of trousers
sort old papers
nod off in an armchair
brush a pair of boots
look out at the rain barrel
roll up the blinds
trim the wick
listen at the wall
knit a few rows
lace up a pair of boots
""")

OUTDOOR_CHORES = _phrases("""
feed the hens
chop wood
water the beans
hang out the washing
rake the leaves
dig a row for onions
draw water from the well
milk the goat
paint the gate
pick beans
prune the roses
carry hay
sweep the path
whitewash the wall
clear the ditch
gather sticks
brush the mare
stack logs
weed the lettuce bed
collect eggs
plant bulbs
nail down a loose board
tie up the vines
clean out the stalls
spread the nets to dry
mend the hedge
pile up stones
set a trap for mice
rinse the buckets
tar the boat
""")

INSIDE_CHORES = _phrases("""
look at the pictures on the wall
read the notices by the door
wait on a hard chair
pay a bill
ask the price of flour
listen to the talk
count the coins again
shake hands with everybody
fill in a form
admire the new stove
warm both hands at the fire
study the timetable
greet the schoolmaster
borrow a book
sign the visitors' book
wipe wet shoes on the mat
yawn behind a glove
laugh at an old joke
drop a coin in the box
leaf through a calendar
""")

TOWN_CHORES = _phrases("""
chat with the postman
listen to the band
wait for the coach
watch the boats
throw crumbs to the ducks
rest on a bench
post a card
nod to the neighbours
admire the new bridge
pass the time with the ferryman
try on a pair of boots
buy a newspaper
wave to the children
sit in the shade
hurry across the road
stop to tie a bootlace
lean on the railing
taste a piece of cheese
stroll along the wall
whistle for the dog
feed a stray cat
point out the way to a stranger
kick a pebble along
count the geese
hold a ladder for the painter
peer over the hedge
""")

STOP_CHORES = _phrases("""
order a bowl of soup
dry wet boots by the stove
ask for a bed
talk with the carter
unroll the map
wash in the trough
count the money left
darn a stocking by the fire
sleep for an hour
listen to a fiddler
water the pony
play a game of cards
write a few lines home
hear the latest news
share a table with a pedlar
pay for a candle
rub a sore foot
study the sky
fill the flask
pack a clean shirt
""")

ROAD_CHORES = _phrases("""
rest under a tree
eat a piece of bread
follow the river
climb over a stile
drink from a spring
ask a carter the way
tighten a bootlace
look back at the roofs
cross a ford
sing to keep awake
pick blackberries
study the signpost
shelter beneath an oak
skirt a bog
count the milestones
share a ride on a hay cart
wade through wet grass
shake a stone from a shoe
watch a hawk
whittle a stick
cut across a field
splash through a brook
cool both feet in a brook
lead the pony by the bridle
doze in the sun
pass a burnt-out barn
step aside for a flock of sheep
wipe away the sweat
shout into an echoing valley
halt at a ruined tower
""")

# Sights and sounds without persons.
SIGHTS = _phrases("""
A bell [ring] somewhere
Swallows [dip] over the roofs
Smoke [drift] from the chimneys
A dog [bark] twice and [be] quiet again
Children [shout] in the lane
The clock on the church [tick] on
Bees [hum] in the lavender
A cart [rattle] past
The smell of bread [fill] the street
Leaves [rustle] in the hedge
A cock [crow] late
Gulls [wheel] above the water
The river [run] high
Someone [practise] the piano next door
A shutter [bang] in the wind
Two crows [quarrel] on the wall
The bark of the old plane tree [peel] in strips
Apple blossom [blow] across the path
A train [whistle] far off
The well chain [creak]
A spider [mend] its web in the corner
The last roses [hang] over the fence
Dew [glitter] on the grass
A moth [circle] the light
The stairs [creak]
Mice [scuttle] behind the boards
The kettle [sing]
Reeds [bend] along the bank
A frog [leap] from the ditch
A saw [whine] in the timber yard
The light [fall] across the floor
Rooks [gather] in the elms
A fiddle [play] in some back room
The ferry bell [clang]
A kite [hover] above the ridge
Steam [rise] from the horses
The post horn [sound] beyond the wood
Geese [march] across the green
Nobody [be] in the street
A cloud [pass] over the sun
""")

MANNERS = _words("""
quietly slowly quickly carefully gladly soon gently eagerly calmly softly silently hastily patiently proudly
wearily briskly firmly cautiously cheerfully solemnly
""")

# Materials and ornaments of the buildings of a village.
MATERIALS = _words("brick oak granite sandstone slate flint limestone marble pine")
ORNAMENTS = _phrases("""
a weathercock on its roof
a crooked chimney
two green doors
a clock that runs slow
ivy up to the eaves
a painted sign
a row of lime trees before it
a lamp above the door
seven narrow windows
a bench along its wall
a stone lion at each side of the steps
a swallow's nest under the beam
a sundial on its south wall
a ship carved over the gate
a blue fence around it
a bell that nobody rings
""")

NUMBERS = _words(
    "no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
TENS = _words("- ten twenty thirty forty fifty sixty seventy eighty ninety")
ORDINALS = _words("first second third fourth fifth sixth")

# errand | the places for it, or "anywhere"
ERRANDS = _lines("""
visit an old friend | anywhere
hear the news | anywhere
deliver a message | anywhere
meet a cousin | anywhere
look for the dog | anywhere
settle an old debt | anywhere
see the doctor | hospital
fetch the wages | mill, brewery, town hall, harbour, quarry, pottery
pay the rent | town hall, bank
ask about the coach | inn, station, crossroads
return a book | library, school
change a coin | bank
meet the train | station
collect a parcel | post office, station, landing
speak with the teacher | school
light a candle | church, chapel
post a letter | post office
order a loaf | bakery
have a horse shod | forge
book a seat | theatre, station
borrow a boat | harbour, landing, pond
fetch some water | well
sell some fruit | market square, orchard
choose a jug | pottery
count the lambs | sheepfold, meadow
tend a grave | churchyard
watch the boats come in | harbour, lighthouse, landing
gather windfalls | orchard
""")

# Sentences of letters from the writer to the reader.
LETTER_LINES = _phrases("""
I hope that you are well
Your last letter was a comfort to me
Tell me about the spring in your garden
I often think of our long talks
You would laugh if you saw me here
There is so much more to say
My candle is nearly burnt down
I can hear you say that I write too much
You asked for news, so here it is
Do not worry about me
The post leaves soon, and my hand is tired
I miss your kitchen and your good advice
I trust that your cough is better
Nobody here can play cards as you do
You must come and see it all for yourself
I wish that you had been here
Please keep this letter
Write soon
Your stamps came in handy
I read your letter to everyone at table
Give my love to all at home
That is how we live here
You were right about the weather
Forgive me for the blots
It is late, and the house is still
""")

# Sentences that newspaper reports add.
REPORT_LINES = _phrases("""
The council [meet] on the matter
A small crowd [gather]
No one [be] hurt
The band [play] until late
Witnesses [speak] of a fine sight
The mayor [give] a short speech
Readers [send] in many letters
The coach [arrive] an hour late
A collection [be] taken for the poor
The fair [draw] people from all the villages round about
The prize [go] to a stranger
Our reporter [be] there
The constable [make] a note of it
Prices [rise] by a penny
The bridge [be] closed for an hour
Some [call] it the event of the year
The vicar [thank] everyone
Rain [keep] many away
""")

# dish | ingredients
DISHES = _lines("""
soup | onions carrots potatoes leeks beans
pie | apples plums pears cherries berries
stew | turnips onions mushrooms potatoes lentils
pudding | raisins figs plums apples nuts
broth | leeks celery carrots barley herbs
jam | plums strawberries peaches cherries currants
pickle | cabbages onions cucumbers beetroots peppers
cake | nuts lemons raisins carrots dates
hotpot | potatoes mushrooms peppers onions leeks
crumble | apples raisins nuts pears berries
""")

HEATS = _words("Boil Simmer Bake Steam Stew Roast Fry")
VESSELS = _phrases("""
heavy pot
wide pan
earthen dish
copper kettle
deep bowl
greased tin
""")

# preparation of an ingredient: first step | second step
PREPARED = _lines("""
Wash | Drain
Rinse | Slice
Weigh | Wash
Clean | Chop
Sort | Rinse
Trim | Chop
Wash | Halve
Clean | Crush
Measure | Wash
Slice | Season
""")

# The steps of crafts, in order.
CRAFTS = _phrases("""
Saw the board to length | Sand the edges | Drill two holes | Drive in the screws | Rub in the oil
Dig a trench | Spread dung in it | Set the plants | Fill in the soil | Water the row
Cut the cloth | Pin the seams | Sew them up | Turn the bag inside out | Iron it flat
Melt the wax | Hang up the wicks | Dip them ten times | Let them cool | Trim the ends
Card the wool | Spin the yarn | Wind it into a ball | Cast on the stitches | Knit the first row
Soak the willow | Cross the bottom sticks | Weave the base | Bend up the sides | Tuck in the ends
Wedge the clay | Throw the pot | Dry it for two days | Fire it once | Dip it in the glaze
Drain the old oil | Unscrew the filter | Fit the new one | Pour in fresh oil | Check the level
Boil the malt | Strain the liquid | Add the hops | Cool it down | Stir in the yeast
Scrape off the old paint | Fill the cracks | Rub them smooth | Brush on the primer | Paint two coats
Clear the hearth | Lay the kindling | Pile on small logs | Open the damper | Light the paper
Fold the sheets | Pierce the folds | Sew the sections | Glue the spine | Press the book
""")
CAUTIONS = _phrases("""
Take your time over this
Do not hurry here
A steady hand is needed for this
Keep children away from the work
Good light helps
Ask a second person to hold it
A clean bench saves trouble
Wear an apron
This step cannot be undone
If in doubt, begin again
Old hands do this without looking
It should take no more than ten minutes
Keep a damp rag at hand
Save what is left over
The smell tells when it is enough
Patience pays here
""")

# Things to count in and around buildings.
COUNTED_INDOORS = _phrases("""
windows
lamps
steps
doors
chimneys
tables
bells
rooms
arches
shutters
clocks
stoves
""")
COUNTED_OUTDOORS = _phrases("""
benches
lime trees
lamps
barrels
posts
pigeons
flags
statues
rose bushes
boats
carts
ducks
""")

# Remarks that state nothing about the story.
REMARKS = _phrases("""
What a day
Nobody tells me anything
All in good time
There is no hurry
I could do with a cup of tea
Mind the step
Better late than never
I thought as much
We shall see
That is just like you
It cannot be helped
Somebody has to do it
My feet hurt
Things were different when I was young
I would not have missed it
Well, that is that
One thing after another
You never know
Let us not quarrel
I have seen worse
Bless my soul
The kind of day that I like
Early to bed, then
It could be worse
Listen to that
Not a word more
I am in no mood for jokes
Fair is fair
Now we can rest
Time flies
Watch your fingers
Hush now
""")
