#!/usr/bin/env python3
"""The page of kquant report as a browser draws it: what stands where, and that its filters filter.

page_test.py KQUANT RESULTS_FOLDER

Exit 77: no Chromium here.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote_plus

sys.dont_write_bytecode = True
from expect import expect, sum_up

KQUANT, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
BROWSERS = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable')
VOID = {'input', 'meta', 'wbr', 'br', 'link', 'img'}


# --- Elements

class Element:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent, self.children = tag, attributes, parent, []

    def all(self, tag=None, **wanted):
        """Those inside, in order, that have this tag and these attributes; klass: one of its classes."""
        for child in self.children:
            if isinstance(child, Element):
                given = child.attributes
                if ((tag is None or child.tag == tag) and
                        all(value in given.get('class', '').split() if name == 'klass' else
                            given.get(name.replace('_', '-')) == value for name, value in wanted.items())):
                    yield child
                yield from child.all(tag, **wanted)

    def one(self, tag=None, **wanted):
        return next(self.all(tag, **wanted))

    @property
    def text(self):
        return ''.join(child.text if isinstance(child, Element) else child for child in self.children)


class Tree(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.root = self.at = Element('', {}, None)
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        element = Element(tag, {name: value or '' for name, value in attributes}, self.at)
        self.at.children.append(element)
        if tag not in VOID:
            self.at = element

    def handle_endtag(self, tag):
        while self.at.tag != tag:
            self.at = self.at.parent
        self.at = self.at.parent

    def handle_data(self, data):
        self.at.children.append(data)


# --- Browser

def browse(browser, address):
    done = subprocess.run([browser, '--headless', '--no-sandbox', '--disable-gpu', '--user-data-dir=' + os.getcwd() +
                           '/profile', '--dump-dom', address], capture_output=True, text=True, timeout=120)
    return done.stdout


class View:
    """A page as it is drawn at an address, after a script of a test has run in it."""

    def __init__(self, browser, page, address='', script=''):
        path = Path(page).resolve()
        if script:
            path = path.with_name('scripted.html')
            path.write_text(Path(page).read_text() + f'<script>{script}; document.title = location.hash</script>')
        self.root = root = Tree(browse(browser, f'file://{path}#{address}')).root
        self.banner = root.one(id='banner')
        self.chips = {chip.attributes['data-key']: chip for chip in root.one(id='chips').all('button')}
        self.pressed = [key for key, chip in self.chips.items() if chip.attributes['aria-pressed'] == 'true']
        self.devices = [device.one('summary') for device in root.one(id='devices').all('details')]
        self.heads = list(root.one(id='head').all('th', scope='col'))
        self.sections = [group.one('button').text[2:] for group in root.one(id='body').all('tr', klass='group')]
        self.rows = {row.one('th', scope='row').text: [cell.text for cell in row.all('td')]
                     for row in root.one(id='body').all('tr') if list(row.all('th', scope='row'))}
        self.detail = root.one(id='detail')
        self.hash = unquote_plus(root.one('title').text)


# --- Reports

CASES = ('quantize.base.zeros', 'quantize.base.ramp', 'quantized_dot.base.zeros', 'quantize.base.spike-positive')


def altered(**statuses):
    """The reference's report, but for cases that end in another way: by status, the numbers of CASES."""
    report = json.loads((FOLDER / 'reference.json').read_text())
    device = report['devices'][0]
    cases = {case['name']: case for case in device['cases']}
    for status, numbers in statuses.items():
        for k in numbers:
            cases[CASES[k]].update(status=status, digest='0' * 64 if status == 'fail' else '', reason='because')
            device['counts'][status] += 1
            device['counts']['pass'] -= 1
            device['fingerprint'] = 'incomplete'
    return report


def make(name, *reports):
    paths = []
    for k, report in enumerate(reports):
        path = report
        if isinstance(report, dict):
            path = Path(f'{name}-{k}.json')
            path.write_text(json.dumps(report))
        paths.append(path)
    subprocess.run([KQUANT, 'report', *paths, '-o', f'{name}.html'], capture_output=True)
    return f'{name}.html'


