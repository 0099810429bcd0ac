"""The words of the demo's product reviews; topics.py has those of each aspect, patterns.py the sentences.

Everything a review can say stands in these three files as data; reviews.py puts it together. A list wrapped in Split has
a part that training sees and a part that is held out for the test set: templates, facts, products, people, times,
intensifiers. Nouns and adjectives that decide a label are shared (no model can know a word that it never met), except
compound nouns such as "battery pack". In the test set every product, person, time, place and intensifier is a held-out
one, and a third of all templates and phrases.

Slots of a template:
  {S}  the subject with its determiner: "the battery", "the battery of this kettle", "its battery"; "it" the second time
  {N}  the bare noun: "battery"
  {P} {G} {O}    a predicate phrase, good, bad or indifferent: "really superb", "too dim to read", "so-so"
  {p} {g}        one good or bad adjective;  {ap} {ag} the same with "a" or "an"
  {PV} {GV}      a verb phrase for the subject, good or bad: "lasts for days", "dies before lunch"
  {like} {hate} {not}    "adore", "detest", "by no means";  {A} {B} whole clauses;  (a|b|) a choice
  {product} {other} {person} {time} {month} {day} {place} {colour} {number}: fillers (FILLERS below)
"""
import hashlib


class Split:
    """Entries of the training set and, apart from them, entries of the test set: 40 % of the second list, drawn by hash.
    The first list is what the training's first stage had (train.py), so nothing of it may be held out."""

    def __init__(self, first, later):
        order = sorted(later, key=lambda entry: hashlib.sha256(('held out/' + entry).encode()).digest())
        n_test = max(1, round(0.4 * len(later)))
        self.test, held_out = order[:n_test], set(order[:n_test])
        self.train = first + [entry for entry in later if entry not in held_out]
        assert not set(self.train) & set(self.test), set(self.train) & set(self.test)


FILLERS = {
    'product': Split(
        ['kettle', 'drill', 'camera', 'toaster', 'blender', 'e-reader', 'tablet', 'laptop', 'radio', 'watch', 'lamp',
         'vacuum cleaner', 'headset', 'printer', 'router', 'scale', 'toothbrush', 'shaver', 'coffee grinder', 'fan',
         'heater', 'doorbell', 'thermostat', 'drone', 'projector', 'keyboard', 'mouse', 'game console', 'microscope',
         'baby monitor', 'bike computer', 'hearing aid', 'air purifier', 'mixer', 'sewing machine', 'torch',
         'scanner', 'treadmill', 'hair dryer', 'rice cooker', 'dash cam', 'weather station', 'juicer', 'lawn mower',
         'phone', 'food processor', 'humidifier', 'trimmer', 'metronome', 'label maker', 'stopwatch', 'hedge cutter',
         'bread maker', 'telescope', 'alarm clock'],
        ['smart watch', 'karaoke machine', 'walkie-talkie', 'pedometer', 'waffle iron', 'leaf blower',
         'record player', 'ice maker', 'hand warmer', 'garage opener', 'light therapy box', 'heating pad', 'nail gun',
         'soldering iron', 'egg boiler', 'massage chair', 'bird camera', 'robot vacuum', 'desk fan', 'car vacuum',
         'water flosser', 'tyre pump', 'dehumidifier', 'e-bike', 'scooter', 'paper shredder', 'slow cooker',
         'deep fryer', 'milk frother', 'calculator', 'synthesizer', 'webcam', 'trail camera', 'glue gun', 'jigsaw',
         'sander', 'mini fridge', 'night light']),
    'person': Split(
        ['wife', 'husband', 'brother', 'sister', 'mother', 'father', 'son', 'daughter', 'neighbour', 'colleague',
         'friend', 'boss', 'aunt', 'uncle', 'friend Zoë', 'mate José', 'flatmate', 'teacher', 'nephew', 'cousin',
         'landlord', 'friend Chloé', 'roommate', 'coach'],
        ['grandmother', 'partner', 'grandfather', 'niece', 'stepson', 'tenant', 'trainer', 'dentist', 'assistant',
         'godmother', 'pen pal', 'friend Jürgen', 'fiancée', 'godson', 'sister-in-law', 'mechanic', 'room-mate Anaïs',
         'old friend', 'best friend']),
    'time': Split(
        ['two weeks', 'a month', 'ten days', 'half a year', 'three months', 'a few days', 'a year', 'six weeks',
         'one weekend', 'twenty hours', 'four months', 'a couple of weeks', 'a long time', 'the first week',
         'a fortnight', 'almost a year', 'eight days', 'a whole summer'],
        ['five weeks', 'seven months', 'half a month', 'two years', 'three days', 'many months', 'the whole winter',
         'ninety minutes', 'a couple of hours', 'nine weeks', 'a good while', 'several days', 'just one week',
         'eleven months']),
    'month': Split(
        ['January', 'March', 'April', 'June', 'July', 'September', 'October', 'December', 'May', 'August', 'November'],
        ['February']),
    'day': Split(
        ['Monday', 'Tuesday', 'Thursday', 'Saturday', 'Sunday', 'Friday'],
        ['Wednesday']),
    'place': Split(
        ['the kitchen', 'the office', 'the garden', 'the car', 'the bedroom', 'school', 'the workshop', 'the garage',
         'our cabin', 'the boat', 'the living room', 'our club', 'the hotel', 'work', 'the camper van', 'the studio',
         'the attic', 'the shed'],
        ['the basement', 'the library', 'the gym', 'the lab', 'the hallway', 'the nursery', 'the balcony',
         'the classroom', 'our barn', 'the tent', 'the bathroom', 'the clinic', 'the canteen', 'the terrace',
         'the laundry room', 'the greenhouse']),
    'colour': Split(
        ['black', 'white', 'red', 'blue', 'grey', 'brown', 'silver', 'dark green', 'purple', 'beige', 'yellow',
         'green'],
        ['orange', 'golden', 'violet', 'pink', 'turquoise', 'cream', 'light blue', 'copper']),
    'number': Split(
        ['two', 'three', 'four', 'five', 'six', '10', '12', '20', '45', '100', '250', 'eight', '15', '30', '120',
         'seven', 'nine', 'eleven'],
        ['48', '14', '18', '36', '60', '75', '99', '180', '400']),
    'shop': Split(
        ['the online shop', 'the corner store', 'an auction site', 'the maker itself', 'a local dealer',
         'the web shop', 'a big chain', 'the factory outlet', 'a mail order firm'],
        ['a market stall', 'a flea market', 'the hardware store', 'an online auction', 'the supermarket',
         'a department store', 'the shop next door', 'a dealer in town']),
}

