// Where the time goes: the stages of a run, one after the other.
import { axis, figure, ink, tooltip } from './chart.js';
import { chip, choice, h } from './dom.js';
import * as evidence from './evidence.js';
import { count, file, percent, time } from './format.js';
import { isStage, stageColour, stagePlace } from './palette.js';
import { weightsOf } from './sweeps.js';
import { table } from './table.js';

/** Every run of every file, and each file's total where it has several. */
export function allRuns(data) {
  return data.runs.flatMap((doc) => {
    const of = (run, name) => ({
      name: data.runs.length > 1 ? `${file(doc.file)}: ${name}` : name,
      doc,
      ...run,
    });
    const runs = doc.runs.filter((r) => r.messages > 0).map((r) => of(r, r.run));
    return runs.length > 1 ? [...runs, of(doc.total, 'all runs together')] : runs;
  });
}

export const stagesOf = (run) => run.stages.filter((s) => isStage(s.stage) && s.stage !== 'completion');
export const wholeOf = (run, name = 'end_to_end') => run.stages.find((s) => s.stage === name);

/**
 * What a stage of the run rests on: by weight where a study of the same system and protocol varied
 * the parameters one at a time, else the system's parameters by number.
 */
export function restsOn(data, run, stage = 'end_to_end') {
  for (const sweep of data.sweeps) {
    const fits = sweep.system === run.doc.system && (run.run === sweep.protocol || (run.doc.protocols?.length === 1 && run.doc.protocols[0] === sweep.protocol));
    if (!fits) continue;
    const weights = weightsOf(sweep, stage === 'end_to_end' ? 'end_to_end_median_ns' : `stage.${stage}_median_ns`);
    if (weights) return { weights, study: sweep.study };
  }
  return { counts: run.doc.provenance?.parameters, of: 'parameters of the system' };
}

export function stageTip(stage, lines) {
  return h('div', { class: 'tip' }, h('p', {}, chip(stageColour(stage)), h('b', {}, stage)), lines.map((l) => h('p', {}, l)));
}

function described(s) {
  const spread = s.p10_ns === undefined ? `p90 ${time(s.p90_ns)}` : `p10 to p90 ${time(s.p10_ns)} to ${time(s.p90_ns)}`;
  const lines = [`median ${time(s.median_ns)}`, spread];
  if (s.interval_ns) lines.push(`90 % interval of the median ${time(s.interval_ns[0])} to ${time(s.interval_ns[1])}`);
  if (s.share) lines.push(`${percent(s.share)} of end to end`);
  return lines;
}

