// Latency by size, a line a mode: from sweeps over a size and from messages of several sizes.
import { curves, levels } from './curves.js';
import { choice, h } from './dom.js';
import { metric } from './format.js';
import * as evidence from './evidence.js';
import { allOf } from './messages.js';
import { lineSets } from './sweeps.js';

const kSize = 'work.bytes';

export function section(data) {
  const parts = [];
  for (const sweep of data.sweeps) {
    const sizes = sweep.points.parameters[kSize];
    if (sweep.mode !== 'grid' || !sizes || levels(sizes).length < 3) continue;
    const metrics = sweep.metrics.filter((m) => !m.startsWith('stage.'));
    let y = metrics.includes(sweep.target) ? sweep.target : metrics[0];
    const place = h('div');
    let drawn = null;
    const fill = () => {
      drawn?.remove();
      drawn = curves({
        title: `${metric(y).name} by message size: ${sweep.study}`,
        note: sweep.question,
        x: kSize,
        y,
        series: lineSets(sweep, kSize, y),
      });
      place.replaceChildren(...[drawn.element, evidence.line({ counts: sweep.provenance?.parameters, of: 'parameters of the base system' })].filter(Boolean));
    };
    fill();
    parts.push(
      h('article', {}, h('div', { class: 'controls' }, choice('Metric', metrics.map((m) => [m, metric(m).name]), y, (v) => ((y = v), fill()))), place),
    );
  }
  for (const doc of data.runs) {
    const rows = doc.comparison ?? [];
    if (new Set(rows.map((r) => r.bytes)).size < 2) continue;
    parts.push(
      h(
        'article',
        {},
        curves({
          title: `Message size and way of submitting on ${doc.system}`,
          note: `Median of ${[...new Set(rows.map((r) => r.what))].join(', ')}.`,
          x: kSize,
          y: { name: 'median', unit: 'ns' },
          series: [...new Set(rows.map((r) => r.protocol))].map((protocol) => ({
            name: protocol,
            points: rows.filter((r) => r.protocol === protocol && r.bytes > 0).sort((a, b) => a.bytes - b.bytes).map((r) => [r.bytes, r.median_ns]),
          })),
        }).element,
        evidence.line({ counts: doc.provenance?.parameters, of: 'parameters of the system' }),
      ),
    );
  }
  const several = allOf(data).filter((r) => r.by_size.length > 1);
  if (several.length > 0)
    parts.push(
      h(
        'article',
        {},
        curves({
          title: 'End to end by message size, of the messages given',
          note: 'Median of all messages of that size in the run.',
          x: kSize,
          y: { name: 'end to end, median', unit: 'ns' },
          series: several.map((r) => ({ name: r.name, points: r.by_size.map((s) => [s.bytes, s.median_ns, s.p10_ns, s.p90_ns]) })),
        }).element,
      ),
    );
  return parts.length === 0 ? null : h('section', { id: 'size' }, h('h2', {}, 'Latency by size'), parts);
}

