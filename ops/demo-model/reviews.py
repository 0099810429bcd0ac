#!/usr/bin/env python3
"""Labelled product reviews for the demo: text from a grammar, label = (sentiment, topic). Standard library only.

  reviews.py --jobs 1000 --seed 7 -o reviews.jsonl --labels labels.jsonl   the held-out jobs of the demo
  reviews.py --show 20 --split train                                       a look at what training sees
  reviews.py --check                                                       is what is held out really new?

reviews.jsonl beside this script was written by the first command and is part of the demo; running it again gives the
same bytes (every review has its own generator, seeded by "seed/split/index"). The jobs are chat requests in
OpenAI's batch format, all with the same system prompt and the label's JSON Schema; labels.jsonl has the answer that the grammar knows.

A review is one to four sentences: one judges the topic and decides the label, a second may agree with it, the
others introduce the product, mention other aspects without judging them, or sum up. The topic is
what is judged, not what is mentioned; the sentiment is the author's own, not that of quoted people or of the
expectation before. One review in twelve has typing errors, one in eleven odd letter case.
"""
import argparse
import json
import random
import re

import grammar
import patterns
import topics

SENTIMENTS = ['positive', 'negative', 'neutral', 'mixed']
SENTIMENT_WEIGHTS = [30, 30, 20, 20]
TOPIC_NAMES = sorted(topics.TOPICS)
LABEL_FORMAT = {'type': 'json_schema', 'json_schema': {'name': 'label', 'strict': True, 'schema': {
    'type': 'object', 'additionalProperties': False, 'required': ['sentiment', 'topic'],
    'properties': {'sentiment': {'enum': SENTIMENTS}, 'topic': {'enum': TOPIC_NAMES}}}}}

SYSTEM = ('You label product reviews. Read the review and decide which aspect of the product it judges, and how. '
          'The topic is one of battery, delivery, price, quality, screen, size, sound, support. '
          'The sentiment is one of positive, negative, neutral, mixed. An aspect that is only mentioned in passing does '
          'not count. Answer with one line of JSON with the keys sentiment and topic, and nothing else.')

# Instructions that training mixes in, so that the model reads the instruction: (system prompt, keys of the answer).
INSTRUCTIONS = [
    (SYSTEM, ('sentiment', 'topic')),
    ('Give the sentiment and the topic of this review as JSON.', ('sentiment', 'topic')),
    ('Give only the sentiment of this review as JSON.', ('sentiment',)),
    ('Give only the topic of this review as JSON.', ('topic',)),
    (None, ('sentiment', 'topic')),
]


# Made-up words for training, by syllables.
INVENTED = {'product': '*', 'person': '*', 'place': 'the *', 'shop': 'the * shop', 'colour': '*ish', 'intensifier': '*ly'}
ONSETS = ['b', 'br', 'c', 'd', 'dr', 'f', 'g', 'h', 'k', 'l', 'm', 'n', 'p', 'pr', 'r', 's', 'st', 't', 'tr', 'v', 'w', 'z']
CODAS = ['', '', '', 'n', 'r', 'l', 's', 't', 'm', 'ck', 'nd', 'st']


def answer_text(sentiment, topic, keys=('sentiment', 'topic')):
    values = {'sentiment': sentiment, 'topic': topic}
    return json.dumps({key: values[key] for key in keys})


def mirror(template):
    """Praise turned into complaint and the other way round."""
    return re.sub(r'\{(\w+)\}', lambda match: '{' + patterns.MIRROR.get(match.group(1), match.group(1)) + '}', template)