# The determiner is the plain one most of the time (PLAIN_DETERMINERS), else one of the split's own.
PLAIN_DETERMINERS = ['the {N}', 'the {N}', 'the {N}', 'its {N}']
DETERMINERS = Split(
    ['the {N} of this {product}', 'the {N} on this thing', 'the {N} of the {product}', 'the {N} on mine',
     'the {N} here', 'the {N} on this {product}', 'the {N} of mine'],
    ['this {product}\'s {N}', 'the {N} of the {colour} one', 'this {N}', 'that {N}', 'our {product}\'s {N}',
     'the {N} of this thing', 'the {product}\'s {N}', 'the {N} we got'])

INTENSIFIERS = Split(
    ['really', 'very', 'truly', 'absolutely', 'remarkably', 'extremely', 'so', 'pretty', 'just', 'simply', 'totally',
     'rather', 'quite simply', 'consistently', 'exceptionally', 'genuinely', 'thoroughly', 'plainly', 'quite',
     'always', 'highly', 'constantly', 'clearly', 'certainly', 'definitely', 'deeply'],
    ['incredibly', 'utterly', 'surprisingly', 'unbelievably', 'completely', 'downright', 'super', 'especially',
     'particularly', 'seriously', 'entirely', 'unusually', 'obviously', 'almost too', 'insanely', 'ever so', 'mighty',
     'hugely', 'strikingly', 'notably'])

GOOD = ['great', 'excellent', 'superb', 'brilliant', 'wonderful', 'fantastic', 'lovely', 'impressive', 'outstanding',
        'first-rate', 'splendid', 'terrific', 'marvellous', 'perfect', 'good', 'amazing', 'remarkable', 'top-notch',
        'delightful', 'pleasing', 'admirable', 'flawless', 'stellar', 'awesome', 'exemplary', 'phenomenal']
BAD = ['bad', 'awful', 'terrible', 'poor', 'dreadful', 'horrible', 'lousy', 'disappointing', 'useless', 'hopeless',
       'pathetic', 'abysmal', 'appalling', 'miserable', 'woeful', 'shocking', 'unacceptable', 'atrocious', 'dismal',
       'rubbish', 'pitiful', 'frustrating', 'annoying', 'laughable', 'inferior', 'ghastly']

INDIFFERENT = Split(
    ['average', 'okay', 'ordinary', 'unremarkable', 'so-so', 'middling', 'standard', 'nothing special', 'acceptable',
     'about what I expected', 'like any other', 'neither here nor there', 'nothing to write home about', 'all right',
     'as good or bad as on any {product}', 'just okay', 'mediocre at best and decent at worst', 'passable',
     'okay I suppose', 'fairly ordinary', 'nothing out of the ordinary', 'what I expected, no more and no less',
     'middle of the road'],
    ['just average', 'perfectly average', 'neither special nor poor', 'of average standard', 'run of the mill',
     'no better and no worse than most', 'decidedly average', 'all right I guess', 'the usual', 'ordinary enough',
     'more or less okay', 'somewhere in the middle', 'fine but ordinary', 'nothing remarkable', 'adequate',
     'so-so at most', 'standard fare', 'plain average', 'like that of any other {product}', 'neutral',
     'unexciting but okay', 'acceptable, nothing more', 'about average', 'as ordinary as can be'])
