"""Sentence templates of the demo's product reviews; the slots are listed in grammar.py.

Two slots stand for whole clauses on the topic: {A} says what the review says, {B} the opposite ("I expected that {B},
but {A}"). Templates that work both ways are written for praise; for a complaint every slot is mirrored.

The test set's templates say what the training templates say in other constructions, out of words that training
has met in other places: a model that only remembers whole sentences fails on them.
"""
from grammar import Split

MIRROR = {'P': 'G', 'p': 'g', 'PV': 'GV', 'ap': 'ag', 'like': 'hate'}
MIRROR.update({value: key for key, value in MIRROR.items()})

# The simplest clauses, for praise; {A} and {B} are made of them.
PLAIN_CLAUSES = ['{S} is {P}', '{S} is {P}', '{S} {PV}']
CLAUSES = Split(['{S} is {p} and {p}', '{S} seems {P}', 'I find {S} {P}', 'I {like} {S}', '{S} is {P} and {PV}', '{ap} {N} is what you get',
                 '{S} has to be called {p}', 'everything about {S} is {P}'],
                ['{S} looks {P}', '{S} is {p}, even {p}', 'you get {ap} {N}', 'I do {like} {S}'])

NEGATIONS = Split(['not', 'never', 'hardly', 'scarcely', 'in no way', 'not even remotely', 'far from', 'anything but', 'nowhere near',
                   'not really', 'not exactly', 'hardly ever', 'not what I call', 'not in any way', 'rarely'],
                  ['by no means', 'not in the least', 'certainly not', 'hardly what I call'])

LIKING = Split(['like', 'love', 'adore', 'enjoy', 'appreciate', 'admire', 'cherish', 'value', 'welcome'],
               ['really like', 'truly love', 'certainly enjoy'])
HATING = Split(['hate', 'dislike', 'detest', 'loathe', 'curse', 'despise', 'resent'],
               ['really hate', 'truly dislike', 'certainly detest'])

# Plain statements, written for praise.
SIMPLE = Split(
    ['{S} is {P}', '{S} is {P}', '{S} is {P}', '{S} {PV}', '{S} {PV}', '{S} {PV}', 'I find {S} {P}', '{S} seems {P}',
     'what {ap} {N}', '{ap} {N}', '{S}: {p}', '{S} turned out {P}', '{S} is {p} and {p}', 'I {like} {S}', 'how {p} {S} is',
     'this {product} has {ap} {N}', '{S} remains {p}', '{S} has always been {p}', '{S} was {p} from the start',
     'the word for {S} is {p}', '{S} is as {p} as can be', 'I have never had such {ap} {N}', '{S} {PV}, it is {P}',
     '{S} is {P} because it {PV}', '{ap} {N}, it {PV}', 'my {person} and I find {S} {P}', '{p}, this {N}', 'I call {S} {p}',
     '{S} {PV} and it is {p}', 'for me {S} is {P}', '{S} {PV} every time', 'with {ap} {N} like this I have no more to say',
     '{S} comes across as {P}', 'it has {ap} {N}', 'my {product} came with {ap} {N}', '{S} can only be called {p}',
     '{S} feels {P}', 'it is {p}, {S}', 'I would call {S} {P}', '{S} proved {p}', '{S} seems {P} to me',
     'I {like} {S} so much', 'my {person} and I {like} {S}', 'you rarely get such {ap} {N}', '{p} as {S} is, I {like} it',
     '{S} has become {p}', 'very {p}, {S}', '{S}: {p} and {p}', 'the {product} with the {p} {N}', '{S} is {P} and {PV}',
     'everything about {S} is {P}', '{ap} {N} is what you get', '{S} has to be called {p}'],
    ['{S} strikes me as {P}', 'such {ap} {N}', '{S} really {PV}', '{S} looks {P}', '{S} is {p}, even {p}',
     'here you get {ap} {N}', '{S} is just so {p}', 'I do {like} {S}', 'I consider {S} {P}', '{S} has been {P} all along',
     'this is {ap} {N}', '{p} is the word for {S}', '{S} {PV}, so it is {p}', 'it comes with {ap} {N}',
     'you get {ap} {N} with this {product}', 'my {person} and I think {S} is {P}', 'all in all {S} is {P}', '{S} appears {P}'])

