// What a number rests on: by weight where a study varied the parameters one at a time, else how many
// parameters are of which class, which says less and is labelled so.
import { chip, h } from './dom.js';
import { count, percent } from './format.js';
import { evidenceClasses, evidenceColours } from './palette.js';

function bar(parts, total) {
  return h(
    'span',
    { class: 'evidence', 'aria-hidden': 'true' },
    parts.map(([name, value]) =>
      h('span', { style: `width:${(100 * value) / total}%;background:${evidenceColours[name]}` }),
    ),
  );
}

const partsOf = (shares) => evidenceClasses.filter((c) => shares?.[c] > 0).map((c) => [c, shares[c]]);
const sum = (parts) => parts.reduce((total, [, value]) => total + value, 0);

/** A bar with its words: weights {class: share}. */
export function weights(shares) {
  const parts = partsOf(shares);
  if (parts.length === 0) return null;
  const words = parts.map(([name, value]) => `${name} ${percent(value)}`).join(', ');
  return h('span', { class: 'rests', title: words }, bar(parts, sum(parts)), h('span', { class: 'words' }, words));
}

/** For a table's cell: the bar, and the class that weighs most. */
export function weightsShort(shares) {
  const parts = partsOf(shares);
  if (parts.length === 0) return '–';
  const words = parts.map(([name, value]) => `${name} ${percent(value)}`).join(', ');
  const [name, value] = [...parts].sort((a, b) => b[1] - a[1])[0];
  return h(
    'span',
    { class: 'rests short', title: words },
    bar(parts, sum(parts)),
    h('span', { 'aria-hidden': 'true' }, `${name} ${percent(value)}`),
    h('span', { class: 'hidden' }, words),
  );
}

/** The same of counts {class: how many}. */
export function counts(classes, of) {
  const parts = partsOf(classes);
  if (parts.length === 0) return null;
  const words = parts.map(([name, value]) => `${count(value)} ${name}`).join(', ');
  return h(
    'span',
    { class: 'rests' },
    bar(parts, sum(parts)),
    h('span', { class: 'words' }, `${count(sum(parts))} ${of}: ${words}`),
  );
}

/** The line under a chart or a number. */
export function line(source) {
  const of = source.weights ? weights(source.weights) : counts(source.counts, source.of ?? 'parameters');
  if (of === null) return null;
  return h('p', { class: 'provenance' }, of, source.weights ? ` (what it rests on, by weight: the elasticities of ${source.study})` : ' (what it rests on, by number, not by weight)');
}

export const key = () =>
  h(
    'ul',
    { class: 'key', 'aria-label': 'Classes of evidence' },
    Object.entries({
      measured: 'read off a capture or probe',
      published: 'from a paper or data sheet',
      derived: 'computed from the two',
      fitted: 'by calibration',
      assumed: 'a guess, with its reason',
    }).map(([name, text]) => h('li', {}, chip(evidenceColours[name]), h('b', {}, name), ` ${text}`)),
  );
