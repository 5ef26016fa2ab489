// Studies: curves, heat maps, sensitivities.
import { axis, figure, ink, legend, tooltip } from './chart.js';
import { curves, levels, shown } from './curves.js';
import { chip, choice, h } from './dom.js';
import * as evidence from './evidence.js';
import { count, metric, number, percent } from './format.js';
import { evidenceColours, isStage, stageColour } from './palette.js';
import { table } from './table.js';

const axesOf = (sweep) => sweep.axes.map((a) => a.name).filter((n) => levels(sweep.points.parameters[n]).length > 1);
const evidenceOf = (sweep, name) => sweep.axes.find((a) => a.name === name)?.evidence;

/** Lines over one axis, one for each combination of the others but those held. */
export function lineSets(sweep, x, y, keep = () => true, held = []) {
  const { parameters, metrics } = sweep.points;
  const others = axesOf(sweep).filter((n) => n !== x && !held.includes(n));
  const sets = new Map();
  for (let p = 0; p < sweep.points.count; ++p) {
    const value = metrics[y][p];
    if (value === null || value === undefined || !keep(p)) continue;
    const name = others.map((n) => (Number.isNaN(Number(parameters[n][p])) ? parameters[n][p] : `${n.split('.').at(-1)} ${shown(n, parameters[n][p])}`)).join(', ');
    if (!sets.has(name)) sets.set(name, []);
    sets.get(name).push([parameters[x][p], value]);
  }
  return [...sets].map(([name, points]) => ({ name, points: points.every((p) => typeof p[0] === 'number') ? points.sort((a, b) => a[0] - b[0]) : points }));
}

/** Choices that hold the axes not shown at one value each. */
function fixers(sweep, names, fixed, refill) {
  return names.map((n) =>
    choice(n, levels(sweep.points.parameters[n]).map((v) => [v, shown(n, v)]), fixed[n], (v) => {
      fixed[n] = v;
      refill();
    }),
  );
}
const keeps = (sweep, fixed, names) => (p) => names.every((n) => String(sweep.points.parameters[n][p]) === String(fixed[n]));

function grid(sweep) {
  const names = axesOf(sweep);
  if (names.length === 0) return null;
  const metrics = sweep.metrics;
  const numeric = (n) => levels(sweep.points.parameters[n]).every((v) => typeof v === 'number');
  let y = metrics.includes(sweep.target) ? sweep.target : metrics[0];
  let x = [...names].sort((a, b) => numeric(b) - numeric(a) || levels(sweep.points.parameters[b]).length - levels(sweep.points.parameters[a]).length)[0];
  const fixed = Object.fromEntries(names.map((n) => [n, levels(sweep.points.parameters[n])[0]]));
  const metricChoice = (value, set) => choice('Metric', metrics.map((m) => [m, metric(m).name]), value, set);

  const curveControls = h('div', { class: 'controls' });
  const curvePlace = h('div');
  let drawn = null;
  function fillCurves() {
    drawn?.remove();
    const others = names.filter((n) => n !== x);
    // As many lines as stay apart; the axes beyond are held.
    let lines = 1;
    const held = [];
    for (const n of [...others].sort((a, b) => levels(sweep.points.parameters[a]).length - levels(sweep.points.parameters[b]).length)) {
      const more = levels(sweep.points.parameters[n]).length;
      if (lines * more <= 8) lines *= more;
      else held.push(n);
    }
    drawn = curves({
      title: `${metric(y).name} over ${x}`,
      x,
      y,
      series: lineSets(sweep, x, y, keeps(sweep, fixed, held), held),
    });
    curvePlace.replaceChildren(drawn.element);
    curveControls.replaceChildren(
      ...[
        metrics.length > 1 ? metricChoice(y, (v) => ((y = v), fillCurves())) : null,
        names.length > 1 ? choice('Across', names.map((n) => [n, n]), x, (v) => ((x = v), fillCurves())) : null,
        ...fixers(sweep, held, fixed, fillCurves),
      ].filter(Boolean),
    );
  }
  fillCurves();
  const parts = [h('div', {}, curveControls, curvePlace)];

  if (names.length >= 2) {
    let hy = y;
    let [across, up] = [x, names.find((n) => n !== x)];
    const controls = h('div', { class: 'controls' });
    const place = h('div');
    const here = { ...fixed };
    let map = null;
    const fill = () => {
      map?.remove();
      const held = names.filter((n) => n !== across && n !== up);
      map = heatMap(sweep, across, up, hy, keeps(sweep, here, held));
      place.replaceChildren(map.element);
      controls.replaceChildren(
        ...[
          metrics.length > 1 ? metricChoice(hy, (v) => ((hy = v), fill())) : null,
          names.length > 2 ? choice('Across', names.map((n) => [n, n]), across, (v) => {
            if (v === up) up = across;
            across = v;
            fill();
          }) : null,
          names.length > 2 ? choice('Up', names.map((n) => [n, n]), up, (v) => {
            if (v === across) across = up;
            up = v;
            fill();
          }) : null,
          ...fixers(sweep, held, here, fill),
        ].filter(Boolean),
      );
    };
    fill();
    parts.push(h('div', {}, controls, place));
  }
  return h('div', { class: 'pair' }, parts);
}

