// Does a reader of the page see what is in the files: by mouse, by keyboard, in light and dark, on a
// telephone and on a wide screen, with no network? In headless Chromium, on pages that marrow wrote.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

const puppeteer = createRequire(process.env.MODULES)('puppeteer-core');

const folder = mkdtempSync(join(tmpdir(), 'marrow-page-'));
let browser;
before(async () => {
  browser = await puppeteer.launch({
    executablePath: process.env.CHROMIUM,
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
});
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

function make(name, content) {
  const path = join(folder, name);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}
function report(name, inputs) {
  const out = join(folder, name);
  execFileSync(process.env.MARROW, ['report', ...inputs, '--out', out]);
  return out;
}

const stage = (name, median, share) => ({
  stage: name, count: 1000, p10_ns: median - 40, median_ns: median, p90_ns: median + 60, p99_ns: median + 90, mean_ns: median, share,
});
const kName = 'base </script><b id="injected">x</b>';
const run = {
  schema: 'marrow.run/1', system: 'made-up', protocols: ['p'], trace: 't.trace', seed: 1,
  runs: [{ index: 0, run: kName, messages: 1000, stages: [stage('wqe', 400, 0.4), stage('mmio', 600, 0.6), stage('end_to_end', 1000, 1)], operations: [] }],
  total: { messages: 1000, stages: [] },
  counters: [{ block: 'gpu0.l2', counter: 'atomics', value: 12, unit: 'count' }],
  provenance: { parameters: { measured: 3, published: 0, derived: 0, fitted: 0, assumed: 1 }, recipe_costs: {} },
};

const row = (name, role, measured, predicted) => ({
  case: name, stage: 'wqe', role, unit: 'cycles', measured: { median: measured, p10: measured - 9, p90: measured + 9 },
  predicted: { median: predicted, p10: predicted - 5, p90: predicted + 5 }, error: predicted / measured - 1, baseline_error: 0.5, stable: true,
});
const validation = {
  schema: 'marrow.validate/1', system: 'made-up', capture: 'x/h200-b-host-consumer.trace', machine: 'm',
  rows: [row('cfg 0', 'fit', 100, 101), row('cfg 11', 'predicted', 100, 150), { ...row('cfg 2', 'predicted', 1000, 1020), interval: [950, 1100] }],
  summary: { rows: 2, median_abs_error: 0.26, p90_abs_error: 0.5, worst: { case: 'cfg 11', stage: 'wqe', error: 0.5 } },
};
const points = [];
for (const library of ['a', 'b'])
  for (const size of [8, 512, 4096, 32768])
    points.push({ point: points.length, parameters: { library, 'work.bytes': size }, settings: {}, metrics: { put_completion_median_ns: (library === 'a' ? 1000 : 2000) + size / 8 }, error: null });
const sweep = {
  schema: 'marrow.sweep/1', study: 'sizes', question: 'Which is faster?', mode: 'grid', target: 'put_completion_median_ns', draws: 1,
  axes: [{ name: 'library', base: 'base', values: ['a', 'b'] }, { name: 'work.bytes', base: 8, values: [8, 512, 4096, 32768] }],
  metrics: ['put_completion_median_ns'], points,
  sensitivity: [{ what: 'variance_share', axis: 'library', value: '', metric: 'put_completion_median_ns', result: 0.25 }],
};
const tornado = {
  schema: 'marrow.sweep/1', study: 'first', question: 'What first?', mode: 'one_at_a_time', target: 'end_to_end_median_ns', draws: 1,
  axes: [{ name: 'nic.decode_ns', base: 100, values: [90, 110], evidence: 'assumed' }],
  metrics: ['end_to_end_median_ns'],
  points: [[100, 1000], [90, 980], [110, 1020]].map(([x, y], i) => ({ point: i, parameters: { 'nic.decode_ns': x }, settings: {}, metrics: { end_to_end_median_ns: y }, error: null })),
  sensitivity: [
    { what: 'stage_share', axis: '', value: '', metric: 'mmio', result: 0.6 },
    { what: 'elasticity', axis: 'nic.decode_ns', value: '100', metric: 'end_to_end_median_ns', result: 0.2 },
    { what: 'change', axis: 'nic.decode_ns', value: '90', metric: 'end_to_end_median_ns', result: -0.02 },
    { what: 'change', axis: 'nic.decode_ns', value: '110', metric: 'end_to_end_median_ns', result: 0.02 },
  ],
};
/** Messages whose wqe takes 100, 101, ... 199 ns in turn. */
function messages(count) {
  const lines = ['run,warp,sm,queue,index,op,start_ns,wqe_ns,mmio_ns,completion_ns,polls,rang,put_ns,end_to_end_ns,bytes'];
  for (let i = 0; i < count; ++i) {
    const wqe = 100 + (i % 100);
    lines.push(`load,${i % 64},${i % 132},${i % 16},${i},${i},${i * 50},${wqe},500,,0,1,${wqe},${wqe + 500},${i % 2 ? 8 : 4096}`);
  }
  return lines.join('\n') + '\n';
}

let all = null;
const everything = () =>
  (all ??= report('all.html', [make('run.json', run), make('validate.json', validation), make('sizes.json', sweep), make('first.json', tornado), make('messages.csv', messages(2000))]));

/** Opens a page; its console errors, exceptions and requests are kept. */
async function open(file, { width = 1280, scheme = 'light' } = {}) {
  const page = await browser.newPage();
  page.errors = [];
  page.requests = [];
  page.on('console', (m) => ['error', 'warning', 'warn'].includes(m.type()) && page.errors.push(m.text()));
  page.on('pageerror', (e) => page.errors.push(e.message));
  page.on('request', (r) => page.requests.push(r.url()));
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  await page.goto(`file://${file}`);
  await page.waitForFunction(() => document.documentElement.dataset.ready === 'yes');
  return page;
}
/** Every chart is drawn when it comes into view; on paper all are. */
async function drawAll(page) {
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
  await page.waitForFunction(() => [...document.querySelectorAll('.plot')].every((p) => p.querySelector('svg')));
}
const plotOf = (page, title) => page.evaluateHandle((t) => [...document.querySelectorAll('figure')].find((f) => f.querySelector('h3').textContent.includes(t)).querySelector('.plot'), title);
const shownTip = (page) => page.evaluate(() => [...document.querySelectorAll('.plot > div')].filter((d) => d.querySelector('.tip') && getComputedStyle(d).visibility !== 'hidden' && d.style.opacity !== '0').map((d) => d.innerText).join('\n'));
const plain = (text) => text.replaceAll('\u202f', ' ').replaceAll('\u2212', '-');

test('draws every chart without an error and without the network', async () => {
  const page = await open(everything());
  await drawAll(page);
  assert.deepEqual(page.errors, []);
  assert.deepEqual(page.requests.filter((url) => !url.startsWith('file://') && !url.startsWith('data:')), []);
  const titles = await page.$$eval('figure h3', (all) => all.map((h) => h.textContent));
  for (const part of ['stage by stage', 'Spread of every stage', 'How many messages', 'over the run', 'Predicted against measured', 'by message size', 'library against work.bytes', 'Share of the variance', 'Which stage binds', 'What moves'])
    assert.ok(titles.some((t) => t.includes(part)), `no figure "${part}" in ${titles.join('; ')}`);
  await page.close();
});

test('says on the first screen what is slow, what it would gain and how far to trust it', async () => {
  const page = await open(everything());
  const cards = plain(await page.$eval('.cards', (e) => e.innerText));
  assert.match(cards, /What is slow\s+1000 ns median end to end\s+mmio\s+60 %, 600 ns/);
  assert.match(cards, /What it would gain\s+-60 % if mmio were free/);
  assert.match(cards, /nic\.decode_ns 90 instead of 100, -2\.0 % on end to end, median/);
  assert.match(cards, /How far to trust it\s+26 % median error of 2 predicted rows/);
  assert.doesNotMatch(cards, /another system/);
  assert.match(cards, /4 parameters of the system: 3 measured, 1 assumed \(.*not by weight\)/);
  const bottom = await page.$eval('.cards', (e) => e.getBoundingClientRect().bottom);
  assert.ok(bottom < 900, `cards end at ${bottom}`);
  await page.close();
});

test('shows a stage, its number and its unit under the mouse', async () => {
  const page = await open(everything());
  const plot = await plotOf(page, 'stage by stage');
  await plot.evaluate((p) => p.scrollIntoView({ block: 'center' }));
  await page.waitForFunction((p) => p.querySelector('svg'), {}, plot);
  // The bar in the row whose label says wqe.
  const at = await plot.evaluate((p) => {
    const label = [...p.querySelectorAll('text')].find((t) => t.textContent === 'wqe').getBoundingClientRect();
    const y = (label.top + label.bottom) / 2;
    const bars = [...p.querySelectorAll('path')].map((b) => b.getBoundingClientRect()).filter((b) => b.top <= y && b.bottom >= y && b.left >= label.right && b.height < 30 && b.width > 20);
    return { x: (bars[0].left + bars[0].right) / 2, y };
  });
  await page.mouse.move(at.x - 3, at.y);
  await page.mouse.move(at.x, at.y);
  await page.waitForSelector('.tip');
  const tip = plain(await shownTip(page));
  assert.match(tip, /wqe/);
  assert.match(tip, /median 400 ns/);
  assert.match(tip, /p10 to p90 360 ns to 460 ns/);
  await page.close();
});

test('is read by keyboard alone', async () => {
  const page = await open(everything());
  await drawAll(page);
  let label = '';
  for (let presses = 0; presses < 60 && !label.startsWith('Waterfall'); ++presses) {
    await page.keyboard.press('Tab');
    label = await page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? '');
  }
  assert.match(label, /^Waterfall of the stages/);
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), 'none');
  const spoken = async () => plain(await page.evaluate(() => document.activeElement.closest('figure').querySelector('[aria-live]').textContent));
  await page.keyboard.press('ArrowRight');
  assert.match(await spoken(), /^wqe: median 400 ns/);
  assert.match(plain(await shownTip(page)), /median 400 ns/);
  await page.keyboard.press('ArrowDown');
  assert.match(await spoken(), /^mmio: median 600 ns/);
  await page.keyboard.press('End');
  assert.match(await spoken(), /^end_to_end: median 1000 ns/);
  await page.keyboard.press('Escape');
  assert.equal(await spoken(), '');
  await page.close();
});