# --- Tests

def test_agreement(browser):
    view = View(browser, make('good', *sorted(FOLDER.glob('lavapipe-*.json')), FOLDER / 'reference.json'))
    expect(view.banner.attributes['class'] == 'banner pass' and 'same bits everywhere' in view.banner.text,
           f'the banner: {view.banner.text}')
    expect([head.one(klass='file').text for head in view.heads] ==
           ['lavapipe-128', 'lavapipe-256', 'lavapipe-512', 'reference'], 'the columns have no files')
    expect([f'{bits} bits' in head.text for head, bits in zip(view.heads, (128, 256, 512))] == [True] * 3,
           'a column does not have the whole name')
    expect([device.one(klass='number').text for device in view.devices] == list('1234'), 'devices have no numbers')
    expect(list(view.chips) == ['all', 'pass'] and view.chips['pass'].text.startswith('Passed everywhere'),
           f'filters {list(view.chips)}')
    expect(not view.rows and len(view.sections) > 10, 'passing cases are not folded')
    page = view.root.one('main')
    expect([id for id in (e.attributes.get('id') for e in page.all()) if id in ('devices', 'cases')] ==
           ['devices', 'cases'], 'devices are not first')


def test_differences(browser):
    mixed = altered(fail=[0, 1], unsupported=[2], error=[3])
    mixed['options']['fault'] = 'flip:*'
    short = altered()
    lost = short['devices'][0]['cases'].pop()['name']
    short['devices'][0]['counts']['pass'] -= 1
    short['devices'][0].update(status='incomplete', fingerprint='incomplete')
    short['status'] = 'incomplete'
    page = make('mixed', altered(), mixed, short)
    view = View(browser, page)
    expect(view.banner.attributes['class'] == 'banner fail', 'a failure is no failure')
    for words in ('1 with a deliberate fault', '3 different between devices', '2 failed somewhere',
                  '1 unsupported somewhere', '1 in error somewhere', '1 not run somewhere'):
        expect(words in view.banner.text, f'"{words}" is not in the banner: {view.banner.text}')
    expect([view.chips[key].text for key in list(view.chips)[1:6]] ==
           ['Different 3', 'Failed somewhere 2', 'Unsupported somewhere 1', 'In error somewhere 1',
            'Not run somewhere 1'], f'filters {[chip.text for chip in view.chips.values()]}')
    expect('a deliberate fault: flip:*' in view.devices[1].text and 'fault' in view.heads[1].text and
           'fault' not in view.devices[0].text + view.heads[0].text, 'a fault is not shown')
    expect('incomplete' in view.devices[2].text and '1 not run' in view.devices[2].text, 'it is not incomplete')
    expect([id for id in (e.attributes.get('id') for e in view.root.one('main').all()) if id in ('devices', 'cases')] ==
           ['cases', 'devices'], 'differences are not first')
    expect(view.sections[:2] == ['Different between devices (3)', 'In error or not run somewhere (2)'],
           f'sections {view.sections[:2]}')
    expect(set(view.rows) == set(CASES[:3]), f'rows {list(view.rows)}')
    expect([text.split()[0] for text in view.rows[CASES[0]]] == ['pass', 'fail', 'pass'] and
           [text.split()[1] for text in view.rows[CASES[0]]] == ['A', 'B', 'A'], f'cells {view.rows[CASES[0]]}')
    for key, rows in (('different', CASES[:3]), ('fail', CASES[:2]), ('unsupported', CASES[2:3]), ('error', CASES[3:]),
                      ('not-run', [lost])):
        view = View(browser, page, f'only={key}')
        expect(set(view.rows) == set(rows) and view.pressed == [key], f'{key}: {list(view.rows)}, {view.pressed}')
    view = View(browser, page, 'search=Base.Zeros')
    expect(len(view.rows) > 1 and all('base.zeros' in name for name in view.rows), f'searched: {list(view.rows)}')
    view = View(browser, page, 'only=fail&search=ramp')
    expect(list(view.rows) == [CASES[1]], f'failed and searched: {list(view.rows)}')
    view = View(browser, page, 'only=pass&search=nonsuch')
    expect('No such case' in view.root.one(id='body').text, 'nothing is found, and not said')
    view = View(browser, page, 'only=nonsuch')
    expect(view.pressed == ['all'], 'an address with another word')
    # One cell.
    expect('hidden' in View(browser, page).detail.attributes, 'a cell is shown that nobody asked for')
    view = View(browser, page, f'case={CASES[0]}&device=2')
    for words in CASES[0], 'mixed-1.json', 'because', 'a deliberate fault':
        expect('hidden' not in view.detail.attributes and words in view.detail.text, f'"{words}" is not in the detail')
    expect('hidden' in View(browser, page, f'case={CASES[0]}&device=9').detail.attributes, 'there is no device 9')
    # By hand: the address follows, and the other way round.
    view = View(browser, page, '', "document.querySelector('[data-key=fail]').click()")
    expect(view.hash == '#only=fail' and set(view.rows) == set(CASES[:2]), f'a filter is clicked: {view.hash}')
    view = View(browser, page, '', "const s = document.getElementById('search'); s.value = ' RAMP'; "
                                   "s.dispatchEvent(new Event('input'))")
    expect(view.hash == '#search=ramp' and all('ramp' in name for name in view.rows), f'it is typed: {view.hash}')
    view = View(browser, page, 'only=fail', "document.querySelector('tr:not(.group) td:nth-child(3) button').click()")
    expect(view.hash == f'#only=fail&case={CASES[0]}&device=2' and 'because' in view.detail.text,
           f'a cell is clicked: {view.hash}')
    view = View(browser, page, f'case={CASES[0]}&device=2', "document.querySelector('#detail .close').click()")
    expect(view.hash == '' and 'hidden' in view.detail.attributes, f'a cell is closed: {view.hash}')
    view = View(browser, page, '', "document.querySelector('.group button').click()")
    expect(not view.rows, 'a section is not folded')
    view = View(browser, page, 'only=unsupported', "location.hash = 'only=fail'")
    expect(set(view.rows) == set(CASES[:2]) and len(view.heads) == 3, f'another address: {list(view.rows)}')