class Writer:
    """Writes one review; all its choices come from one generator."""

    def __init__(self, split, rng):
        self.split, self.rng = split, rng
        self.named, self.good = False, True
        self.product = self.filler('product')

    def pick(self, options, unseen=0.35):
        """Of a list that is split: in the test set, entries that training never saw with that probability."""
        if isinstance(options, grammar.Split):
            options = options.test if self.split == 'test' and self.chance(unseen) else options.train
        return options[int(self.rng.random() * len(options))]

    def chance(self, probability):
        return self.rng.random() < probability

    def filler(self, name):
        """In training one filler in seven is a word that nobody knows: what it is must not matter."""
        if self.split == 'train' and name in INVENTED and self.chance(0.15):
            return INVENTED[name].replace('*', self.invent())
        return self.pick(grammar.INTENSIFIERS if name == 'intensifier' else grammar.FILLERS[name], unseen=1.0)

    def invent(self):
        return ''.join(self.pick(ONSETS) + self.pick('aeiou') + self.pick(CODAS) for _ in range(self.pick([1, 2, 2, 3])))

    def adjective(self, topic, good):
        own, general = (topic.own_good, grammar.GOOD) if good else (topic.own_bad, grammar.BAD)
        return self.pick(own) if self.chance(0.35) else self.pick(general)

    def predicate(self, topic, good):
        if self.chance(0.2):
            return self.pick(topic.good_phrases if good else topic.bad_phrases)
        adjective = self.adjective(topic, good)
        return self.filler('intensifier') + ' ' + adjective if self.chance(0.35) else adjective

    def subject(self):
        """The topic with its determiner; mostly "it" where the sentence has named it."""
        if self.named and self.chance(0.6):
            return 'it'
        self.named = True
        return self.pick(grammar.PLAIN_DETERMINERS if self.chance(0.65) else grammar.DETERMINERS)

    def noun(self, topic):
        """The test set has the training nouns too, and nouns of its own."""
        return self.pick(topic.nouns if self.chance(0.3) else topic.nouns.train)

    def slot(self, name, topic):
        if name == 'product':
            return self.product
        if name in grammar.FILLERS:
            return self.filler(name)
        if name == 'other':
            return self.filler('product')
        if name in ('ap', 'ag'):
            return 'a ' + self.adjective(topic, name == 'ap')
        simple = {'S': self.subject, 'N': lambda: self.noun(topic), 'O': lambda: self.pick(grammar.INDIFFERENT),
                  'P': lambda: self.predicate(topic, True), 'G': lambda: self.predicate(topic, False),
                  'p': lambda: self.adjective(topic, True), 'g': lambda: self.adjective(topic, False),
                  'PV': lambda: self.pick(topic.good_verbs), 'GV': lambda: self.pick(topic.bad_verbs),
                  'A': lambda: self.clause(self.good), 'B': lambda: self.clause(not self.good),
                  'like': lambda: self.pick(patterns.LIKING), 'hate': lambda: self.pick(patterns.HATING),
                  'not': lambda: self.pick(patterns.NEGATIONS)}
        return simple[name]()

    def clause(self, good):
        template = self.pick(patterns.PLAIN_CLAUSES if self.chance(0.6) else patterns.CLAUSES)
        return template if good else mirror(template)

    def choose(self, template):
        """Settles the choices (a|b|) of a template, innermost first."""
        while '(' in template:
            template = re.sub(r'\(([^()]*)\)', lambda match: self.pick(match.group(1).split('|')), template, count=1)
        return template

    def loosen(self, template):
        """In training some of a template's own words give way to invented ones or vanish: they must not matter."""
        words = []
        for word in template.split(' '):
            draw = 1 if '{' in word else self.rng.random()
            words += [self.invent()] if draw < 0.12 else [] if draw < 0.2 else [word]
        return ' '.join(words)

    def scatter(self, template):
        """In training a few words without weight are put between the others."""
        words = template.split(' ')
        for _ in range(self.pick([1, 1, 2, 3])):
            word = self.pick(patterns.LOOSE_WORDS) if self.chance(0.6) else self.invent()
            words.insert(int(self.rng.random() * (len(words) + 1)), word)
        return ' '.join(words)

    def jumble(self):
        """A training statement without grammar: subject, judgement and words without weight in any order."""
        parts = [self.pick(['{S}', '{S}', '{N}']), self.pick(['{P}', '{p}', '{PV}', '{like}'])]
        parts += [self.pick(patterns.LOOSE_WORDS) for _ in range(int(self.rng.random() * 5))]
        order = sorted((self.rng.random(), part) for part in parts)
        return ' '.join(part for _, part in order)

    def fill(self, template, topic):
        self.named = False
        while '{' in template or '(' in template:
            template = self.choose(template)
            template = re.sub(r'\{(\w+)\}', lambda match: self.slot(match.group(1), topic), template, count=1)
        return re.sub(r'\b([Aa]) (?=[aeiou])(?!use|eu|uni|one)', r'\1n ', template)

    def plain_template(self):
        template = self.choose(self.pick(patterns.SIMPLE))
        if self.split == 'train':
            draw = self.rng.random()
            template = self.jumble() if draw < 0.1 else self.loosen(template) if draw < 0.4 else template
        return template

    def judgement(self, sentiment, topic):
        """The sentence that decides the label."""
        one_sided = sentiment in ('positive', 'negative')
        self.good = sentiment == 'positive' if one_sided else self.chance(0.5)
        if one_sided and self.chance(0.25):
            said = self.choose(self.pick(topic.said_good if self.good else topic.said_bad))
            return self.fill(self.scatter(said) if self.split == 'train' and self.chance(0.2) else said, topic)
        if one_sided and self.chance(0.8):
            template = self.plain_template() if self.chance(0.65) else self.choose(self.pick(patterns.TWISTED))
            template = template if self.good else mirror(template)
        else:
            template = self.choose(self.pick(patterns.JUDGEMENTS[sentiment]))
        if self.split == 'train' and self.chance(0.15):
            template = self.scatter(template)
        text = re.sub(r'\s+([,;.:?])', r'\1', self.fill(template, topic)).strip(' ,;:')
        if self.chance(0.15):
            lead = self.fill(self.pick(patterns.LEADS), topic)
            return lead + (text if text.startswith('I ') else text[0].lower() + text[1:])
        if self.chance(0.12) and text[-1] not in '?!':
            return text + self.fill(self.pick(patterns.TAILS), topic)
        return text

    def aside(self, topic):
        """A sentence on another aspect that judges nothing."""
        name = self.pick([other for other in TOPIC_NAMES if topics.TOPICS[other] is not topic])
        other = topics.TOPICS[name]
        template = self.choose(self.pick(patterns.MENTIONS) if self.chance(0.3) else self.pick(other.facts))
        if self.split == 'train' and self.chance(0.3):
            template = self.loosen(template) if self.chance(0.5) else self.scatter(template)
        return self.fill(template, other)

    def sentences(self, sentiment, topic):
        before, after = [], []
        if self.chance(0.35):
            before.append(self.fill(self.pick(patterns.OPENINGS), topic))
        if self.chance(0.3):
            before.append(self.aside(topic))
        if sentiment in patterns.FOLLOW_UPS and self.chance(0.15):
            after.append(self.fill(self.pick(patterns.FOLLOW_UPS[sentiment]), topic))
        if self.chance(0.3):
            after.append(self.aside(topic))
        if self.chance(0.25):
            after.append(self.fill(self.pick(patterns.CLOSINGS[sentiment]), topic))
        while len(before) + len(after) > 3:
            (before if len(before) > 1 else after).pop(0)
        return before + [self.judgement(sentiment, topic)] + after

    def misspell(self, text):
        """Swaps, drops or doubles a letter inside one of the longer words."""
        words = [match.span() for match in re.finditer(r'[A-Za-z]{5,}', text)]
        if not words:
            return text
        start, end = self.pick(words)
        at = start + 1 + int(self.rng.random() * (end - start - 3))
        kind = self.pick(['swap', 'drop', 'double'])
        if kind == 'swap':
            return text[:at] + text[at + 1] + text[at] + text[at + 2:]
        return text[:at] + text[at + 1:] if kind == 'drop' else text[:at] + text[at] + text[at:]

    def review(self, sentiment, topic, plain=False):
        text = ''
        for sentence in [self.judgement(sentiment, topic)] if plain else self.sentences(sentiment, topic):
            sentence = re.sub(r' +', ' ', sentence.strip())
            sentence = re.sub(r'(^|[.?] )([a-z])', lambda match: match.group(1) + match.group(2).upper(), sentence)
            end = '' if sentence[-1] in '?!' else '!' if self.chance(0.1) else '.'
            text += ('\n' if self.chance(0.03) else ' ') * bool(text) + sentence + end
        if self.chance(0.08):
            text = self.misspell(text)
            text = self.misspell(text) if self.chance(0.3) else text
        draw = self.rng.random()
        if draw < 0.08:
            text = text.lower()
        elif draw < 0.09:
            text = text.upper()
        return text.rstrip('.') if self.chance(0.08) else text