test('has every chart speak in every figure', async () => {
  const page = await open(everything());
  await drawAll(page);
  for (const plot of await page.$$('.plot')) {
    await plot.focus();
    await page.keyboard.press('ArrowRight');
    const { title, said } = await plot.evaluate((p) => ({ title: p.closest('figure').querySelector('h3').textContent, said: p.closest('figure').querySelector('[aria-live]').textContent }));
    assert.match(said, /\d/, `${title}: "${said}"`);
    assert.match(plain(await shownTip(page)), /\d/, `${title}: no tooltip`);
  }
  assert.deepEqual(page.errors, []);
  await page.close();
});

test('names every chart, control and table for a screen reader', async () => {
  const page = await open(everything());
  const unnamed = await page.evaluate(() => {
    const bad = [];
    for (const plot of document.querySelectorAll('.plot')) if (!plot.getAttribute('aria-label') || !document.getElementById(plot.getAttribute('aria-describedby'))) bad.push(plot.closest('figure').textContent);
    for (const select of document.querySelectorAll('select')) if (!select.closest('label')?.querySelector('span')?.textContent) bad.push('select');
    for (const button of document.querySelectorAll('button')) if (!button.textContent) bad.push('button');
    for (const details of document.querySelectorAll('details')) details.open = true;
    return bad;
  });
  assert.deepEqual(unnamed, []);
  await page.waitForFunction(() => [...document.querySelectorAll('figure details')].every((d) => d.querySelector('table')));
  const tables = await page.$$eval('table', (all) => all.map((t) => ({ caption: t.caption?.textContent, rows: t.tBodies[0].rows.length, scoped: [...t.querySelectorAll('th')].every((c) => c.scope) })));
  for (const t of tables) assert.ok(t.caption && t.rows > 0 && t.scoped, JSON.stringify(t));
  const figures = await page.$$eval('figure', (all) => all.filter((f) => !f.querySelector('table') && !f.parentElement.querySelector('.table')).map((f) => f.querySelector('h3').textContent));
  assert.deepEqual(figures, [], 'figures without a table beside them');
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'en');
  await page.close();
});

