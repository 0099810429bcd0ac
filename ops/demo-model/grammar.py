"""The words and sentence patterns of the demo's product reviews.

Everything a review can say stands here as data; reviews.py puts it together. A list wrapped in Split has one
part for training and one that is held out for the test set: templates, facts, products, people, times and
intensifiers that training never sees. Nouns and adjectives that decide a label are shared by both (no model can
know a word that it never met), except a few compound nouns such as "battery pack", which only the test set has.
In the test set every product, person, time and place is a held-out one, and a third of all templates.

Slots of a template:
  {S}  the subject with its determiner: "the battery", "the battery of this kettle", "its battery"; "it" the second time
  {N}  the bare noun: "battery"
  {P} {G} {O}    a predicate phrase, good, bad or indifferent: "really superb", "too dim to read", "so-so"
  {p} {g}        one good or bad adjective;  {ap} {ag} the same with "a" or "an"
  {PV} {GV}      a verb phrase for the subject, good or bad: "lasts for days", "dies before lunch"
  {like} {hate} {not}    "adore", "detest", "by no means";  {A} {B} whole clauses (patterns.py)
  {product} {other} {person} {time} {month} {day} {place} {colour} {number}: fillers (FILLERS below)
"""


class Split:
    """Entries of the training set and, apart from them, entries of the test set. Of the second list, which holds rarer
    constructions and words, training sees three of four: what kind of thing there is, never the thing itself."""

    def __init__(self, train, rarer):
        self.test = rarer[::4]
        self.train = train + [entry for entry in rarer if entry not in self.test]
        assert not set(self.train) & set(self.test), set(self.train) & set(self.test)


FILLERS = {
    'product': Split(
        ['kettle', 'drill', 'camera', 'toaster', 'blender', 'e-reader', 'tablet', 'laptop', 'radio', 'watch', 'lamp',
         'vacuum cleaner', 'headset', 'printer', 'router', 'scale', 'toothbrush', 'shaver', 'coffee grinder', 'fan',
         'heater', 'doorbell', 'thermostat', 'drone', 'projector', 'keyboard', 'mouse', 'game console', 'microscope',
         'baby monitor', 'bike computer', 'hearing aid', 'air purifier', 'mixer', 'sewing machine', 'torch', 'scanner',
         'treadmill', 'hair dryer', 'rice cooker', 'dash cam', 'weather station', 'juicer', 'lawn mower', 'phone'],
        ['smart watch', 'food processor', 'humidifier', 'trimmer', 'karaoke machine', 'metronome', 'label maker',
         'stopwatch', 'walkie-talkie', 'hedge cutter', 'bread maker', 'telescope', 'pedometer', 'alarm clock']),
    'person': Split(
        ['wife', 'husband', 'brother', 'sister', 'mother', 'father', 'son', 'daughter', 'neighbour', 'colleague',
         'friend', 'boss', 'aunt', 'uncle', 'friend Zoë', 'mate José', 'flatmate', 'teacher'],
        ['grandmother', 'nephew', 'cousin', 'landlord', 'partner', 'friend Chloé', 'roommate', 'coach']),
    'time': Split(
        ['two weeks', 'a month', 'ten days', 'half a year', 'three months', 'a few days', 'a year', 'six weeks',
         'one weekend', 'twenty hours', 'four months', 'a couple of weeks', 'a long time', 'the first week'],
        ['five weeks', 'a fortnight', 'almost a year', 'eight days', 'seven months', 'a whole summer']),
    'month': Split(['January', 'March', 'April', 'June', 'July', 'September', 'October', 'December'],
                   ['February', 'May', 'August', 'November']),
    'day': Split(['Monday', 'Tuesday', 'Thursday', 'Saturday', 'Sunday'], ['Wednesday', 'Friday']),
    'place': Split(
        ['the kitchen', 'the office', 'the garden', 'the car', 'the bedroom', 'school', 'the workshop', 'the garage',
         'our cabin', 'the boat', 'the living room', 'our club', 'the hotel', 'work'],
        ['the basement', 'the camper van', 'the studio', 'the attic', 'the library', 'the shed']),
    'colour': Split(['black', 'white', 'red', 'blue', 'grey', 'brown', 'silver', 'dark green'],
                    ['orange', 'purple', 'beige', 'yellow']),
    'number': Split(['two', 'three', 'four', 'five', 'six', '10', '12', '20', '45', '100', '250'],
                    ['seven', 'eight', '15', '30', '48', '120']),
    'shop': Split(['the online shop', 'the corner store', 'an auction site', 'the maker itself', 'a local dealer',
                   'the web shop', 'a big chain'],
                  ['a market stall', 'the factory outlet', 'a mail order firm']),
}