# Negation, quotation, expectation, comparison: also written for praise.
TWISTED = Split(
    ['{S} is {not} {g}', '{S} is {not} {g}', '{S} is {not} {g}', '{S} is not {g} at all', 'nobody could call {S} {g}',
     'I would never call {S} {g}', 'I do not {hate} {S}, I {like} it', 'I expected {S} to be {g}, but it is {P}',
     'I thought {S} would be {g}; it turned out {P}', 'some reviews say {S} is {g}, but mine is {P}',
     'my old {product} had {ag} {N}, this one is {P}', 'my {person} called {S} {g}, I find it {P}',
     'my {person} said {S} was {g}, which is nonsense', '{S} is no longer {g} since the update, it is {P} now',
     'do not believe those who say that {S} is {g}', 'there is not one {g} thing about {S}', 'I see nothing {g} in {S}',
     'it has nothing {g}, {S}', '{S} is {P}, unlike that of my last {product}',
     'at first I thought {S} was {g}, now I know it is {P}', 'nothing {g} here: {S} {PV}', 'say what you like, {S} is {P}',
     'even my {person} admits that {S} is {P}', 'how can anyone call {S} {g}', 'so far from being {g}, {S} is {P}',
     '{S} was {g} on the old model, here it {PV}', 'contrary to the reviews {S} is {P}', '{S} is not {ag} one',
     'this is not {ag} {N}', 'calling {S} {g} would be wrong', '{S} is {not} {g} but {p}', '{S} is {p}, not {g}',
     '{S} could not be called {g}', 'it is wrong to call {S} {g}', 'you would have to be mad to find {S} {g}',
     'I can confirm that {A}', 'there is no denying that {A}', 'it is clear that {A}', 'my {person} and I agree that {A}',
     'it must be said that {A}', 'I have to admit that {A}', 'trust me, {A}', 'I am sure that {A}', 'it is true that {A}',
     'the truth is that {A}', 'you will find that {A}', 'it does not take long to see that {A}', 'make no mistake: {A}',
     'what I know is that {A}', 'my {person} says that {A}, and that is right', 'everybody knows that {A}',
     'I believe that {A}', 'do not doubt that {A}', 'of course {A}', 'yes, {A}', 'again {A}', 'as always {A}',
     'I cannot deny that {A}', 'it is not true that {B}', 'nobody can say that {B}', 'I do not agree that {B}',
     'I was told that {B}, and that is not true', 'the claim that {B} is false', 'it is nonsense that {B}',
     'my {person} thinks that {B}, but I disagree', 'it is a lie that {B}', 'I cannot say that {B}',
     'I would not say that {B}', 'I doubt that {B}', 'only a fool would say that {B}', 'who would say that {B}?',
     'you cannot claim that {B}', 'it is wrong that {B}', 'they say that {B}, which I cannot confirm', 'I never said that {B}',
     'do not tell me that {B}', 'whoever writes that {B} is wrong', 'why do people write that {B}? Not so',
     'it is a myth that {B}', 'I expected that {B}, but {A}', 'I thought that {B}; in truth {A}',
     'the reviews say that {B}, yet {A}', 'they say that {B}. In fact {A}', '{A}, although my {person} says that {B}',
     '{A}, even though I expected that {B}', 'last year {B}, today {A}', 'with my old {product} {B}, with this one {A}',
     'I used to think that {B}, but now {A}', '{A}. And I had thought that {B}!', 'I read that {B}, which is wrong: {A}',
     'it is not that {B}, it is that {A}', 'before the update {B}, now {A}', 'I was sure that {B}, but I was wrong, {A}',
     'the advert made me think that {B}, however {A}', 'who told you that {B}? No, {A}', 'instead of {ag} {N} I got {ap} one',
     'not {g}: {p}', 'forget that {B}, {A}', 'compared with my old {product}, {A}', 'on my last {product} {B}, here {A}',
     'people wrote {B}, I say {A}', '{A}, no matter what my {person} says', '{A} and {A}', '{A}, and what is more, {A}',
     'first {A}, and second {A}', '{A}; also {A}', '{S} is not {g}', '{S} is not {g} at all', 'not {g} at all, {S}',
     '{S} is far from {g}', '{S} is anything but {g}'],
    ['I would hardly call {S} {g}', 'there is nothing {g} about {S}',
     'my {person} told me that {S} would be {g}, which is wrong',
     'compared with my last {product}, which had {ag} {N}, {S} is {P}', 'who says {S} is {g}? It {PV}',
     'I thought I would {hate} {S}, but it is {P}', 'not {ag} {N} by any means', 'believe me, {A}', 'I can only say that {A}',
     'it cannot be denied that {A}', 'it is simply not true that {B}', 'I cannot agree that {B}',
     'no one could claim that {B}', 'despite those who say that {B}, {A}', 'I used to have {ag} {N}, now it is {p}',
     'people may say that {B}, but in fact {A}', 'on the old model {B}, but no longer: {A}',
     '{A}, contrary to what my {person} thinks', 'that {B} is nonsense', 'far from being {g}, {S} {PV}',
     '{S} has never been {g}', 'the {N} is a {p} one, if you ask my {person}', 'everyone in {place} agrees that {A}',
     '{S} is {not} {g}, it {PV}', 'I can say that {S} is by no means {g}'])

