import { redrawAll } from './chart.js';
import { chip, h } from './dom.js';
import * as evidence from './evidence.js';
import { count, file, metric, percent, time } from './format.js';
import * as messages from './messages.js';
import { isStage, stageColour, stages as knownStages } from './palette.js';
import * as runs from './runs.js';
import * as sizes from './sizes.js';
import * as sweeps from './sweeps.js';
import { table } from './table.js';
import * as validation from './validation.js';

const data = JSON.parse(document.getElementById('data').textContent);
for (const stage of data.stages) knownStages.add(stage);

// Light or dark: as the system has it, until the reader says otherwise.
const button = document.getElementById('theme');
const dark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? 'dark' : 'light')) === 'dark';
function themed() {
  button.textContent = isDark() ? 'Light' : 'Dark';
  button.setAttribute('aria-label', isDark() ? 'Switch to light colours' : 'Switch to dark colours');
  redrawAll();
}
button.addEventListener('click', () => {
  document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
  themed();
});
dark.addEventListener('change', themed);

// First screen: what is slow, what it would gain, how far to trust it.

function stageList(rows) {
  const most = Math.max(...rows.map((r) => r.share));
  return h(
    'ol',
    { class: 'bars' },
    rows.map((r) =>
      h(
        'li',
        {},
        h('span', { class: 'name' }, chip(stageColour(r.stage)), r.stage),
        h('span', { class: 'track', 'aria-hidden': 'true' }, h('span', { style: `width:${(100 * r.share) / most}%;background:${stageColour(r.stage)}` })),
        h('span', { class: 'value' }, r.text),
      ),
    ),
  );
}

function slowAndFree(run) {
  const sweep = data.sweeps.find((s) => s.sensitivity.some((x) => x.what === 'stage_share'));
  const best = data.sweeps.map((s) => [s, sweeps.bestChange(s)]).filter(([, b]) => b);
  const bestLines = best.slice(0, 2).map(([s, b]) => {
    const axis = s.axes.find((a) => a.name === b.axis);
    return h('p', {}, 'Best single change tried in ', h('b', {}, s.study), ': ', h('code', {}, b.axis), ` ${b.value}${axis?.base !== undefined ? ` instead of ${axis.base}` : ''}, `, h('b', {}, percent(b.result, true)), ` on ${metric(s.target).name}.`);
  });
  if (run) {
    const top = runs.longest(run).slice(0, 4);
    const whole = runs.wholeOf(run);
    const put = runs.wholeOf(run, 'put');
    const slow = h(
      'article',
      { class: 'card' },
      h('h2', {}, 'What is slow'),
      h('p', { class: 'big' }, time(whole?.median_ns), h('span', {}, ' median end to end')),
      stageList(top.map((s) => ({ stage: s.stage, share: s.share, text: `${percent(s.share)}, ${time(s.median_ns)}` }))),
      h('p', { class: 'soft' }, `${run.name}, ${count(run.messages)} messages; the lane itself is busy for ${time(put?.median_ns)} of it (median).`),
      evidence.line(runs.restsOn(data, run)),
    );
    const mean = whole?.mean_ns ?? whole?.median_ns ?? 0;
    const free = h(
      'article',
      { class: 'card' },
      h('h2', {}, 'What it would gain'),
      h('p', { class: 'big' }, top[0] ? `\u2212${percent(top[0].share)}` : '–', h('span', {}, ` if ${top[0]?.stage} were free`)),
      stageList(top.map((s) => ({ stage: s.stage, share: s.share, text: `\u2212${time(s.share * mean)}` }))),
      h('p', { class: 'soft' }, 'Of the mean, where nothing overlaps the stage: an upper bound. Loops that poll, and lanes that wait for each other, may give less.'),
      bestLines,
      evidence.line(runs.restsOn(data, run)),
    );
    return [slow, free];
  }
  if (sweep) {
    const top = sweep.sensitivity.filter((s) => s.what === 'stage_share' && isStage(s.metric)).sort((a, b) => b.result - a.result).slice(0, 5);
    return [
      h(
        'article',
        { class: 'card' },
        h('h2', {}, 'What is slow'),
        stageList(top.map((s) => ({ stage: s.metric, share: s.result, text: percent(s.result) }))),
        h('p', { class: 'soft' }, `Share of end to end in ${sweep.study}: saved if the stage were free and nothing overlapped it.`),
      ),
      bestLines.length ? h('article', { class: 'card' }, h('h2', {}, 'What it would gain'), bestLines) : null,
    ];
  }
  const given = messages.allOf(data)[0];
  if (!given) return bestLines.length ? [h('article', { class: 'card' }, h('h2', {}, 'What it would gain'), bestLines)] : [];
  const stages = given.stages.filter((s) => isStage(s.stage) && s.stage !== 'completion');
  const total = stages.reduce((sum, s) => sum + s.mean_ns * s.count, 0);
  const top = stages.map((s) => ({ stage: s.stage, share: (s.mean_ns * s.count) / total })).sort((a, b) => b.share - a.share).slice(0, 5);
  return [h('article', { class: 'card' }, h('h2', {}, 'What is slow'), stageList(top.map((s) => ({ ...s, text: percent(s.share) }))), h('p', { class: 'soft' }, `${given.name}, ${count(given.messages)} messages.`))];
}