function waterfall(data, run, other) {
  const names = stagesOf(run).map((s) => s.stage);
  if (other)
    for (const s of stagesOf(other)) if (!names.includes(s.stage)) names.push(s.stage);
  const whole = 'end_to_end';
  const rowsOf = (r) => {
    let from = 0;
    return [...names, whole].map((name) => {
      const s = r.stages.find((row) => row.stage === name);
      if (!s) return { stage: name, from, missing: true, median_ns: 0 };
      if (name === whole) return { ...s, from: 0 };
      const row = { ...s, from };
      from += s.median_ns;
      return row;
    });
  };
  const rows = rowsOf(run);
  const others = other ? rowsOf(other) : [];
  const bars = (list, part, faded) => ({
    type: 'custom',
    name: faded ? other.name : run.name,
    encode: { x: [1, 2, 3, 4], y: 0 },
    data: list.map((r, i) => [i, r.from, r.from + r.median_ns, r.from + (r.p10_ns ?? r.median_ns), r.from + r.p90_ns]),
    renderItem: (params, api) => {
      const row = list[params.dataIndex];
      if (row.missing) return null;
      const [x0, y] = api.coord([api.value(1), api.value(0)]);
      const [x1] = api.coord([api.value(2), api.value(0)]);
      const band = api.size([0, 1])[1];
      const tall = Math.max(5, band * (other ? 0.34 : 0.62));
      const top = y - (other ? (part === 0 ? tall + 1 : -1) : tall / 2);
      const middle = top + tall / 2;
      const low = api.coord([api.value(3), 0])[0];
      const high = api.coord([api.value(4), 0])[0];
      const { text, ground } = ink();
      const stroke = { stroke: text, lineWidth: 1.2, opacity: 0.75 };
      const cap = tall * 0.3;
      const line = (x, y1, xx, yy) => ({ type: 'line', shape: { x1: x, y1, x2: xx, y2: yy }, style: stroke });
      const whisker = high - low >= 1.5;
      return {
        type: 'group',
        children: [
          // Something to hover over where a stage is short.
          { type: 'rect', shape: { x: Math.min(x0, x1 - 4) - 4, y: top - 2, width: Math.max(12, x1 - x0 + 8), height: tall + 4 }, style: { fill: ground, opacity: 0.001 } },
          { type: 'rect', shape: { x: x0, y: top, width: Math.max(1.5, x1 - x0), height: tall, r: 2 }, style: { fill: stageColour(row.stage), opacity: faded ? 0.55 : 1 }, emphasis: { style: { stroke: text, lineWidth: 1.5 } } },
          ...(whisker ? [line(low, middle, high, middle), line(low, middle - cap, low, middle + cap), line(high, middle - cap, high, middle + cap)] : []),
        ],
      };
    },
  });
  const tip = ({ seriesIndex, dataIndex }) => {
    const mine = rows[dataIndex];
    const lines = described(seriesIndex === 0 || !other ? mine : others[dataIndex]);
    if (other) {
      const delta = others[dataIndex].median_ns - mine.median_ns;
      lines.unshift(seriesIndex === 0 ? run.name : other.name);
      lines.push(`${other.name} less ${run.name}: ${delta > 0 ? '+' : ''}${time(delta)}`);
    }
    return stageTip(mine.stage, lines);
  };
  const most = Math.max(...[...rows, ...others].map((r) => r.from + (r.p90_ns ?? 0)));
  const points = rows.flatMap((r, i) => {
    const list = r.missing ? [] : [{ series: 0, index: i, text: `${r.stage}: ${described(r).join(', ')}` }];
    if (other && !others[i].missing) list.push({ series: 1, index: i, text: `${other.name}, ${r.stage}: ${described(others[i]).join(', ')}` });
    return list;
  });
  const end = wholeOf(run);
  return figure({
    title: `One message, stage by stage: ${run.name}`,
    note: `Medians of ${count(run.messages)} messages, placed end to end; whiskers from p10 to p90. Medians need not add up: they sum to ${time(rows.at(-2)?.from + rows.at(-2)?.median_ns || 0)}, the median end to end is ${time(end?.median_ns)}.`,
    label: `Waterfall of the stages of ${run.name}: ${names.length} stages, end to end ${time(end?.median_ns)}. Longest: ${longest(run).slice(0, 3).map((s) => `${s.stage} ${time(s.median_ns)}`).join(', ')}.`,
    height: () => 62 + (names.length + 1) * (other ? 26 : 22),
    draw: (width) => ({
      points,
      option: {
        grid: { left: width < 560 ? 112 : 150, right: width < 560 ? 12 : 84, top: 8, bottom: 46, outerBoundsMode: 'none' },
        tooltip: tooltip({ trigger: 'item', formatter: tip }),
        xAxis: axis({ type: 'value', min: 0, max: most, name: 'ns since the message began', nameLocation: 'middle', nameGap: 28, axisLabel: { hideOverlap: true, showMaxLabel: false } }),
        yAxis: axis({ type: 'category', inverse: true, data: [...names, whole], axisLabel: { color: ink().text, interval: 0, fontSize: width < 560 ? 11 : 12 }, splitLine: { show: false } }),
        series: [
          bars(rows, 0, false),
          ...(other ? [bars(others, 1, true)] : []),
          ...(width < 560
            ? []
            : [{
                type: 'scatter',
                silent: true,
                symbolSize: 0,
                tooltip: { show: false },
                data: rows.map((r, i) => ({
                  value: [Math.max(r.from + r.median_ns, r.from + (r.p90_ns ?? 0), ...(other ? [others[i].from + (others[i].p90_ns ?? 0)] : [])), i],
                  label: { show: !r.missing, position: 'right', distance: 6, color: ink().text, fontSize: 12, formatter: time(r.median_ns) },
                })),
              }]),
        ],
      },
    }),
    table: () => stageTable(data, run, other),
  });
}