JUDGEMENTS = {
    'positive': Split(
        ['{S} is what I like most about it', '{S} could not be better', 'I cannot fault {S}', '{S} exceeded my hopes', 'no complaints about {S}',
         'I have yet to find a fault with {S}', '{S} alone is worth it', 'really impressed with {S}', 'thumbs up for {S}',
         '{S} never lets me down', 'five stars for {S}', 'I am happy with {S}', 'hats off to {S}', '{S} beats that of my {other}',
         'I had doubts about {S}, but it {PV}', 'I feared {S} would be {g}; it turned out {P}', 'I was afraid that {B}, but {A}',
         'I am delighted that {A}', 'the best thing is {S}', '{S} makes me smile', 'thanks to {S} I use it daily', '{S} deserves praise',
         'I must praise {S}', 'you will like {S}', 'wow, {A}', 'I worried about {S} for nothing', 'who would not {like} {S}?',
         'luckily {A}', 'I had doubts, but {A}', 'I am pleased to say that {A}', 'my worry that {B} was for nothing', 'no reason to complain about {S}',
         'my {person} was full of praise for {S}', 'I am a fan of {S}', 'nothing beats {S}', '{S} is better than I hoped',
         'it hardly gets better than {S}', 'I have only praise for {S}', 'full of praise for {S}', 'I thank them for {S}', 'hurray for {S}',
         'I am in love with {S}', 'I have no complaints, {A}', 'what a joy that {A}', 'I am glad that {A}', 'I feared that {B}. Not so, {A}',
         'complaints about {S}? Not from me', 'I like that {A}', 'a big plus for {S}', 'the highlight is {S}'],
        ['contrary to what I feared, {A}', 'full marks for {S}', 'so glad that {A}', 'I can only praise {S}', 'I was worried about {S}, yet it {PV}',
         'I have no complaints about {S}, it {PV}', '{S} could hardly be better', 'I like {S} a lot', 'I am really happy that {A}',
         'my fear that {B} was wrong', 'I was worried that {B}, but no, {A}', 'nothing to complain about, {A}', 'I love that {A}', '{S} is the best I have had', 'a plus is {S}']),
    'negative': Split(
        ['{S} is what I like least about it', '{S} could not be worse', 'I cannot stand {S}', '{S} let me down', 'nothing but complaints about {S}',
         'I have yet to find anything good about {S}', '{S} alone is a reason to stay away', 'really disappointed with {S}',
         'thumbs down for {S}', '{S} lets me down every day', 'one star for {S}', 'I am unhappy with {S}', 'shame about {S}',
         'even {S} of my old {other} was better', 'I had hopes for {S}, but it {GV}', 'I hoped {S} would be {p}; it turned out {G}',
         'I hoped that {B}, but {A}', 'I am annoyed that {A}', 'the worst thing is {S}', '{S} makes me angry', 'because of {S} I no longer use it',
         '{S} deserves no praise', 'I must complain about {S}', 'you will not like {S}', 'ugh, {A}', 'I do not find {S} {p}',
         'I wanted to love {S}, but it {GV}', '{S} needs to improve', 'I do not {like} {S}', 'I do not {like} {S} one bit', 'who would {like} {S}?',
         'sadly {A}', 'I am sorry to say that {A}', 'my hope that {B} was for nothing', 'no reason to praise {S}', 'I am no fan of {S}',
         'my {person} was full of complaints about {S}', 'anything beats {S}', '{S} is worse than I feared', 'it hardly gets worse than {S}',
         'I have only complaints about {S}', 'I blame them for {S}', 'a curse on {S}', 'I am at war with {S}', 'what a pity that {A}',
         'it makes me angry that {A}', 'I hoped that {B}. Not so, {A}', 'praise for {S}? Not from me', 'I hate that {A}', 'a big minus for {S}',
         'the low point is {S}', 'if only {B}', 'I wish that {B}', 'I never {like} {S}', 'I cannot {like} {S}', 'my {person} does not {like} {S}'],
        ['contrary to what I hoped, {A}', 'no stars for {S}', 'so angry that {A}', 'I can only complain about {S}', 'I was hoping for more from {S}, yet it {GV}',
         'I have many complaints about {S}, it {GV}', '{S} could hardly be worse', 'I do not like {S}', 'I am really angry that {A}',
         'my hope that {B} was wrong', 'nothing to praise, {A}', 'I dislike that {A}', '{S} is the worst I have had', 'a minus is {S}']),
    'mixed': Split(
        ['{S} is {P} at first but {G} after {time}', '{S} is {p} one day and {g} the next', '{S} is both {p} and {g}', '{S} is {g} and yet {p}',
         'half of me thinks {S} is {p}, the other half thinks it is {g}', 'sometimes {S} {PV}, sometimes it {GV}', '{S} is {p} and {g}',
         '{S} is {P}; on the other hand it can be {G}', '{S} is {P}. Then again, it {GV}', '{S} {PV}. Then again, it {GV}', '{S} is {p} but {g}',
         '{S} has good sides and bad sides', 'I love some things about {S} and hate others', '{S} can be {P} and it can be {G}', '{ap} and {ag} {N}',
         '{S} is {P} in {place} but {G} in {place}', 'as for {S}, on good days it {PV} and on bad days it {GV}', '{S}: {p} and {g}',
         'I like that {S} {PV}, but I hate that it {GV}', '{S} is {G} on the one hand and {P} on the other', '{ap} but also {ag} {N}',
         'with {S} I go back and forth: {p} here, {g} there', 'my {person} loves {S}, I hate it, and both of us are right', '{S} is {G}. Still, it {PV}',
         '{S} {PV}, yet it {GV}', 'good and bad things to say about {S}', '{S} is {P} when new and {G} later', '{S} is {G} at times and {P} at others',
         'there are things I love about {S} and things I cannot stand', 'one minute {S} is {p}, the next minute it is {g}', 'I {like} and {hate} {S} in turn',
         'a bit of both: {S} {PV} but also {GV}', 'three stars for {S}: {p} in some ways, {g} in others', 'I half {like} and half {hate} {S}',
         '{S} is a mixed bag', 'I have mixed feelings about {S}', '{S} has its ups and downs', '{A} and {B}', '{A}, but {B}', '{A}, but also {B}',
         'sometimes {A}, sometimes {B}', 'on the one hand {A}, on the other {B}', 'while {A}, {B}', '{A}. However, {B}', 'although {A}, it is also true that {B}',
         '{A}. At the same time, {B}', 'one day {A}, another day {B}', 'it is true that {A}, and it is also true that {B}', '{A} half of the time and {B} the rest',
         'mostly {A}, but now and then {B}', 'in {place} {A}, in {place} {B}', '{A} and still {B}', 'good: {A}. Bad: {B}', 'plus: {A}. Minus: {B}',
         '{S} is {p} in part and {g} in part', 'sometimes {p}, sometimes {g}: {S}', 'my feelings about {S} are mixed: {p}, but {g}',
         'a plus and a minus for {S}', '{S} has strengths and weaknesses', 'I can praise {S} and I can complain about it', '{S}, {p} as it is, {GV}',
         'I am of two minds about {S}', '{S} delights and annoys me', 'both praise and blame for {S}', 'some of {S} is {p}, some of it is {g}'],
        ['some days {S} is {p}, other days it is {g}', '{S} is {P}, but then again it is {G}', 'I love and hate {S}', 'on the one hand {S} {PV}, on the other hand it {GV}',
         '{S} is {p} in some ways and {g} in others', 'there are good sides and bad sides to {S}', 'at times {S} {PV}, at times it {GV}',
         'what can I say about {S}: {p} and {g} at once', '{S} is {G} in {place} and {P} in {place}', 'mixed feelings: {S} {PV}, but it also {GV}',
         '{A}. But then, {B}', 'true, {A}, but it is just as true that {B}', 'now {A}, now {B}', '{A}, and at the same time {B}',
         'part of me says that {A}, part of me says that {B}', 'ups and downs with {S}']),
    'neutral': Split(
        ['{S} is {O}', '{S} is {O}', '{S} is {O}', '{S} is {O}', '{S} is neither {p} nor {g}', '{S} is neither {g} nor {p}', 'I find {S} {O}',
         '{S} does its job, no more and no less', 'I have no strong opinion on {S}', '{S}: nothing to praise, nothing to complain about',
         '{S} is what you would expect from a {product}', '{S} could be better, could be worse', '{S}: neither {p} nor {g}', '{S} is not {p}, not {g}',
         '{S} is not {p}, but not {g} either', '{S} is not {g}, but not {p} either', 'I do not care much about {S} either way', '{S}: {O}',
         '{S} neither pleased nor annoyed me', 'what can I say, {S} is {O}', 'my {person} finds {S} {O}', 'there is little to say about {S}, it is {O}',
         'I expected {S} to be {p} or {g}, it is {O}', '{S} is the same as on my last {product}', '{S} turned out {O}', 'neither {ap} nor {ag} {N}',
         '{S} will do', 'I would call {S} {O}', 'no praise and no blame for {S}', '{S} is as expected', '{S} seems {O} to me', 'it is clear that {S} is {O}',
         'I neither {like} nor {hate} {S}', 'I do not {like} {S}, I do not {hate} it', 'I would not say that {S} is {p}, nor that it is {g}',
         'some find {S} {p}, some find it {g}, to me it is {O}', '{S} gives me no reason to cheer and no reason to complain', 'not {p}, not {g}: {S} is {O}',
         'it has nothing {p} and nothing {g}, {S}', 'I see nothing {g} in {S} and nothing {p}', '{S} is not {ap} one and not {ag} one',
         'I was told {S} is {p}, but it is {O}', 'I thought {S} would be {g}, but it is {O}', 'not one {p} thing and not one {g} thing about {S}',
         'I can neither praise nor blame {S}', '{S} leaves me cold', 'I have no feelings about {S}', '{S} does what it should', 'everyone says that {S} is {O}',
         'I expected no more and no less from {S}', 'for me {S} is {O}, no more', '{S} is neither a plus nor a minus', 'the word for {S} is {O}'],
        ['{S} strikes me as {O}', 'there is nothing {p} and nothing {g} about {S}', '{S} does what it should, no more', 'I neither like nor hate {S}',
         'as expected, {S} is {O}', 'I would say that {S} is {O}', '{S} is not {g} and not {p} either', 'no strong feelings about {S}, it is {O}',
         'nothing to praise and nothing to blame about {S}', 'neither praise nor complaints from me for {S}', 'believe me, {S} is {O}',
         'compared with my last {product}, {S} is {O}', 'one could call {S} neither {p} nor {g}']),
}