# The determiner is the plain one most of the time (PLAIN_DETERMINERS), else one of the split's own.
PLAIN_DETERMINERS = ['the {N}', 'the {N}', 'the {N}', 'its {N}']
DETERMINERS = Split(['the {N} of this {product}', 'the {N} on this thing', 'the {N} of the {product}', 'the {N} on mine',
                     'the {N} here'],
                    ['this {product}\'s {N}', 'the {N} on this {product}', 'the {N} of mine'])

INTENSIFIERS = Split(['really', 'very', 'truly', 'absolutely', 'remarkably', 'extremely', 'so', 'pretty', 'just',
                      'simply', 'totally', 'rather', 'quite simply', 'consistently'],
                     ['incredibly', 'exceptionally', 'genuinely', 'thoroughly', 'utterly', 'plainly'])

GOOD = ['great', 'excellent', 'superb', 'brilliant', 'wonderful', 'fantastic', 'lovely', 'impressive', 'outstanding',
        'first-rate', 'splendid', 'terrific', 'marvellous', 'perfect', 'good', 'amazing', 'remarkable', 'top-notch',
        'delightful', 'pleasing', 'admirable', 'flawless', 'stellar', 'awesome', 'exemplary', 'phenomenal']
BAD = ['bad', 'awful', 'terrible', 'poor', 'dreadful', 'horrible', 'lousy', 'disappointing', 'useless', 'hopeless',
       'pathetic', 'abysmal', 'appalling', 'miserable', 'woeful', 'shocking', 'unacceptable', 'atrocious', 'dismal',
       'rubbish', 'pitiful', 'frustrating', 'annoying', 'laughable', 'inferior', 'ghastly']

INDIFFERENT = Split(
    ['average', 'okay', 'ordinary', 'unremarkable', 'so-so', 'middling', 'standard', 'nothing special', 'acceptable',
     'about what I expected', 'like any other', 'neither here nor there', 'nothing to write home about', 'all right',
     'as good or bad as on any {product}', 'just okay', 'mediocre at best and decent at worst', 'passable'],
    ['just average', 'okay I suppose', 'fairly ordinary', 'nothing out of the ordinary', 'perfectly average',
     'what I expected, no more and no less', 'middle of the road'])


class Topic:
    """One aspect. nouns: what it is called; good/bad: its own adjectives; *_phrases: predicates that cannot stand
    before a noun; *_verbs: what it does; said_*: whole sentences that judge it; facts: sentences that mention it
    without judging it."""

    def __init__(self, nouns, good, bad, good_phrases, bad_phrases, good_verbs, bad_verbs, said_good, said_bad, facts):
        self.nouns, self.good, self.bad = nouns, GOOD + good, BAD + bad
        self.own_good, self.own_bad = good, bad
        self.good_phrases, self.bad_phrases = good_phrases, bad_phrases
        self.good_verbs, self.bad_verbs = good_verbs, bad_verbs
        self.said_good, self.said_bad, self.facts = said_good, said_bad, facts