export const longest = (run) => stagesOf(run).sort((a, b) => (b.share ?? 0) - (a.share ?? 0));

function stageTable(data, run, other) {
  const rows = run.stages;
  const rests = (r) => restsOn(data, run, r.stage).weights;
  const weighed = rows.some(rests);
  const of = (name) => other?.stages.find((s) => s.stage === name);
  const columns = [
    { label: 'stage', value: (r) => rows.indexOf(r), show: (r) => h('span', {}, chip(stageColour(r.stage)), r.stage) },
    { label: 'where', value: (r) => stagePlace(r.stage) },
    { label: 'messages', number: true, value: (r) => r.count, show: (r) => count(r.count) },
    ...['p10', 'median', 'p90', 'p99'].map((q) => ({ label: q, number: true, value: (r) => r[`${q}_ns`], show: (r) => time(r[`${q}_ns`]) })),
    { label: 'share', number: true, value: (r) => r.share, show: (r) => percent(r.share) },
  ];
  if (rows.some((r) => r.interval_ns))
    columns.push({ label: '90 % interval', number: true, value: (r) => (r.interval_ns ? r.interval_ns[1] - r.interval_ns[0] : null), show: (r) => (r.interval_ns ? `${time(r.interval_ns[0])} to ${time(r.interval_ns[1])}` : '–') });
  if (other) columns.push({ label: `median in ${other.name}`, number: true, value: (r) => of(r.stage)?.median_ns, show: (r) => time(of(r.stage)?.median_ns) });
  if (weighed) columns.push({ label: 'rests on', value: (r) => rests(r)?.assumed ?? 0, show: (r) => evidence.weightsShort(rests(r)) });
  return table(`Stages of ${run.name}`, columns, rows, [0, false]);
}

function operations(run) {
  if (!run.operations?.length) return null;
  return h(
    'details',
    {},
    h('summary', {}, 'What a caller times: operations from call to return'),
    table(
      `Operations of ${run.name}`,
      [
        { label: 'operation', value: (r) => r.operation },
        { label: 'count', number: true, value: (r) => r.count, show: (r) => count(r.count) },
        ...['median', 'p90', 'p99'].map((q) => ({ label: q, number: true, value: (r) => r[`${q}_ns`], show: (r) => time(r[`${q}_ns`]) })),
      ],
      run.operations,
    ),
  );
}

function counters(doc) {
  if (!doc.counters?.length) return null;
  return h(
    'details',
    {},
    h('summary', {}, 'Counters of the blocks'),
    table(
      'Counters, whole file',
      [
        { label: 'block', value: (r) => r.block },
        { label: 'counter', value: (r) => r.counter },
        { label: 'value', number: true, value: (r) => r.value, show: (r) => count(r.value) },
        { label: 'unit', value: (r) => r.unit },
      ],
      doc.counters,
    ),
  );
}

export function section(data, chosen, onChoose) {
  const runs = allRuns(data);
  if (runs.length === 0) return null;
  let at = chosen;
  let against = -1;
  const place = h('div');
  let shown = null;
  const names = runs.map((r, i) => [i, r.name]);
  function fill() {
    shown?.remove();
    const run = runs[at];
    shown = waterfall(data, run, against >= 0 && against !== at ? runs[against] : null);
    place.replaceChildren(...[shown.element, evidence.line(restsOn(data, run)), operations(run), counters(run.doc)].filter(Boolean));
  }
  fill();
  const controls =
    runs.length < 2
      ? null
      : h(
          'div',
          { class: 'controls' },
          choice('Run', names, at, (v) => {
            at = Number(v);
            fill();
            onChoose(at);
          }),
          choice('compared with', [[-1, 'nothing'], ...names], -1, (v) => {
            against = Number(v);
            fill();
          }),
        );
  return h('section', { id: 'time' }, h('h2', {}, 'Where the time goes'), controls, place);
}