# A second judgement of the same topic, with the subject left out or replaced by "it".
FOLLOW_UPS = {
    'positive': Split(['It {PV}', 'Simply {p}', 'It is {P}', 'It really is {p}', 'I could not be happier with it',
                       'In fact it {PV}', 'It is not {g} at all', 'It does not disappoint'],
                      ['Just {p}', 'In fact it is {P}', 'It never disappoints']),
    'negative': Split(['It {GV}', 'Simply {g}', 'It is {G}', 'It really is {g}', 'I could not be unhappier with it',
                       'In fact it {GV}', 'It is not {p} at all', 'It does disappoint'],
                      ['Just {g}', 'In fact it is {G}', 'It always disappoints']),
}

# Sentences that name no aspect; the closing ones agree with the judgement.
OPENINGS = Split(
    ['I bought this {product} in {month}', 'Got the {product} {time} ago', 'I use this {product} in {place}',
     'My {person} gave me this {product}', 'This {product} is my second one', 'I have had this {product} for {time}',
     'I needed a new {product} for {place}', 'Bought it for my {person}', 'I ordered the {colour} {product}',
     'A {product} for {place}', 'My {person} and I share this {product}', 'We have used the {product} since {month}',
     'It replaces my old {other}', 'I picked the {colour} one', 'The {product} is for {place}', 'My {person} has owned one since {month}',
     'A review of the {colour} {product}', 'We took it to {place} for {time}', 'My {person} looked at {number} others first',
     'Here is what I think after {time}', 'I am writing this after {time}', 'There is a {product} in {place} now',
     'Last {month} I got a {product} from {shop}', 'My {person} recommended a {product}', 'One {product}, {number} users'],
    ['This {product} has been with us for {time}', 'I got this {product} from my {person}',
     'We keep the {product} in {place}', 'Since {month} I have owned this {product}',
     'My new {colour} {product} replaces an old {other}'])