def test_one(browser):
    view = View(browser, make('one', altered(fail=[0], unsupported=[1])))
    total = len(altered()['devices'][0]['cases'])
    expect([chip.text for chip in view.chips.values()] ==
           [f'All {total:,}', 'Failed 1', 'Unsupported 1', f'Passed {total - 2:,}'],
           f'filters {[chip.text for chip in view.chips.values()]}')
    expect(view.sections[0] == 'Failed or unsupported (2)' and set(view.rows) == set(CASES[:2]), f'{view.sections[0]}')
    expect('No fingerprint' in view.banner.text, view.banner.text)


def test_hostile(browser):
    """What a report says is text, and nothing that a browser does."""
    evil = '</script><img src=x onerror="document.body.innerHTML = 1"><script>document.body.innerHTML = 2</script>'
    report = altered(fail=[0])
    device = report['devices'][0]
    device.update(name=evil, driver=evil)
    device['cases'][0]['name'] = 'quantize.base.' + evil
    report['options']['fault'] = evil
    view = View(browser, make('evil', report), 'search=img')
    expect(view.banner.attributes['class'] == 'banner fail' and not list(view.root.all('img')), 'markup is drawn')
    expect(list(view.rows) == ['quantize.base.' + evil] and evil in view.devices[0].text, 'a name is not shown')


def main():
    browser = next((path for path in map(shutil.which, BROWSERS) if path), None)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if browser is None or '<p>drawn</p>' not in browse(browser, 'data:text/html,<p>drawn</p>'):
            print('page_test: no Chromium here, or none that draws')
            return 77
        for test in test_agreement, test_differences, test_one, test_hostile:
            test(browser)
        os.chdir('/')
    return sum_up()


sys.exit(main())