TOPICS = {
    'battery': Topic(
        nouns=Split(['battery', 'battery life', 'rechargeable battery', 'runtime', 'built-in battery'],
                    ['battery pack', 'battery runtime']),
        good=['long-lasting', 'dependable', 'tireless', 'powerful'], bad=['weak', 'short-lived', 'feeble', 'worn-out'],
        good_phrases=['good for days', 'strong even after {time}', 'ready again within an hour'],
        bad_phrases=['dead by noon', 'empty far too soon', 'flat within an hour'],
        good_verbs=Split(['lasts for days', 'holds its charge for a week', 'keeps going and going',
                          'charges in no time', 'easily gets me through the day', 'outlasts every other I have had'],
                         ['lasts for ages', 'holds its charge for days', 'charges within an hour',
                          'gets me through the week with ease']),
        bad_verbs=Split(['dies before lunch', 'drains overnight', 'barely lasts an hour', 'takes ages to charge',
                         'refuses to hold a charge', 'runs down while you watch', 'does not last half a day'],
                        ['dies within an hour', 'drains before lunch', 'barely holds a charge',
                         'does not last an hour']),
        said_good=Split(['I charge it once a week and never think about it', 'One charge takes me through the weekend',
                         'I have not needed the charger for days', 'It runs all day on a single charge',
                         'It still had power left after {time}'],
                        ['A single charge keeps it running for days', 'I hardly ever need the charger',
                         'It runs for days on one charge']),
        said_bad=Split(['It has to be plugged in all the time', 'I am forever looking for the charger',
                        'It is dead by the afternoon', 'One charge does not even last a film',
                        'It shuts down without power every few hours', 'It needs charging twice a day'],
                       ['I am forever charging it', 'Without the charger it is dead by noon',
                        'A single charge does not last the afternoon']),
        facts=Split(['The battery sits behind a small cover', 'It takes {number} AA batteries',
                     'A charging cable is in the box', 'I charge it over USB', 'The battery has a {colour} label',
                     'The charger plugs into any socket', 'The battery icon is at the top',
                     'My {person} keeps the spare battery in {place}'],
                    ['The battery has {number} cells', 'The charging port is on the left',
                     'The charger has a {colour} light', 'I charge it in {place}'])),
    'screen': Topic(
        nouns=Split(['screen', 'display', 'touch screen', 'picture', 'screen resolution', 'panel'],
                    ['display panel', 'touch display']),
        good=['crisp', 'sharp', 'vivid', 'bright', 'colourful', 'readable'],
        bad=['dim', 'grainy', 'blurry', 'washed-out', 'flickering', 'pixelated', 'unreadable'],
        good_phrases=['easy to read even in the sun', 'a joy to look at', 'clear from every angle'],
        bad_phrases=['too dim to read', 'impossible to read in the sun', 'full of dead pixels'],
        good_verbs=Split(['shows every detail', 'responds to every touch', 'stays readable in bright light',
                          'makes every picture pop', 'has gorgeous colours'],
                         ['shows gorgeous colours', 'responds at once to every touch', 'is readable from every angle']),
        bad_verbs=Split(['flickers all the time', 'reflects everything', 'ignores half of my taps', 'hurts my eyes',
                         'went blank after {time}', 'shows ugly stripes', 'freezes when I touch it'],
                        ['flickers when I touch it', 'ignores every touch', 'shows stripes and dead pixels']),
        said_good=Split(['Text looks as sharp as on paper', 'I can read it in full sunlight', 'Colours look stunning',
                         'Every pixel is sharp and bright'],
                        ['Even in full sunlight I can read the text', 'The colours look gorgeous and sharp']),
        said_bad=Split(['I can barely read anything in daylight', 'There are dead pixels right in the middle',
                        'Everything looks blurry on it', 'Colours look washed out', 'My taps are ignored'],
                       ['In daylight you can barely read anything', 'The text looks blurry',
                        'It has dead pixels in every corner']),
        facts=Split(['The screen measures {number} inches', 'The display shows the time', 'A {colour} frame surrounds the screen',
                     'The screen turns off by itself', 'There is a protective film on the display',
                     'The display can be tilted', 'My {person} changed the picture on the screen'],
                    ['The display has a {colour} border', 'The screen shows the date and the time',
                     'The display measures {number} inches'])),
    'sound': Topic(
        nouns=Split(['sound', 'audio', 'speaker', 'bass', 'volume', 'noise level', 'sound quality', 'tone'],
                    ['audio quality', 'built-in speaker']),
        good=['rich', 'clear', 'warm', 'balanced', 'pleasant'], bad=['tinny', 'muffled', 'distorted', 'shrill', 'deafening', 'hollow'],
        good_phrases=['music to my ears', 'pleasant on the ear', 'well balanced at any level'],
        bad_phrases=['painful to listen to', 'full of crackling', 'far too loud at night'],
        good_verbs=Split(['fills the whole room', 'stays clear at any level', 'makes music come alive',
                          'never disturbs anyone', 'lets me hear every note'],
                         ['fills the room with music', 'stays clear and warm', 'lets me hear every word']),
        bad_verbs=Split(['crackles at every level', 'rattles', 'hums all night', 'makes every song sound flat',
                         'gives me a headache', 'wakes the whole house', 'buzzes constantly'],
                        ['crackles constantly', 'buzzes all night', 'makes music sound flat']),
        said_good=Split(['It runs so quietly that the baby sleeps on', 'Music comes out clear and full',
                         'You can hear every note', 'It is whisper quiet'],
                        ['Every note comes out clear', 'It is so quiet that you can hardly hear it']),
        said_bad=Split(['It is as loud as a jet engine', 'Voices are hard to understand on it',
                        'There is a constant hiss', 'Music comes out flat and tinny', 'The constant buzzing drives me mad'],
                       ['There is a constant buzzing', 'Voices come out tinny and flat', 'It is louder than a jet']),
        facts=Split(['The speaker is on the back', 'It beeps when it is done', 'The volume has {number} steps',
                     'There is a jack for headphones', 'The volume knob is {colour}', 'I mute the sound at night',
                     'The speaker has a {colour} cover'],
                    ['The speaker is on the left', 'It beeps {number} times', 'The volume knob is on the back'])),
    'delivery': Topic(
        nouns=Split(['delivery', 'shipping', 'courier', 'parcel service', 'packaging', 'dispatch', 'delivery time'],
                    ['delivery driver', 'shipping time']),
        good=['prompt', 'speedy', 'fast', 'punctual', 'swift'], bad=['slow', 'late', 'sluggish', 'careless', 'botched', 'delayed'],
        good_phrases=['faster than promised', 'right on time', 'quicker than I could hope for'],
        bad_phrases=['later than promised', 'a complete mess', 'slower than a snail'],
        good_verbs=Split(['took only one day', 'went without a hitch', 'came earlier than announced',
                          'kept every promise', 'was over in a day'],
                         ['took less than a day', 'came without a hitch', 'was earlier than promised']),
        bad_verbs=Split(['took forever', 'kept me waiting for {time}', 'went to the wrong address',
                         'left everything out in the rain', 'missed every promised date', 'was weeks behind schedule'],
                        ['took weeks', 'missed the promised date by {time}', 'left it at the wrong address']),
        said_good=Split(['It was on my doorstep the very next morning', 'Ordered at night, here the next day',
                         'The parcel arrived early and well wrapped', 'It arrived days ahead of schedule'],
                        ['The next morning it was already on my doorstep', 'The parcel arrived ahead of schedule']),
        said_bad=Split(['The parcel arrived {time} late', 'The box came crushed and soaked', 'I waited {time} for the parcel',
                        'Nobody could say where my order was', 'They shipped it to the wrong town',
                        'The driver just threw the box over the fence'],
                       ['The parcel came crushed', 'I waited and waited for my order, {time} in all',
                        'The driver threw the parcel over the gate']),
        facts=Split(['The parcel came on a {day}', 'It was delivered to {place}', 'It arrived in a {colour} box',
                     'The courier rang the bell', 'It was shipped in {month}', 'My {person} signed for the parcel',
                     'The delivery note lists {number} items', 'The box has a {colour} sticker'],
                    ['The parcel was {colour}', 'The courier came on {day}', 'My {person} opened the parcel in {place}',
                     'It was delivered in {month}'])),
    'price': Topic(
        nouns=Split(['price', 'cost', 'value for money', 'price level', 'amount they charge', 'price tag'],
                    ['asking price', 'total cost']),
        good=['fair', 'reasonable', 'affordable', 'attractive', 'unbeatable', 'modest'],
        bad=['steep', 'outrageous', 'inflated', 'excessive', 'unfair', 'exorbitant'],
        good_phrases=['worth every penny', 'a real bargain', 'lower than anywhere else'],
        bad_phrases=['way over the top', 'a rip-off', 'higher than anywhere else'],
        good_verbs=Split(['beats every rival', 'is a steal', 'leaves money for other things', 'suits even a small budget'],
                         ['beats that of every rival', 'is a bargain', 'fits a small budget']),
        bad_verbs=Split(['is daylight robbery', 'is hardly a bargain', 'makes my wallet cry', 'went up again without reason',
                         'is more than anyone should pay', 'is beyond any budget'],
                        ['is no bargain', 'is plain robbery', 'is more than I should pay']),
        said_good=Split(['You get a lot for your money', 'It cost me next to nothing', 'Worth every cent I paid',
                         'A bargain, I would have paid twice as much', 'For that little money I bought two'],
                        ['A lot of {product} for little money', 'I would have paid twice as much, such a bargain',
                         'Worth every penny']),
        said_bad=Split(['I paid far too much for what it is', 'You can get the same for half the money elsewhere',
                        'Not worth the money', 'What a rip-off', 'It costs a fortune', 'It is hopelessly overpriced'],
                       ['The same thing is half the money elsewhere', 'It is overpriced', 'It is not worth what I paid']),
        facts=Split(['I paid {number} euros', 'I bought it at {shop}', 'The price tag was still on it', 'I paid by card',
                     'It costs {number} dollars at {shop}', 'The receipt says {number} euros', 'My {person} paid for it'],
                    ['I paid {number} dollars in {month}', 'The receipt came from {shop}', 'My {person} paid by card'])),
    'support': Topic(
        nouns=Split(['support', 'customer service', 'help desk', 'hotline', 'support team', 'after-sales service',
                     'service'],
                    ['customer support', 'service team']),
        good=['friendly', 'helpful', 'competent', 'patient', 'courteous', 'responsive'],
        bad=['rude', 'unhelpful', 'incompetent', 'impolite', 'arrogant', 'clueless'],
        good_phrases=['always there for you', 'quick to answer', 'a pleasure to deal with'],
        bad_phrases=['a bad joke', 'never there when needed', 'a pain to deal with'],
        good_verbs=Split(['solved my problem in minutes', 'answers within the hour', 'went out of its way to help',
                          'replaced it without any questions', 'really listens'],
                         ['solved everything within the hour', 'answers in minutes', 'replaced mine without a word']),
        bad_verbs=Split(['never answers', 'kept me on hold for hours', 'ignored all my mails', 'hung up on me',
                         'refused to help', 'sends nothing but form letters', 'does not care'],
                        ['ignores my mails', 'kept me on hold', 'never helped', 'hung up twice']),
        said_good=Split(['My question was answered within minutes', 'The lady on the phone knew exactly what to do',
                         'They sent me a replacement right away', 'They called back at once and fixed my problem'],
                        ['They answered my question at once', 'The man on the phone fixed my problem within minutes']),
        said_bad=Split(['Nobody answers my mails', 'I was on hold for an hour and then cut off', 'They keep ignoring my complaint',
                        'I was told to read the manual and hung up on', 'Three calls and still no answer'],
                       ['Still no answer to my complaint', 'I called and was cut off', 'Nobody there answers the phone']),
        facts=Split(['The support number is on the back', 'You can reach the hotline by mail', 'I called the hotline in {month}',
                     'The help desk is open until {number}', 'The service booklet is {colour}', 'I sent them a mail on {day}',
                     'My {person} works for their customer service'],
                    ['The hotline number is in the booklet', 'I called them on {day}',
                     'The customer service is closed on {day}'])),
    'size': Topic(
        nouns=Split(['size', 'footprint', 'overall size', 'format', 'bulk', 'width', 'height'], ['sheer size', 'size and shape']),
        good=['compact', 'handy', 'space-saving', 'practical', 'convenient'],
        bad=['bulky', 'clumsy', 'unwieldy', 'oversized', 'impractical', 'awkward'],
        good_phrases=['just right', 'ideal for a small flat', 'made for my hands'],
        bad_phrases=['far too big', 'too small for grown-ups', 'too much for a small flat'],
        good_verbs=Split(['fits any drawer', 'suits my hands', 'lets me carry it in a pocket', 'leaves room for other things',
                          'is ideal for travel'],
                         ['fits any pocket', 'suits a small drawer', 'leaves room in every bag']),
        bad_verbs=Split(['takes up half the table', 'makes it a pain to store', 'does not suit my hands',
                         'rules it out for travel', 'blocks the whole shelf', 'leaves no room for anything else'],
                        ['takes up the whole shelf', 'makes it a pain for travel', 'does not fit any shelf']),
        said_good=Split(['It slips into any bag', 'It takes hardly any room', 'Finally one that fits on my small shelf',
                         'It disappears into my pocket'],
                        ['It hardly takes any room', 'It slips into my small bag']),
        said_bad=Split(['It does not fit anywhere', 'It is way too big for the shelf', 'I have no room for such a monster',
                        'It is much larger than the pictures suggest', 'My hands are too big for it'],
                       ['It is too big for my bag', 'It fits nowhere in {place}', 'It is larger than any shelf']),
        facts=Split(['It is {number} centimetres wide', 'It stands on a shelf in {place}', 'I measured it with a ruler',
                     'The box says size {number}', 'It comes in {number} sizes', 'Mine is the middle size',
                     'It weighs {number} grams'],
                    ['It is {number} centimetres high', 'The sizes are printed on the box', 'It stands in {place}'])),
    'quality': Topic(
        nouns=Split(['build quality', 'workmanship', 'build', 'casing', 'finish', 'material', 'craftsmanship', 'housing'],
                    ['overall workmanship', 'outer casing']),
        good=['sturdy', 'solid', 'durable', 'robust', 'rugged'], bad=['flimsy', 'shoddy', 'brittle', 'cheap-looking', 'fragile', 'sloppy'],
        good_phrases=['built to last', 'solid as a rock', 'made with care'],
        bad_phrases=['held together by glue', 'falling apart', 'made without care'],
        good_verbs=Split(['survived every fall', 'feels made to last', 'shows no wear after {time}', 'takes any knock',
                          'will last a lifetime'],
                         ['survived every knock', 'feels solid', 'shows no wear at all']),
        bad_verbs=Split(['cracked after {time}', 'feels like a cheap toy', 'came apart in my hands', 'creaks everywhere',
                         'broke on the first fall', 'scratches if you look at it'],
                        ['cracked on the first fall', 'feels cheap', 'came apart after {time}']),
        said_good=Split(['I dropped it twice and there is not a scratch', 'It feels like one solid block',
                         'This thing is built like a tank', 'Every part fits and nothing wobbles'],
                        ['It is built like a rock', 'Nothing wobbles and nothing creaks',
                         'I dropped it and not a scratch']),
        said_bad=Split(['It broke on the first day', 'The handle came off after {time}', 'Parts are falling off already',
                        'It wobbles and creaks', 'The seams are already coming apart', 'It snapped in two'],
                       ['After {time} the handle snapped', 'It wobbles and parts fall off', 'It broke after {time}']),
        facts=Split(['The casing is {colour}', 'It is made of steel and plastic', 'The housing has {number} screws',
                     'The outside is {colour} plastic', 'The material is listed on the box', 'The casing opens at the back',
                     'It is made in {number} parts'],
                    ['The casing has {number} parts', 'It is made of {colour} steel', 'The housing opens on the left'])),
}
