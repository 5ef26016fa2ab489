// Distributions: of each stage, and over the run.
import { axis, figure, ink, tooltip } from './chart.js';
import { chip, choice, h } from './dom.js';
import { count, file, percent, time } from './format.js';
import { isStage, stageColour } from './palette.js';
import { stageTip } from './runs.js';
import { table } from './table.js';

export function allOf(data) {
  return data.messages.flatMap((doc) =>
    doc.runs.map((run) => ({
      name: data.messages.length > 1 ? `${file(doc.file)}: ${run.run}` : run.run,
      at: doc.probabilities,
      ...run,
    })),
  );
}

function quantile(run, stage, p) {
  let best = 0;
  run.at.forEach((q, i) => {
    if (Math.abs(q - p) < Math.abs(run.at[best] - p)) best = i;
  });
  return stage.quantiles_ns[best];
}

const kStrip = [0.01, 0.1, 0.5, 0.9, 0.99];

function strips(run) {
  const stages = run.stages.filter((s) => isStage(s.stage) && s.stage !== 'completion').concat(run.stages.filter((s) => ['put', 'end_to_end'].includes(s.stage)));
  const rows = stages.map((s) => ({ ...s, q: kStrip.map((p) => quantile(run, s, p)), max: s.quantiles_ns.at(-1) }));
  const lines = (r) => [
    `median ${time(r.q[2])}`,
    `p10 to p90 ${time(r.q[1])} to ${time(r.q[3])}`,
    `p1 to p99 ${time(r.q[0])} to ${time(r.q[4])}`,
    `largest ${time(r.max)}`,
    `${count(r.count)} messages`,
  ];
  return figure({
    title: `Spread of every stage: ${run.name}`,
    note: 'Thin line p1 to p99, thick p10 to p90, notch at the median, ring at the largest. Logarithmic.',
    label: `Distribution of each of ${rows.length} stages of ${run.name}, p1 to p99.`,
    height: () => 62 + rows.length * 22,
    draw: (width) => ({
      points: rows.map((r, i) => ({ series: 0, index: i, text: `${r.stage}: ${lines(r).join(', ')}` })),
      option: {
        grid: { left: width < 560 ? 112 : 150, right: 30, top: 8, bottom: 46, outerBoundsMode: 'none' },
        tooltip: tooltip({ trigger: 'item', formatter: ({ dataIndex }) => stageTip(rows[dataIndex].stage, lines(rows[dataIndex])) }),
        xAxis: axis({ type: 'log', name: 'ns', nameLocation: 'middle', nameGap: 28, axisLabel: { hideOverlap: true } }),
        yAxis: axis({ type: 'category', inverse: true, data: rows.map((r) => r.stage), axisLabel: { color: ink().text, interval: 0, fontSize: width < 560 ? 11 : 12 }, splitLine: { show: false } }),
        series: [
          {
            type: 'custom',
            encode: { x: [1, 2, 3, 4, 5, 6], y: 0 },
            data: rows.map((r, i) => [i, ...r.q.map((v) => Math.max(v, 0.1)), r.max]),
            renderItem: (params, api) => {
              const colour = stageColour(rows[params.dataIndex].stage);
              const x = [1, 2, 3, 4, 5, 6].map((d) => api.coord([api.value(d), api.value(0)])[0]);
              const y = api.coord([api.value(1), api.value(0)])[1];
              const { text, ground } = ink();
              const rect = (a, b, tall, style) => ({ type: 'rect', shape: { x: a, y: y - tall / 2, width: Math.max(2, b - a), height: tall, r: Math.min(2, tall / 2) }, style });
              return {
                type: 'group',
                children: [
                  rect(x[0] - 6, x[5] + 6, 18, { fill: ground, opacity: 0.001 }),
                  rect(x[0], x[4], 2, { fill: colour }),
                  rect(x[1], x[3], 9, { fill: colour }),
                  rect(x[2] - 1.5, x[2] + 1.5, 15, { fill: text }),
                  { type: 'circle', shape: { cx: x[5], cy: y, r: 2.5 }, style: { fill: ground, stroke: colour, lineWidth: 1.2 } },
                ],
              };
            },
          },
        ],
      },
    }),
    table: () =>
      table(
        `Quantiles of ${run.name}`,
        [
          { label: 'stage', value: (r) => rows.indexOf(r), show: (r) => h('span', {}, chip(stageColour(r.stage)), r.stage) },
          { label: 'messages', number: true, value: (r) => r.count, show: (r) => count(r.count) },
          ...kStrip.map((p, i) => ({ label: p === 0.5 ? 'median' : `p${Math.round(100 * p)}`, number: true, value: (r) => r.q[i], show: (r) => time(r.q[i]) })),
          { label: 'largest', number: true, value: (r) => r.max, show: (r) => time(r.max) },
          { label: 'mean', number: true, value: (r) => r.mean_ns, show: (r) => time(r.mean_ns) },
        ],
        rows,
      ),
  });
}

