// Predicted against measured.
import { axis, figure, ink, legend, tooltip } from './chart.js';
import { chip, h } from './dom.js';
import * as evidence from './evidence.js';
import { count, file, number, percent } from './format.js';
import { roleColours, symbols } from './palette.js';
import { table } from './table.js';

const roles = ['predicted', 'placement', 'fit'];
const known = (v) => v !== null && v !== undefined && !Number.isNaN(v);
/** The 90 % interval of the predicted median, [low, high], or nothing. */
const intervalOf = (row) => row.interval ?? (known(row.predicted.low) && known(row.predicted.high) ? [row.predicted.low, row.predicted.high] : null);
const covered = (row, [low, high] = intervalOf(row)) => row.measured.median >= low && row.measured.median <= high;

export const nameOf = (doc) => (doc.capture ? file(doc.capture).replace(/\.trace$/, '') : doc.tables?.length ? file(doc.file).replace(/\.json$/, '') : file(doc.file));

/** Of the predicted, stable rows that carry an interval: how many, and how many it covers. */
export function coverage(doc) {
  const rows = doc.rows.filter((r) => r.role === 'predicted' && r.stable && intervalOf(r));
  return rows.length === 0 ? null : { rows: rows.length, within: rows.filter((r) => covered(r)).length };
}

const what = (row) => row.what ?? `${row.case} ${row.stage}`;

function lines(row) {
  const { measured: m, predicted: p, unit } = row;
  const all = [`measured ${number(m.median, unit)}${known(m.p10) ? `, p10 to p90 ${number(m.p10, unit)} to ${number(m.p90, unit)}` : ''}`];
  all.push(`predicted ${number(p.median, unit)}${known(p.p10) ? `, p10 to p90 ${number(p.p10, unit)} to ${number(p.p90, unit)}` : ''}`);
  const interval = intervalOf(row);
  if (interval) all.push(`90 % interval of the prediction ${number(interval[0], unit)} to ${number(interval[1], unit)}: ${covered(row) ? 'covers' : 'misses'} the measured`);
  all.push(`error ${percent(row.error, true)}, role ${row.role}${row.stable ? '' : ', unstable'}`);
  if (row.why) all.push(row.why);
  return all;
}

function scatter(doc) {
  const shown = doc.rows.filter((r) => r.measured.median > 0 && r.predicted.median > 0);
  const values = shown.flatMap((r) => [r.measured.median, r.predicted.median]);
  const low = Math.min(...values) / 1.4;
  const high = Math.max(...values) * 1.4;
  const units = [...new Set(shown.map((r) => r.unit))];
  const unit = units.length === 1 ? units[0] : `each in its own unit (${units.join(', ')})`;
  const byRole = roles.map((role) => shown.filter((r) => r.role === role)).filter((rows) => rows.length > 0);
  const diagonal = (factor, type) => ({
    type: 'line',
    silent: true,
    symbol: 'none',
    tooltip: { show: false },
    data: [
      [low, low * factor],
      [high, high * factor],
    ],
    lineStyle: { color: ink().soft, width: 1, type },
    clip: true,
    z: 1,
  });
  const bars = (rows) => ({
    type: 'custom',
    silent: true,
    clip: true,
    tooltip: { show: false },
    z: 2,
    encode: { x: [0], y: [1] },
    data: rows.map((r) => [r.measured.median, r.predicted.median]),
    renderItem: (params, api) => {
      const row = rows[params.dataIndex];
      const style = { stroke: roleColours[row.role], lineWidth: 1, opacity: 0.55 };
      const { measured: m, predicted: p } = row;
      const segment = (a, b) => {
        const [x1, y1] = api.coord(a);
        const [x2, y2] = api.coord(b);
        return { type: 'line', shape: { x1, y1, x2, y2 }, style };
      };
      const children = [];
      if (known(m.p10) && m.p10 > 0) children.push(segment([m.p10, p.median], [m.p90, p.median]));
      const [a, b] = intervalOf(row) ?? [p.p10, p.p90];
      if (known(a) && a > 0) children.push(segment([m.median, a], [m.median, b]));
      return { type: 'group', children };
    },
  });
  const first = 4; // series before the points
  const points = byRole.flatMap((rows, s) => rows.map((r, i) => ({ series: first + s, index: i, text: `${what(r)}: ${lines(r).join(', ')}`, error: Math.abs(r.error) }))).sort((a, b) => b.error - a.error);
  const interval = doc.rows.some(intervalOf);
  return figure({
    title: 'Predicted against measured',
    note: `One point a row, ${unit}. On the line the prediction is right; dotted lines are 15 % to either side. Across: measured p10 to p90; up: predicted ${interval ? '90 % interval' : 'p10 to p90'}. By keyboard the worst come first.`,
    label: `Scatter of ${shown.length} predicted against measured medians. Median error of predicted rows ${percent(doc.summary.median_abs_error)}.`,
    height: (width) => Math.max(300, Math.min(460, width * 0.85)),
    draw: () => ({
      points,
      option: {
        legend: legend({ data: byRole.map((rows) => rows[0].role) }),
        grid: { left: 72, right: 18, top: 34, bottom: 48, outerBoundsMode: 'none' },
        tooltip: tooltip({
          trigger: 'item',
          formatter: ({ seriesIndex, dataIndex }) => {
            const row = byRole[seriesIndex - first][dataIndex];
            return h('div', { class: 'tip' }, h('p', {}, h('b', {}, what(row))), lines(row).map((l) => h('p', {}, l)));
          },
        }),
        xAxis: axis({ type: 'log', min: low, max: high, name: 'measured', nameLocation: 'middle', nameGap: 28, axisLabel: { hideOverlap: true, showMinLabel: false, showMaxLabel: false } }),
        yAxis: axis({ type: 'log', min: low, max: high, name: 'predicted', nameLocation: 'middle', nameGap: 54, axisLabel: { hideOverlap: true, showMinLabel: false, showMaxLabel: false } }),
        series: [
          diagonal(1, 'solid'),
          diagonal(1.15, 'dotted'),
          diagonal(1 / 1.15, 'dotted'),
          bars(shown),
          ...byRole.map((rows, s) => ({
            type: 'scatter',
            name: rows[0].role,
            symbol: symbols[s],
            symbolSize: 7,
            z: 3,
            itemStyle: { color: roleColours[rows[0].role], borderColor: ink().ground, borderWidth: 0.5 },
            emphasis: { scale: 1.6, itemStyle: { borderColor: ink().text, borderWidth: 1.5 } },
            data: rows.map((r) => [r.measured.median, r.predicted.median]),
          })),
        ],
      },
    }),
  }).element;
}