CLOSINGS = {
    'positive': Split(['I would buy it again', 'Recommended', 'My {person} wants one too', 'Well done', 'I am glad I bought it',
                       'Buy it', 'I am keeping it', 'Five stars'],
                      ['I would recommend it', 'I will buy another one', 'My {person} loves it too', 'Glad I bought it']),
    'negative': Split(['I am sending it back', 'Stay away', 'I regret buying it', 'Never again', 'I want my money refunded',
                       'My {person} returned one too', 'Do not buy it', 'One star'],
                      ['I would not buy it again', 'It goes back on {day}', 'Not recommended', 'I regret it']),
    'mixed': Split(['Hard to give a verdict', 'I am torn', 'Make up your own mind', 'Three stars', 'Not sure if I would buy it again'],
                   ['It is hard to make up my mind', 'Torn about it', 'I am not sure I would recommend it']),
    'neutral': Split(['That is all there is to say', 'Take it or leave it', 'I might buy it again, or not', 'Three stars',
                      'It is fine for what I do'],
                     ['There is not much to say', 'Take it or do not', 'Three stars from me']),
}

# Neutral mention of another aspect, without a judgement; {N} is that aspect's noun.
MENTIONS = Split(
    ['My {person} asked about the {N}', 'I have not paid attention to the {N}', 'I did not look at the {N} yet',
     'There is a page about the {N} in the manual', 'I cannot say anything about the {N} yet', 'My {person} wrote about the {N}',
     'Others have written about the {N}', 'I will leave the {N} to other reviews', 'The {N} is mentioned on the box',
     'My {person} measured the {N}', 'The manual has {number} pages on the {N}', 'A note about the {N} is in the box',
     'I have a question about the {N}', 'My {person} explained the {N} to me', 'The box has a picture of the {N}',
     'Somebody asked about the {N} on {day}', 'About the {N} I know nothing', 'Last {month} they changed the {N}',
     'My {person} has not seen the {N}', 'There are {number} reviews about the {N}', 'This is not about the {N}',
     'A {colour} card describes the {N}'],
    ['My {person} wanted to know about the {N}', 'I have not looked at the {N} yet', 'Others may write about the {N}',
     'The manual says something about the {N}'])

LEADS = Split(['Honestly, ', 'To be fair, ', 'After {time}, ', 'In my view ', 'For a {product}, ', 'Let me say this: ', 'I must say, ',
               'As far as I can tell, ', 'Well, ', 'So, '],
              ['To be honest, ', 'Having used it for {time}, ', 'In my opinion ', 'I have to say, ', 'Look, '])
TAILS = Split([' if you ask me', ' in my view', ' so far', ' after {time}', ' to be honest', ' for a {product}', ' as far as I can tell',
               ', at least for me', ', my {person} agrees'],
              [' in my opinion', ' after {time} of use', ', I have to say', ', and my {person} says the same'])