def make_review(split, seed, index, plain=False):
    """(text, sentiment, topic) of one review; the same arguments give the same review. plain: just the judgement."""
    writer = Writer(split, random.Random(f'{seed}/{split}/{index}'))
    draw, sentiment = writer.rng.random() * sum(SENTIMENT_WEIGHTS), 0
    while draw >= SENTIMENT_WEIGHTS[sentiment]:
        draw, sentiment = draw - SENTIMENT_WEIGHTS[sentiment], sentiment + 1
    name = writer.pick(TOPIC_NAMES)
    return writer.review(SENTIMENTS[sentiment], topics.TOPICS[name], plain), SENTIMENTS[sentiment], name


def split_lists(value):
    """Every Split in the modules' data."""
    if isinstance(value, grammar.Split):
        yield value
    elif isinstance(value, topics.Topic):
        yield from split_lists(vars(value))
    elif isinstance(value, dict):
        for entry in value.values():
            yield from split_lists(entry)


def expand(template):
    """All texts that the choices (a|b|) of a template allow, in small letters."""
    choice = re.search(r'\(([^()]*)\)', template)
    if not choice:
        yield re.sub(r'\s+', ' ', template).strip(' ,;:').lower()
        return
    for option in choice.group(1).split('|'):
        yield from expand(template[:choice.start()] + option + template[choice.end():])