// Cividis: even steps for colour-blind eyes too.
const kScale = ['#00224e', '#2a3f6d', '#575c6d', '#7d7c78', '#a69d75', '#d3c164', '#fee838'];

function heatMap(sweep, x, y, column, keep) {
  const { parameters, metrics } = sweep.points;
  const { name, unit } = metric(column);
  const [xs, ys] = [levels(parameters[x]), levels(parameters[y])];
  const cells = [];
  for (let p = 0; p < sweep.points.count; ++p) {
    const value = metrics[column][p];
    if (value === null || value === undefined || !keep(p)) continue;
    cells.push([xs.indexOf(parameters[x][p]), ys.indexOf(parameters[y][p]), value]);
  }
  cells.sort((a, b) => a[1] - b[1] || a[0] - b[0]);
  const values = cells.map((c) => c[2]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const log = low > 0 && high / low > 5;
  const shade = (v) => (log ? Math.log10(v) : v);
  const told = (c) => `${x} ${shown(x, xs[c[0]])}, ${y} ${shown(y, ys[c[1]])}: ${name} ${number(c[2], unit)}`;
  return figure({
    title: `${name}: ${y} against ${x}`,
    note: `From ${number(low, unit)} (dark) to ${number(high, unit)} (light)${log ? ', logarithmic' : ''}.`,
    label: `Heat map of ${name}, ${xs.length} values of ${x} by ${ys.length} of ${y}.`,
    height: () => 70 + Math.max(3, ys.length) * 38,
    draw: (width) => {
      const left = width < 560 ? 86 : 130;
      const room = (width - left - 20) / xs.length;
      const middle = (shade(low) + shade(high)) / 2;
      return {
        points: cells.map((c, i) => ({ series: 0, index: i, text: told(c) })),
        option: {
          grid: { left, right: 16, top: 8, bottom: 50, outerBoundsMode: 'none' },
          tooltip: tooltip({ trigger: 'item', formatter: ({ dataIndex }) => h('div', { class: 'tip' }, told(cells[dataIndex])) }),
          xAxis: axis({ type: 'category', data: xs.map((v) => String(shown(x, v))), name: x, nameLocation: 'middle', nameGap: 32, splitLine: { show: false }, axisLabel: { hideOverlap: true } }),
          yAxis: axis({ type: 'category', data: ys.map((v) => String(shown(y, v))), splitLine: { show: false }, axisLabel: { color: ink().text, width: left - 14, overflow: 'truncate', interval: 0 } }),
          visualMap: { show: false, min: shade(low), max: shade(high) === shade(low) ? shade(low) + 1 : shade(high), dimension: 2, inRange: { color: kScale } },
          series: [
            {
              type: 'heatmap',
              data: cells.map((c) => ({
                value: [c[0], c[1], shade(c[2])],
                label: { show: room > 52, formatter: number(c[2], unit), color: shade(c[2]) > middle ? '#111' : '#fff', fontSize: 12 },
              })),
              itemStyle: { borderColor: ink().ground, borderWidth: 1 },
              emphasis: { itemStyle: { borderColor: ink().text, borderWidth: 2 } },
            },
          ],
        },
      };
    },
    table: () =>
      table(`${name}: ${y} against ${x}`, [
        { label: x, value: (c) => xs[c[0]], show: (c) => shown(x, xs[c[0]]) },
        { label: y, value: (c) => ys[c[1]], show: (c) => shown(y, ys[c[1]]) },
        { label: name, number: true, value: (c) => c[2], show: (c) => number(c[2], unit) },
      ], cells),
  });
}

/** Horizontal bars. rows: {name, value, colour, lines[]}. */
function barChart({ title, note, label, rows, show, head, extra }) {
  return figure({
    title,
    note,
    label,
    height: () => 44 + rows.length * 22,
    draw: (width) => ({
      points: rows.map((r, i) => ({ series: 0, index: i, text: `${r.name}: ${r.lines.join(', ')}` })),
      option: {
        grid: { left: width < 560 ? 150 : 250, right: 64, top: 4, bottom: 30, outerBoundsMode: 'none' },
        tooltip: tooltip({ trigger: 'item', formatter: ({ dataIndex }) => h('div', { class: 'tip' }, h('p', {}, h('b', {}, rows[dataIndex].name)), rows[dataIndex].lines.map((l) => h('p', {}, l))) }),
        xAxis: axis({ type: 'value', axisLabel: { formatter: (v) => show(v), hideOverlap: true } }),
        yAxis: axis({ type: 'category', inverse: true, data: rows.map((r) => r.name), splitLine: { show: false }, axisLabel: { color: ink().text, interval: 0, width: width < 560 ? 142 : 240, overflow: 'truncate', fontSize: width < 560 ? 11 : 12 } }),
        series: [
          {
            type: 'bar',
            barMaxWidth: 15,
            data: rows.map((r) => ({ value: r.value, itemStyle: { color: r.colour }, label: { position: r.value < 0 ? 'left' : 'right' } })),
            label: { show: true, color: ink().text, fontSize: 12, formatter: ({ value }) => show(value) },
          },
        ],
      },
    }),
    table: () => table(title, [{ label: head, value: (r) => r.name }, { label: 'result', number: true, value: (r) => r.value, show: (r) => show(r.value) }, ...(extra ?? [])], rows),
  });
}

function stageShares(sweep) {
  const rows = sweep.sensitivity
    .filter((s) => s.what === 'stage_share' && isStage(s.metric))
    .sort((a, b) => b.result - a.result)
    .map((s) => ({ name: s.metric, value: s.result, colour: stageColour(s.metric), lines: [`${percent(s.result)} of end to end, saved if it were free and nothing overlapped it`] }));
  if (rows.length === 0) return null;
  return barChart({
    title: 'Which stage binds',
    note: `Share of end to end ${sweep.mode === 'one_at_a_time' ? 'at the base point' : '(mean over the points)'}: what a stage that nothing overlaps would save if it were free.`,
    label: `Share of each of ${rows.length} stages; most: ${rows[0].name}, ${percent(rows[0].value)}.`,
    rows,
    show: (v) => percent(v),
    head: 'stage',
  }).element;
}

const kMost = 18;

/** Changes of one metric by each axis: lowest and highest value tried. */
function tornado(sweep, column) {
  const { name } = metric(column);
  const elasticity = new Map(sweep.sensitivity.filter((s) => s.what === 'elasticity' && s.metric === column).map((s) => [s.axis, s.result]));
  const byAxis = new Map();
  for (const s of sweep.sensitivity) {
    if (s.what !== 'change' || s.metric !== column) continue;
    if (!byAxis.has(s.axis)) byAxis.set(s.axis, []);
    byAxis.get(s.axis).push(s);
  }
  const all = [...byAxis]
    .map(([axisName, changes]) => {
      const base = sweep.axes.find((a) => a.name === axisName)?.base;
      const numeric = typeof base === 'number' && changes.every((c) => c.value !== '' && !Number.isNaN(Number(c.value)));
      const down = changes.filter((c) => numeric && Number(c.value) < base).sort((a, b) => Number(a.value) - Number(b.value))[0];
      const up = changes.filter((c) => numeric && Number(c.value) > base).sort((a, b) => Number(b.value) - Number(a.value))[0];
      const others = numeric ? [] : changes;
      const span = Math.max(...changes.map((c) => Math.abs(c.result)));
      return { axis: axisName, base, down, up, others, span, elasticity: elasticity.get(axisName), evidence: evidenceOf(sweep, axisName) };
    })
    .sort((a, b) => b.span - a.span);
  const rows = all.slice(0, kMost);
  if (rows.length === 0) return null;
  const told = (r) => {
    const lines = [];
    for (const c of [r.down, r.up, ...r.others]) if (c) lines.push(`${c.value}${r.base !== undefined ? ` instead of ${r.base}` : ''}: ${percent(c.result, true)}`);
    if (r.elasticity !== undefined) lines.push(`${r.elasticity.toFixed(3).replace('-', '\u2212')} % for each percent`);
    if (r.evidence) lines.push(`the base value is ${r.evidence}`);
    return lines;
  };
  const sides = [
    ['lower value', '#56a0d3', (r) => r.down?.result],
    ['higher value', '#b5651d', (r) => r.up?.result],
    ['another choice', '#7c5aa6', (r) => r.others.reduce((best, c) => (Math.abs(c.result) > Math.abs(best ?? 0) ? c.result : best), undefined)],
  ].filter(([, , of]) => rows.some((r) => of(r) !== undefined));
  const marked = rows.some((r) => r.evidence);
  return figure({
    title: `What moves ${name}`,
    note: `Change against the base point, one parameter at a time; the ${rows.length} of ${byAxis.size} that move it most.${marked ? ' The square beside a name says what its base value rests on.' : ''}`,
    label: `Tornado of ${rows.length} parameters; most: ${rows[0].axis}, ${percent(rows[0].span)}.`,
    height: () => 66 + rows.length * 24,
    draw: (width) => ({
      points: rows.flatMap((r, i) => [{ series: Math.max(0, sides.findIndex(([, , of]) => of(r) !== undefined)), index: i, text: `${r.axis}: ${told(r).join(', ')}` }]),
      option: {
        legend: legend({ data: sides.map(([side]) => side) }),
        grid: { left: width < 560 ? 164 : 270, right: 22, top: 28, bottom: 30, outerBoundsMode: 'none' },
        tooltip: tooltip({ trigger: 'item', formatter: ({ dataIndex }) => h('div', { class: 'tip' }, h('p', {}, h('b', {}, rows[dataIndex].axis)), told(rows[dataIndex]).map((l) => h('p', {}, l))) }),
        xAxis: axis({ type: 'value', axisLabel: { formatter: (v) => percent(v, true), hideOverlap: true } }),
        yAxis: axis({
          type: 'category',
          inverse: true,
          data: rows.map((r) => r.axis),
          splitLine: { show: false },
          axisLabel: {
            color: ink().text,
            interval: 0,
            fontSize: width < 560 ? 11 : 12,
            formatter: (text, i) => {
              const most = width < 560 ? 22 : 38;
              const short = text.length > most ? `…${text.slice(-most + 1)}` : text;
              return rows[i]?.evidence ? `${short} {${rows[i].evidence}|\u25a0}` : short;
            },
            rich: Object.fromEntries(Object.entries(evidenceColours).map(([c, colour]) => [c, { color: colour, fontSize: 13 }])),
          },
        }),
        series: sides.map(([side, colour, of]) => ({ type: 'bar', name: side, stack: 'both', barMaxWidth: 14, itemStyle: { color: colour }, data: rows.map((r) => of(r) ?? 0) })),
      },
    }),
    table: () =>
      table(
        `What moves ${name}`,
        [
          { label: 'parameter', value: (r) => r.axis },
          { label: 'base', number: true, value: (r) => r.base, show: (r) => String(r.base ?? '–') },
          { label: '% for each %', number: true, value: (r) => (r.elasticity === undefined ? null : Math.abs(r.elasticity)), show: (r) => r.elasticity?.toFixed(3) ?? '–' },
          { label: 'largest change', number: true, value: (r) => r.span, show: (r) => percent(r.span) },
          { label: 'changes', value: (r) => r.axis, wide: true, show: (r) => told(r).slice(0, [r.down, r.up, ...r.others].filter(Boolean).length).join('; ') },
          ...(marked ? [{ label: 'base value is', value: (r) => r.evidence ?? '', show: (r) => (r.evidence ? h('span', {}, chip(evidenceColours[r.evidence]), r.evidence) : 'a choice') }] : []),
        ],
        all,
      ),
  });
}

function variances(sweep, column) {
  const rows = sweep.sensitivity
    .filter((s) => s.what === 'variance_share' && s.metric === column)
    .sort((a, b) => b.result - a.result)
    .slice(0, kMost)
    .map((s) => ({ name: s.axis, value: s.result, colour: evidenceColours[evidenceOf(sweep, s.axis)] ?? '#0072b2', lines: [`${percent(s.result)} of the variance`, evidenceOf(sweep, s.axis) ? `the base value is ${evidenceOf(sweep, s.axis)}` : ''].filter(Boolean) }));
  if (rows.length === 0) return null;
  const fit = sweep.sensitivity.find((s) => s.what === 'fit' && s.metric === column);
  return barChart({
    title: `Share of the variance of ${metric(column).name}`,
    note: fit ? `Of ranks; a linear regression explains ${percent(fit.result)} of it.` : 'First order: variance of the means by an axis over that of all points.',
    label: `Variance shares of ${rows.length} axes; most: ${rows[0].name}, ${percent(rows[0].value)}.`,
    rows,
    show: (v) => percent(v),
    head: 'axis',
  });
}

/**
 * What a metric rests on, by weight: its elasticity to each parameter and cost that the study varied
 * one at a time, summed by class of evidence. Clocks are left out: the cycles that they scale carry
 * the time. Nothing where the study does not tell.
 */
export function weightsOf(sweep, column) {
  const weights = {};
  let total = 0;
  for (const s of sweep.sensitivity) {
    if (s.what !== 'elasticity' || s.metric !== column || s.axis.endsWith('_ghz')) continue;
    const of = evidenceOf(sweep, s.axis);
    if (!of) continue;
    weights[of] = (weights[of] ?? 0) + Math.abs(s.result);
    total += Math.abs(s.result);
  }
  if (total === 0) return null;
  for (const name of Object.keys(weights)) weights[name] /= total;
  return weights;
}

/** The change of a study's target that pays most, or nothing. */
export function bestChange(sweep) {
  const more = /^(rate|goodput)_/.test(sweep.target);
  let best = null;
  for (const s of sweep.sensitivity)
    if (s.what === 'change' && s.metric === sweep.target && (more ? s.result > (best?.result ?? 0) : s.result < (best?.result ?? 0))) best = s;
  return best;
}

/** In each situation the choice that serves best. */
function chooser(sweep) {
  if (!sweep.choices?.length) return null;
  const { parameters, metrics } = sweep.points;
  const { name, unit } = metric(sweep.target);
  const given = sweep.choose_for;
  const chosen = axesOf(sweep).filter((n) => !given.includes(n));
  const rows = sweep.choices.filter((c) => c.points.length > 0 || c.situation);
  const failed = (c) => c.points.length === 0;
  const at = (c, n) => (failed(c) ? c.situation[given.indexOf(n)] : parameters[n][c.points[0]]);
  return table(
    `Which choice serves best: ${sweep.study}`,
    [
      ...given.map((n) => ({ label: n, number: typeof parameters[n][0] === 'number', value: (c) => at(c, n), show: (c) => shown(n, at(c, n)) })),
      ...chosen.map((n, i) => ({ label: `choose ${n}`, value: (c) => at(c, n) ?? '', show: (c) => (failed(c) ? (i === 0 ? 'every way failed' : '–') : h('b', {}, shown(n, at(c, n)))) })),
      { label: name, number: true, value: (c) => metrics[sweep.target][c.points[0]], show: (c) => (failed(c) ? '–' : number(metrics[sweep.target][c.points[0]], unit)) },
      { label: 'second best', value: (c) => (c.points.length > 1 ? chosen.map((n) => shown(n, parameters[n][c.points[1]])).join(', ') : '–') },
      { label: 'behind by', number: true, value: (c) => c.margin, show: (c) => (c.points.length > 1 ? percent(c.margin) : '–') },
    ],
    rows,
  );
}

export function section(data) {
  if (data.sweeps.length === 0) return null;
  return h(
    'section',
    { id: 'studies' },
    h('h2', {}, 'Studies'),
    data.sweeps.map((sweep) => {
      const { errors } = sweep.points;
      const place = h('div');
      const controls = h('div', { class: 'controls' });
      const shownMetrics = sweep.metrics.filter((m) => sweep.sensitivity.some((s) => s.metric === m && ['change', 'variance_share'].includes(s.what)));
      let column = shownMetrics.includes(sweep.target) ? sweep.target : shownMetrics[0];
      let drawn = [];
      const fill = () => {
        for (const d of drawn) d.remove();
        drawn = [sweep.mode === 'one_at_a_time' ? tornado(sweep, column) : null, variances(sweep, column)].filter(Boolean);
        const weighed = weightsOf(sweep, column);
        place.replaceChildren(...[...drawn.map((d) => d.element), weighed ? evidence.line({ weights: weighed, study: sweep.study }) : null].filter(Boolean));
      };
      if (column) fill();
      if (shownMetrics.length > 1) controls.append(choice('Metric', shownMetrics.map((m) => [m, metric(m).name]), column, (v) => ((column = v), fill())));
      return h(
        'article',
        {},
        h('h3', {}, sweep.study),
        h('p', { class: 'question' }, sweep.question || '', ` ${count(sweep.points.count)} points, ${sweep.mode.replaceAll('_', ' ')}.`),
        sweep.provenance ? evidence.line({ counts: sweep.provenance.parameters, of: `parameters of the base system ${sweep.system ?? ''}`.trim() }) : null,
        errors.length ? h('details', {}, h('summary', {}, `${count(errors.length)} points failed`), h('ul', {}, errors.slice(0, 50).map((e) => h('li', {}, `point ${e.point}: ${e.error}`)))) : null,
        chooser(sweep),
        sweep.mode === 'grid' ? grid(sweep) : null,
        controls,
        h('div', { class: 'pair' }, stageShares(sweep), column ? place : null),
      );
    }),
  );
}
