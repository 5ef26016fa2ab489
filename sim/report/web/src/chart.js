// One chart in its figure: drawn when it comes into view, again when its width or the theme
// changes; to be read by mouse, by keyboard (arrows go from point to point) and as a table.
import * as echarts from 'echarts/core';
import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from 'echarts/charts';
import { GridComponent, LegendComponent, MarkLineComponent, TooltipComponent, VisualMapComponent } from 'echarts/components';
import { SVGRenderer } from 'echarts/renderers';
import { h, newId } from './dom.js';

echarts.use([
  BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart,
  GridComponent, LegendComponent, MarkLineComponent, TooltipComponent, VisualMapComponent, SVGRenderer,
]);

export { echarts };

const all = new Set();

/** The page's colours, as the theme has them now. */
export function ink() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { text: of('--text'), soft: of('--soft'), line: of('--line'), ground: of('--ground'), raised: of('--raised'), accent: of('--accent') };
}

/** Axis and grid as every chart has them. */
export function axis(more = {}) {
  const { soft, line } = ink();
  return {
    nameTextStyle: { color: soft, fontSize: 12 },
    axisLabel: { color: soft, fontSize: 12, ...more.axisLabel },
    axisLine: { lineStyle: { color: line } },
    axisTick: { show: false },
    splitLine: { lineStyle: { color: line, opacity: 0.6 } },
    ...Object.fromEntries(Object.entries(more).filter(([name]) => name !== 'axisLabel')),
  };
}

export function tooltip(more = {}) {
  const { text, line, raised } = ink();
  return {
    confine: true,
    transitionDuration: 0,
    backgroundColor: raised,
    borderColor: line,
    textStyle: { color: text, fontSize: 13 },
    ...more,
  };
}

export function legend(more = {}) {
  const { text, soft } = ink();
  return { type: 'plain', top: 0, left: 0, itemWidth: 18, itemHeight: 9, itemGap: 16, textStyle: { color: text, fontSize: 12 }, inactiveColor: soft, ...more };
}

/**
 * title, note: what it shows; label: the same in a sentence for a screen reader.
 * draw(width): {option, points}; points in reading order: {series, index, text}.
 * height(width): in px. table: an element, or a function that makes one when it is opened.
 */
export function figure({ title, note, label, draw, height, table }) {
  const hint = newId();
  const live = h('p', { class: 'live', 'aria-live': 'polite' });
  const plot = h('div', {
    class: 'plot',
    tabindex: '0',
    role: 'img',
    'aria-roledescription': 'chart',
    'aria-label': label,
    'aria-describedby': hint,
  });
  const element = h(
    'figure',
    {},
    h('figcaption', {}, h('h3', {}, title), note ? h('p', {}, note) : null),
    plot,
    h('p', { class: 'hidden', id: hint }, 'Arrow keys go from point to point; the table below has all numbers.'),
    live,
  );
  let chart = null;
  let points = [];
  let at = -1;
  let drawn = '';

  function redraw(force = false) {
    const width = plot.clientWidth;
    if (width === 0) return;
    const tall = typeof height === 'function' ? height(width) : height;
    const key = `${width}x${tall}`;
    if (!force && key === drawn) return;
    drawn = key;
    plot.style.height = `${tall}px`;
    if (chart === null) {
      chart = echarts.init(plot, null, { renderer: 'svg', width, height: tall });
      // The figure's own label says it better.
      plot.querySelector('svg')?.setAttribute('aria-hidden', 'true');
    }
    chart.resize({ width, height: tall });
    const made = draw(width);
    points = made.points;
    at = -1;
    // The font by its name: ECharts measures texts by it.
    const fontFamily = getComputedStyle(plot).fontFamily;
    chart.setOption({ animation: false, textStyle: { fontFamily }, ...made.option }, { notMerge: true });
    plot.style.minHeight = '0';
    plot.dataset.drawn = 'yes';
  }

  function go(to) {
    if (points.length === 0) return;
    at = Math.max(0, Math.min(points.length - 1, to));
    const point = points[at];
    chart.dispatchAction({ type: 'downplay' });
    chart.dispatchAction({ type: 'highlight', seriesIndex: point.series, dataIndex: point.index });
    chart.dispatchAction({ type: 'showTip', seriesIndex: point.series, dataIndex: point.index });
    live.textContent = point.text;
  }
  function leave() {
    if (chart === null) return;
    chart.dispatchAction({ type: 'downplay' });
    chart.dispatchAction({ type: 'hideTip' });
    live.textContent = '';
  }
  plot.addEventListener('keydown', (event) => {
    const steps = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: points.length - 1 };
    if (event.key in steps) {
      event.preventDefault();
      go(steps[event.key]);
    } else if (event.key === 'Escape') {
      leave();
    }
  });
  plot.addEventListener('blur', leave);

  if (table) {
    const body = h('div');
    const details = h('details', {}, h('summary', {}, 'Table'), body);
    const fill = () => {
      if (body.childElementCount === 0) body.append(typeof table === 'function' ? table() : table);
    };
    details.addEventListener('toggle', fill);
    element.append(details);
  }
  const entry = { plot, redraw };
  all.add(entry);
  seen.observe(plot);
  return {
    element,
    redraw: () => chart !== null && redraw(true),
    remove: () => {
      all.delete(entry);
      seen.unobserve(plot);
      sized.unobserve(plot);
      chart?.dispose();
      element.remove();
    },
  };
}

const entryOf = (plot) => [...all].find((entry) => entry.plot === plot);
const seen = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries)
      if (isIntersecting) {
        seen.unobserve(target);
        entryOf(target)?.redraw(true);
        sized.observe(target);
      }
  },
  { rootMargin: '300px' },
);
const sized = new ResizeObserver((entries) => {
  for (const { target } of entries) entryOf(target)?.redraw();
});

export function redrawAll() {
  for (const entry of all) if (entry.plot.dataset.drawn) entry.redraw(true);
}
// On paper everything is in view.
addEventListener('beforeprint', () => {
  for (const entry of all) entry.redraw(true);
});