function trustCard(run) {
  const parts = data.validations.slice(0, 3).map((doc) => {
    const s = doc.summary;
    const inside = validation.coverage(doc);
    return [
      h('p', { class: 'big' }, percent(s.median_abs_error), h('span', {}, ` median error of ${count(s.rows)} predicted rows, ${validation.nameOf(doc)}`)),
      h('p', { class: 'soft' }, `One in ten misses by more than ${percent(s.p90_abs_error)}.`, inside ? ` ${percent(inside.within / inside.rows)} of the measured medians lie within their 90 % interval.` : '', run && doc.system && doc.system !== run.doc.system ? ` That is ${doc.system}, another system than the run's, ${run.doc.system}.` : ''),
    ];
  });
  if (data.validations.length > 3) parts.push(h('p', {}, h('a', { href: '#trust' }, `${data.validations.length - 3} more below.`)));
  if (run) parts.push(h('p', { class: 'soft' }, `What ${run.name} rests on, end to end:`), evidence.line(runs.restsOn(data, run)));
  else {
    const sweep = data.sweeps.find((s) => s.provenance);
    if (sweep) {
      const weights = sweeps.weightsOf(sweep, sweep.target);
      parts.push(evidence.line(weights ? { weights, study: sweep.study } : { counts: sweep.provenance.parameters }));
    }
  }
  if (data.validations.length === 0)
    parts.push(h('p', {}, 'No validation was given: nothing on this page says how far the model is off. ', h('code', {}, 'marrow validate --json FILE'), ' writes one.'));
  return h('article', { class: 'card' }, h('h2', {}, 'How far to trust it'), parts);
}

const summary = h('section', { id: 'summary', 'aria-label': 'Summary' });
function fillSummary(at) {
  const run = runs.allRuns(data)[at];
  summary.replaceChildren(h('div', { class: 'cards' }, ...slowAndFree(run).filter(Boolean), trustCard(run)));
}

/** What every run and study rests on, class by class. */
function evidenceSection() {
  const rows = [];
  const add = (from, what, classes) => classes && Object.keys(classes).length && rows.push({ from, what, classes });
  for (const doc of data.runs) {
    add(file(doc.file), `parameters of ${doc.system}`, doc.provenance?.parameters);
    for (const [protocol, costs] of Object.entries(doc.provenance?.recipe_costs ?? {})) add(file(doc.file), `costs of ${protocol}`, costs);
  }
  for (const sweep of data.sweeps) add(sweep.study, `parameters of ${sweep.system ?? 'its system'}`, sweep.provenance?.parameters);
  for (const doc of data.validations) add(validation.nameOf(doc), `parameters of ${doc.system ?? 'its system'}`, doc.provenance?.parameters);
  if (rows.length === 0) return null;
  const classes = ['measured', 'published', 'derived', 'fitted', 'assumed'];
  return h(
    'section',
    { id: 'evidence' },
    h('h2', {}, 'What it rests on'),
    h('p', {}, 'Every parameter of a system and every cost of a recipe names its source. By number, not by weight: an assumed value that nothing hangs on counts like one that decides.'),
    evidence.key(),
    table(
      'Sources of parameters and costs, by class',
      [
        { label: 'file', value: (r) => r.from },
        { label: 'what', value: (r) => r.what },
        ...classes.map((c) => ({ label: c, number: true, value: (r) => r.classes[c] ?? 0 })),
        { label: 'all', value: (r) => r.classes.assumed ?? 0, show: (r) => evidence.counts(r.classes, 'values') },
      ],
      rows,
    ),
  );
}

function sources() {
  const about = (s) => {
    if (s.fault) return s.fault;
    const doc = [...data.runs, ...data.validations, ...data.sweeps].find((d) => d.file === s.file);
    if (!doc) return '';
    return [doc.system ? `system ${doc.system}` : '', doc.trace ? `trace ${doc.trace}` : '', doc.seed !== undefined ? `seed ${doc.seed}` : '', doc.study ? `study ${doc.study}` : '', doc.capture ? `capture ${doc.capture}` : ''].filter(Boolean).join(', ');
  };
  return h(
    'section',
    { id: 'sources' },
    h('h2', {}, 'Made of'),
    table('Files that this page was made of', [{ label: 'file', value: (s) => s.file }, { label: 'holds', value: (s) => s.what }, { label: 'about', value: about, wide: true }], data.sources),
    h('p', { class: 'soft' }, `marrow ${data.version}. Charts: Apache ECharts, Apache License 2.0.`),
  );
}

const main = document.getElementById('main');
const parts = [
  [summary, 'Summary'],
  [runs.section(data, 0, fillSummary), 'Time'],
  [messages.section(data), 'Distributions'],
  [validation.section(data), 'Validation'],
  [sizes.section(data), 'Size'],
  [sweeps.section(data), 'Studies'],
  [evidenceSection(), 'Evidence'],
  [sources(), 'Made of'],
].filter(([element]) => element);
fillSummary(0);
main.append(...parts.map(([element]) => element));
document.getElementById('contents').append(h('ul', {}, parts.map(([element, name]) => h('li', {}, h('a', { href: `#${element.id}` }, name)))));
const subject = [...new Set([...data.runs.map((r) => r.system), ...data.sweeps.map((s) => s.study), ...data.validations.map((v) => v.system ?? validation.nameOf(v))])];
document.getElementById('subject').textContent = subject.join(' · ');
document.title = `marrow: ${subject.slice(0, 3).join(', ') || 'report'}`;
themed();
document.documentElement.dataset.ready = 'yes';
