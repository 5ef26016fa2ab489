// Lines over a parameter, for sizes and sweeps.
import { axis, figure, ink, legend, tooltip } from './chart.js';
import { h } from './dom.js';
import { bytes, metric, number } from './format.js';
import { lines as colours, styles, symbols } from './palette.js';
import { table } from './table.js';

export const isBytes = (name) => /(^|[._])bytes$/.test(name);
export const shown = (name, value) => (typeof value === 'number' && isBytes(name) ? bytes(value) : typeof value === 'number' ? String(Number(value.toPrecision(6))) : value);

/** Sorted different values; numbers by size, texts as they come. */
export function levels(column) {
  const all = [...new Set(column)];
  return all.every((v) => typeof v === 'number') ? all.sort((a, b) => a - b) : all;
}

const wide = (values) => values.every((v) => typeof v === 'number' && v > 0) && values.length > 2 && values.at(-1) / values[0] >= 16;

/**
 * title, note; x: the parameter's name; y: a metric's column, or {name, unit}; series: [{name, points: [[x, y, low?, high?]]}].
 */
export function curves({ title, note, x, y, series }) {
  const { name, unit } = typeof y === 'string' ? metric(y) : y;
  const values = levels(series.flatMap((s) => s.points.map((p) => p[0])));
  const numeric = values.every((v) => typeof v === 'number');
  const log = numeric && wide(values);
  const heights = series.flatMap((s) => s.points.map((p) => p[1])).filter((v) => v !== null);
  const logY = heights.every((v) => v > 0) && Math.max(...heights) / Math.min(...heights) > 30;
  const told = (s, p) => `${s.name ? `${s.name}, ` : ''}${x} ${shown(x, p[0])}: ${name} ${number(p[1], unit)}${p[2] !== undefined ? `, p10 to p90 ${number(p[2], unit)} to ${number(p[3], unit)}` : ''}`;
  // Values in logarithmic steps get places of their own, so that each can be named.
  const category = !numeric || (log && values.length <= 24);
  // Rows that the legend will wrap to, by the length of its names.
  const legendRows = (width) => {
    if (series.length < 2) return 0;
    let rows = 1;
    let used = 0;
    for (const s of series) {
      const wide = s.name.length * 7.2 + 44;
      if (used > 0 && used + wide > width - 10) {
        ++rows;
        used = 0;
      }
      used += wide;
    }
    return rows;
  };
  return figure({
    title,
    note,
    label: `${name} over ${x}, ${series.length} ${series.length === 1 ? 'line' : 'lines'}, ${values.length} values.`,
    height: (width) => (width < 560 ? 290 : 330) + 25 * legendRows(width),
    draw: (width) => {
      const every = Math.ceil(values.length / (width / 70));
      return {
        points: series.flatMap((s, n) => s.points.map((p, i) => ({ series: n, index: i, text: told(s, p) }))),
        option: {
          legend: series.length > 1 ? legend() : undefined,
          grid: { left: 62, right: 22, top: 30 + 25 * legendRows(width), bottom: 48, outerBoundsMode: 'none' },
          tooltip: tooltip({ trigger: 'item', formatter: ({ seriesIndex, dataIndex }) => h('div', { class: 'tip' }, told(series[seriesIndex], series[seriesIndex].points[dataIndex])) }),
          xAxis: axis({
            type: category ? 'category' : log ? 'log' : 'value',
            ...(category ? { data: values.map((v) => shown(x, v)), boundaryGap: false } : { min: 'dataMin', max: 'dataMax' }),
            name: x,
            nameLocation: 'middle',
            nameGap: 30,
            splitLine: { show: false },
            axisLabel: category ? { interval: (i) => i % every === 0, hideOverlap: true } : { hideOverlap: true, formatter: (v) => String(Number(v.toPrecision(3))) },
          }),
          yAxis: axis({ type: logY ? 'log' : 'value', ...(logY ? {} : { min: 0 }), name: unit, nameGap: 10, nameTextStyle: { align: 'right', color: ink().soft }, axisLabel: { formatter: (v) => (v >= 1e4 ? `${Number((v / 1e3).toPrecision(3))}k` : String(Number(v.toPrecision(3)))) } }),
          series: series.map((s, n) => ({
            type: 'line',
            name: s.name,
            symbol: symbols[n % symbols.length],
            symbolSize: 8,
            itemStyle: { color: colours[n % colours.length] },
            lineStyle: { color: colours[n % colours.length], width: 2, type: styles[Math.floor(n / colours.length) % styles.length] },
            emphasis: { scale: 1.6, lineStyle: { width: 2 } },
            data: s.points.map((p) => [category ? shown(x, p[0]) : p[0], p[1]]),
          })),
        },
      };
    },
    table: () =>
      table(
        title,
        [
          { label: x, number: numeric, value: (v) => v, show: (v) => shown(x, v) },
          ...series.map((s) => {
            const at = (v) => s.points.find((p) => p[0] === v)?.[1];
            return { label: s.name || `${name}`, number: true, value: at, show: (v) => number(at(v), unit) };
          }),
        ],
        values,
      ),
  });
}