/** Contrast of two CSS colours "rgb(r, g, b)", as WCAG 2 has it. */
function contrast(a, b) {
  const luminance = (colour) => {
    const [r, g, bl] = colour.match(/[\d.]+/g).map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * bl;
  };
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

test('is legible in light and dark, and the reader may choose', async () => {
  const seen = {};
  for (const scheme of ['light', 'dark']) {
    const page = await open(everything(), { scheme });
    const colours = () => page.evaluate(() => {
      const of = (selector, what) => getComputedStyle(document.querySelector(selector))[what];
      return { ground: of('body', 'backgroundColor'), card: of('.card', 'backgroundColor'), text: of('body', 'color'), soft: of('.soft', 'color'), link: of('nav a', 'color'), chips: [...document.querySelectorAll('.chip')].map((c) => getComputedStyle(c).backgroundColor) };
    });
    const c = await colours();
    seen[scheme] = c.ground;
    for (const [name, colour] of Object.entries({ text: c.text, soft: c.soft, link: c.link })) assert.ok(contrast(colour, c.ground) >= 4.5, `${scheme} ${name} ${contrast(colour, c.ground)}`);
    for (const chip of c.chips) assert.ok(contrast(chip, c.card) >= 3, `${scheme} ${chip} ${contrast(chip, c.card)}`);
    await drawAll(page);
    const ink = () => page.evaluate(() => [...document.querySelectorAll('.plot text')].find((t) => t.textContent === 'wqe').getAttribute('fill') ?? '');
    const before = await ink();
    await page.click('#theme');
    assert.notEqual((await colours()).ground, c.ground);
    assert.notEqual(await ink(), before, 'charts keep the old colours');
    await page.close();
  }
  assert.notEqual(seen.light, seen.dark);
});

for (const width of [400, 1920])
  test(`fits a screen of ${width} px`, async () => {
    const page = await open(everything(), { width });
    await drawAll(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${wide} px wide`);
    const cut = await page.evaluate(() => [...document.querySelectorAll('.plot')].filter((p) => p.querySelector('svg').getBoundingClientRect().right > p.getBoundingClientRect().right + 1).length);
    assert.equal(cut, 0);
    await page.close();
  });

test('lists the worst row first, with its reason and interval, and sorts', async () => {
  const page = await open(everything());
  const rows = () => page.$$eval('#trust tbody tr', (all) => all.map((r) => r.innerText));
  const first = plain((await rows())[0]);
  assert.match(first, /cfg 11\s+wqe\s+predicted\s+100 cycles\s+150 cycles/);
  // docs/validation-misses.txt has it.
  assert.match(first, /\+50 %\s+four lanes on one queue/);
  assert.match(plain((await rows()).find((r) => r.startsWith('cfg 2'))), /950 to 1100 cycles/);
  const head = (await page.$$('#trust thead th'))[3];
  await (await head.$('button')).focus();
  await page.keyboard.press('Enter');
  assert.equal(await head.evaluate((h) => h.getAttribute('aria-sort')), 'descending');
  assert.match((await rows())[0], /^cfg 2/);
  await page.close();
});

test('has a colour of its own for every stage that marrow knows', async () => {
  const page = await open(everything());
  const known = JSON.parse(await page.$eval('#data', (e) => e.textContent)).stages;
  const { stageColour, stagePlace } = await import(join(process.env.MODULES, 'web/src/palette.js'));
  assert.ok(known.length > 20);
  assert.deepEqual(known.filter((s) => !stagePlace(s)), []);
  assert.equal(new Set(known.map(stageColour)).size, known.length);
  await page.close();
});

test('shows texts of files as texts', async () => {
  const page = await open(everything());
  assert.equal(await page.$('#injected'), null);
  assert.ok((await page.$eval('#time', (s) => s.textContent)).includes('</script><b id="injected">'));
  await page.close();
});

test('holds 100,000 messages in less than 8 MB, without a node for each', async () => {
  const file = report('large.html', [make('large.csv', messages(100000))]);
  assert.ok(statSync(file).size < 8e6, `${statSync(file).size} bytes`);
  const page = await open(file);
  await drawAll(page);
  assert.deepEqual(page.errors, []);
  assert.ok((await page.evaluate(() => document.querySelectorAll('*').length)) < 5000);
  const plot = await plotOf(page, 'Spread of every stage');
  await plot.focus();
  await page.keyboard.press('Home');
  const said = plain(await plot.evaluate((p) => p.closest('figure').querySelector('[aria-live]').textContent));
  // wqe takes 100 to 199 ns, each as often: p50 is 150, p10 110, p90 190.
  assert.match(said, /^wqe: median 150 ns, p10 to p90 110 ns to 190 ns, .*largest 199 ns, 100 000 messages/);
  await page.close();
});

test('says where a validation is of another system than the run', async () => {
  const page = await open(report('other.html', [make('o-run.json', run), make('o-validate.json', { ...validation, system: 'h200-b' })]));
  assert.match(await page.$eval('.cards', (e) => e.innerText), /That is h200-b, another system than the run's, made-up/);
  await page.close();
});

test('draws a comparison of protocols as latency by size', async () => {
  const rows = ['gdaki', 'host'].flatMap((protocol, i) => [8, 4096].map((bytes) => ({ index: 0, run: `${bytes} B`, bytes, protocol, what: 'put to quiet', messages: 9, median_ns: 1000 * (i + 1), p90_ns: 1, p99_ns: 1 })));
  const page = await open(report('modes.html', [make('modes.json', { schema: 'marrow.run/1', system: 's', protocols: ['gdaki', 'host'], comparison: rows, provenance: {} })]));
  await drawAll(page);
  assert.deepEqual(page.errors, []);
  const plot = await plotOf(page, 'way of submitting');
  await plot.focus();
  await page.keyboard.press('End');
  assert.match(plain(await plot.evaluate((p) => p.closest('figure').querySelector('[aria-live]').textContent)), /host, work.bytes 4 KiB: median 2000 ns/);
  await page.close();
});

test('draws every line where there are more than colours', async () => {
  const protocols = [...Array(11).keys()].map((i) => `way-${i}`);
  const rows = protocols.flatMap((protocol, i) => [8, 4096].map((bytes) => ({ index: 0, run: `${bytes} B`, bytes, protocol, what: 'put to quiet', messages: 9, median_ns: 1000 * (i + 1), p90_ns: 1, p99_ns: 1 })));
  const page = await open(report('many.html', [make('many.json', { schema: 'marrow.run/1', system: 's', protocols, comparison: rows, provenance: {} })]));
  await drawAll(page);
  const plot = await plotOf(page, 'way of submitting');
  await plot.focus();
  await page.keyboard.press('End');
  assert.match(plain(await plot.evaluate((p) => p.closest('figure').querySelector('[aria-live]').textContent)), /way-10, work.bytes 4 KiB: median 11.0 µs/);
  const drawn = await plot.evaluate((p) => [...p.querySelectorAll('path')].filter((path) => path.getAttribute('stroke-width') === '2' && path.getAttribute('fill') === 'none').map((path) => `${path.getAttribute('stroke')} ${path.getAttribute('stroke-dasharray')}`));
  assert.ok(new Set(drawn).size >= 11, `no two lines alike: ${drawn.join('; ')}`);
  await page.close();
});

test('weighs what a stage rests on where a study tells', async () => {
  // decode_ns, assumed, has three times the elasticity of load_cycles, measured; the clock scales
  // cycles that are counted already.
  const slope = (axis, result) => ({ what: 'elasticity', axis, value: '1', metric: 'end_to_end_median_ns', result });
  const study = {
    ...tornado, system: 'made-up', protocol: 'p', provenance: { parameters: { measured: 1, assumed: 1 } },
    axes: [...tornado.axes, { name: 'gpu.l2.load_cycles', base: 9, values: [8, 10], evidence: 'measured' }, { name: 'gpu.sm.clock_ghz', base: 2, values: [1, 3], evidence: 'measured' }],
    sensitivity: [slope('nic.decode_ns', 0.6), slope('gpu.l2.load_cycles', 0.2), slope('gpu.sm.clock_ghz', -0.2)],
  };
  const page = await open(report('weights.html', [make('w-run.json', run), make('w-study.json', study)]));
  const card = plain(await page.$eval('.card', (e) => e.innerText));
  assert.match(card, /measured 25 %, assumed 75 % \(what it rests on, by weight: the elasticities of first\)/);
  await page.close();
});

for (const [what, name, content] of [['run', 'one-run.json', run], ['validation', 'one-validation.json', validation], ['sweep', 'one-sweep.json', tornado]])
  test(`makes a page of one ${what} alone`, async () => {
    const page = await open(report(`one-${what}.html`, [make(name, content)]));
    await drawAll(page);
    assert.deepEqual(page.errors, []);
    assert.ok(await page.$('.card'));
    await page.close();
  });