def check_split():
    """Fails if training can make a held-out template or contains a held-out filler; prints what is held out."""
    lists = {id(part): part for module in (grammar, topics, patterns) for part in split_lists(vars(module))}.values()
    trained = {text for part in lists for entry in part.train for text in expand(entry)}
    held_out = {text for part in lists for entry in part.test for text in expand(entry)}
    assert not trained & held_out, trained & held_out
    words = ' ; '.join(trained)
    for part in [*grammar.FILLERS.values(), grammar.INTENSIFIERS]:
        inside = [entry for entry in part.test if re.search(r'\b' + re.escape(entry.lower()) + r'\b', words)]
        assert not inside, inside
    print(f'{sum(len(part.train) for part in lists)} entries for training ({len(trained)} with their choices), '
          f'{sum(len(part.test) for part in lists)} held out ({len(held_out)})')


def make_job(custom_id, text):
    body = {'model': 'annotator', 'messages': [{'role': 'system', 'content': SYSTEM}, {'role': 'user', 'content': text}],
            'max_tokens': 48, 'temperature': 0, 'response_format': LABEL_FORMAT}
    return {'custom_id': custom_id, 'method': 'POST', 'url': '/v1/chat/completions', 'body': body}


def write_jobs(n_jobs, seed, jobs_path, labels_path):
    """Writes distinct reviews of the test split."""
    seen, index = set(), 0
    with open(jobs_path, 'w', encoding='utf-8') as jobs, open(labels_path, 'w', encoding='utf-8') as labels:
        while len(seen) < n_jobs:
            text, sentiment, topic = make_review('test', seed, index)
            index += 1
            if text in seen:
                continue
            seen.add(text)
            custom_id = f'review-{len(seen):04d}'
            jobs.write(json.dumps(make_job(custom_id, text), ensure_ascii=False) + '\n')
            labels.write(json.dumps({'custom_id': custom_id, 'sentiment': sentiment, 'topic': topic}) + '\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--jobs', type=int, help='write this many jobs of the test split')
    parser.add_argument('--seed', type=int, default=7)
    parser.add_argument('-o', default='reviews.jsonl', help='the jobs')
    parser.add_argument('--labels', default='labels.jsonl', help='their labels')
    parser.add_argument('--show', type=int, default=0, help='print this many reviews instead')
    parser.add_argument('--check', action='store_true', help='compare the two splits')
    parser.add_argument('--split', choices=['train', 'test'], default='test')
    options = parser.parse_args()
    if options.check:
        check_split()
    if options.jobs:
        write_jobs(options.jobs, options.seed, options.o, options.labels)
    for index in range(options.show):
        text, sentiment, topic = make_review(options.split, options.seed, index)
        print(f'{sentiment:8} {topic:8} {text!r}')


if __name__ == '__main__':
    main()