function rowsTable(doc) {
  const columns = [];
  if (doc.rows.some((r) => r.what)) {
    columns.push({ label: 'what', value: (r) => what(r), wide: true });
    columns.push({ label: 'case', value: (r) => r.case });
  } else {
    columns.push({ label: 'run', value: (r) => r.case });
    columns.push({ label: 'stage', value: (r) => r.stage });
  }
  columns.push({ label: 'role', value: (r) => r.role, show: (r) => h('span', {}, chip(roleColours[r.role]), r.role, r.stable ? '' : ' (unstable)') });
  columns.push({ label: 'measured', number: true, value: (r) => r.measured.median, show: (r) => number(r.measured.median, r.unit) });
  columns.push({ label: 'predicted', number: true, value: (r) => r.predicted.median, show: (r) => number(r.predicted.median, r.unit) });
  if (doc.rows.some(intervalOf))
    columns.push({ label: '90 % interval', number: true, value: (r) => (intervalOf(r) ? intervalOf(r)[1] - intervalOf(r)[0] : null), show: (r) => (intervalOf(r) ? `${number(intervalOf(r)[0])} to ${number(intervalOf(r)[1], r.unit)}` : '–') });
  const error = columns.length;
  columns.push({ label: 'error', number: true, value: (r) => Math.abs(r.error), show: (r) => h('span', { class: Math.abs(r.error) > 0.15 ? 'miss' : null }, percent(r.error, true)) });
  columns.push({ label: 'why it misses', wide: true, value: (r) => r.why ?? '', show: (r) => r.why ?? (Math.abs(r.error) > 0.15 ? (r.stable ? 'not explained yet' : 'unstable: the measurement has no one median') : '') });
  columns.push({ label: 'baseline', number: true, value: (r) => (known(r.baseline_error) ? Math.abs(r.baseline_error) : null), show: (r) => percent(r.baseline_error, true) });
  return table(`Rows of ${nameOf(doc)}, worst first`, columns, doc.rows, [error, true]);
}

/** Of the system's parameters, as any of the files tells it. */
export const provenanceOf = (data, doc) =>
  [doc, ...data.runs, ...data.sweeps].find((d) => d.system && d.system === doc.system && d.provenance)?.provenance.parameters;

export function section(data) {
  if (data.validations.length === 0) return null;
  return h(
    'section',
    { id: 'trust' },
    h('h2', {}, 'Predicted against measured'),
    data.validations.map((doc) => {
      const s = doc.summary;
      const inside = coverage(doc);
      const facts = [
        ['rows that were predicted', count(s.rows)],
        ['half of them miss by less than', percent(s.median_abs_error)],
        ['one in ten by more than', percent(s.p90_abs_error)],
        s.worst?.case ? ['worst', `${percent(s.worst.error, true)}, ${s.worst.case} ${s.worst.stage}`] : null,
        inside ? ['measured medians within the 90 % interval', `${percent(inside.within / inside.rows)} of ${count(inside.rows)}`] : null,
        s.unstable?.rows ? ['unstable rows, left out', `${count(s.unstable.rows)}, ${count(s.unstable.within)} of them within the measured p10 to p90`] : null,
        doc.not_covered?.length ? ['published cells that nothing predicts yet', count(doc.not_covered.length)] : null,
      ].filter(Boolean);
      return h(
        'article',
        {},
        h('h3', {}, doc.capture ? `${nameOf(doc)} on ${doc.system}` : nameOf(doc)),
        h('dl', { class: 'facts' }, facts.map(([term, text]) => h('div', {}, h('dt', {}, term), h('dd', {}, text)))),
        provenanceOf(data, doc) ? evidence.line({ counts: provenanceOf(data, doc), of: `parameters of ${doc.system}` }) : null,
        h('div', { class: 'pair narrow-wide' }, scatter(doc), rowsTable(doc)),
        doc.tables?.length ? h('details', {}, h('summary', {}, 'Where the published values are from'), h('ul', {}, doc.tables.map((t) => h('li', {}, `${t.table}: ${t.title}. ${t.source}`)))) : null,
      );
    }),
  );
}