function cumulative(run, name) {
  const s = run.stages.find((x) => x.stage === name);
  const at = run.at;
  const values = s.quantiles_ns.map((v) => Math.max(v, 0.1));
  const log = values.at(-1) / values[0] > 20;
  const told = (i) => `${s.stage}: ${percent(at[i])} of the messages take at most ${time(s.quantiles_ns[i])}`;
  const colour = stageColour(s.stage);
  return figure({
    title: `How many messages take how long: ${s.stage}`,
    note: 'Share of the messages that take at most so long. A step is many messages of one length; a slope, a spread.',
    label: `Cumulative distribution of ${s.stage} of ${run.name}: median ${time(quantile(run, s, 0.5))}, p99 ${time(quantile(run, s, 0.99))}.`,
    height: (width) => (width < 560 ? 250 : 280),
    draw: () => ({
      points: at.map((p, i) => ({ series: 0, index: i, text: told(i) })),
      option: {
        grid: { left: 52, right: 30, top: 12, bottom: 46, outerBoundsMode: 'none' },
        tooltip: tooltip({ trigger: 'item', formatter: ({ dataIndex }) => h('div', { class: 'tip' }, told(dataIndex)) }),
        xAxis: axis({ type: log ? 'log' : 'value', name: 'ns', nameLocation: 'middle', nameGap: 28, min: 'dataMin', max: 'dataMax', axisLabel: { hideOverlap: true, formatter: (v) => String(Number(v.toPrecision(4))) } }),
        yAxis: axis({ type: 'value', min: 0, max: 100, axisLabel: { formatter: '{value} %' } }),
        series: [
          {
            type: 'line',
            data: values.map((v, i) => [v, 100 * at[i]]),
            symbol: 'circle',
            symbolSize: 8,
            showSymbol: true,
            itemStyle: { color: colour, opacity: 0 },
            emphasis: { itemStyle: { opacity: 1 } },
            lineStyle: { color: colour, width: 2 },
          },
        ],
      },
    }),
    table: () =>
      table(
        `Cumulative distribution, ${run.name}`,
        [
          { label: 'share', number: true, value: (i) => at[i], show: (i) => `${Number((100 * at[i]).toFixed(1))} %` },
          { label: s.stage, number: true, value: (i) => s.quantiles_ns[i], show: (i) => time(s.quantiles_ns[i]) },
        ],
        at.map((p, i) => i),
      ),
  });
}

function overTime(run) {
  const { bins, bin_ns: wide } = run.over_time;
  if (bins.length < 3) return null;
  const unit = wide * bins.length > 1e6 ? [1e6, 'ms'] : [1e3, 'µs'];
  const x = (b) => (b[0] + wide / 2) / unit[0];
  const told = (b) => [`median ${time(b[3])}`, `p10 to p90 ${time(b[2])} to ${time(b[4])}`, `largest ${time(b[5])}`, `${count(b[1])} messages`, `begun ${time(b[0])} to ${time(b[0] + wide)} into the run`];
  const colour = stageColour('put');
  return figure({
    title: `End to end over the run: ${run.name}`,
    note: `By when a message began, ${time(wide)} a step: median, and the band from p10 to p90. Warm-up, drift and bursts show here.`,
    label: `End-to-end time over the run of ${run.name}, ${bins.length} steps.`,
    height: (width) => (width < 560 ? 240 : 280),
    draw: () => ({
      points: bins.map((b, i) => ({ series: 2, index: i, text: told(b).join(', ') })),
      option: {
        grid: { left: 60, right: 18, top: 12, bottom: 46, outerBoundsMode: 'none' },
        tooltip: tooltip({ trigger: 'axis', axisPointer: { type: 'line', lineStyle: { color: ink().soft } }, formatter: (list) => h('div', { class: 'tip' }, told(bins[list[0].dataIndex]).map((l) => h('p', {}, l))) }),
        xAxis: axis({ type: 'value', min: 0, max: 'dataMax', name: `${unit[1]} since the run began`, nameLocation: 'middle', nameGap: 28, splitLine: { show: false }, axisLabel: { hideOverlap: true } }),
        yAxis: axis({ type: 'value', min: 0, name: 'ns', axisLabel: { formatter: (v) => (v >= 1e4 ? `${v / 1e3}k` : String(v)) } }),
        series: [
          { type: 'line', stack: 'band', silent: true, symbol: 'none', lineStyle: { opacity: 0 }, data: bins.map((b) => [x(b), b[2]]) },
          { type: 'line', stack: 'band', silent: true, symbol: 'none', lineStyle: { opacity: 0 }, areaStyle: { color: colour, opacity: 0.25 }, data: bins.map((b) => [x(b), b[4] - b[2]]) },
          { type: 'line', symbol: 'circle', symbolSize: 6, showSymbol: bins.length < 12, itemStyle: { color: colour }, lineStyle: { color: colour, width: 1.6 }, data: bins.map((b) => [x(b), b[3]]) },
        ],
      },
    }),
    table: () =>
      table(
        `End to end over the run, ${run.name}`,
        [
          { label: 'from', number: true, value: (b) => b[0], show: (b) => time(b[0]) },
          { label: 'messages', number: true, value: (b) => b[1], show: (b) => count(b[1]) },
          ...['p10', 'median', 'p90', 'largest'].map((label, i) => ({ label, number: true, value: (b) => b[2 + i], show: (b) => time(b[2 + i]) })),
        ],
        bins,
      ),
  });
}

export function section(data) {
  const runs = allOf(data);
  if (runs.length === 0) return null;
  let run = runs[0];
  let stage = 'end_to_end';
  const controls = h('div', { class: 'controls' });
  const place = h('div');
  let shown = [];
  function fill() {
    for (const figureShown of shown) figureShown.remove();
    if (!run.stages.some((s) => s.stage === stage)) stage = 'end_to_end';
    shown = [strips(run), cumulative(run, stage), overTime(run)].filter(Boolean);
    const [first, ...others] = shown.map((s) => s.element);
    place.replaceChildren(first, h('div', { class: 'pair' }, others));
    controls.replaceChildren(
      ...[
        runs.length > 1 ? choice('Run', runs.map((r, i) => [i, r.name]), runs.indexOf(run), (v) => ((run = runs[Number(v)]), fill())) : null,
        choice('Cumulative of', run.stages.map((s) => [s.stage, s.stage]), stage, (v) => ((stage = v), fill())),
      ].filter(Boolean),
    );
  }
  fill();
  return h('section', { id: 'spread' }, h('h2', {}, 'Distributions'), controls, place);
}
