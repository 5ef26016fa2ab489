// Numbers as people read them, always with their unit.

const kNarrow = '\u202f'; // between number and unit

function digits(value, significant = 3) {
  if (value === 0) return '0';
  const size = Math.abs(value);
  const whole = Math.floor(Math.log10(size)) + 1;
  const decimals = Math.max(0, significant - whole);
  const text = size >= 1e6 || size < 1e-4 ? value.toPrecision(significant) : value.toFixed(decimals);
  return text.replace('-', '\u2212');
}

export function time(ns) {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return '–';
  const size = Math.abs(ns);
  if (size >= 1e7) return digits(ns / 1e6) + kNarrow + 'ms';
  if (size >= 1e4) return digits(ns / 1e3) + kNarrow + 'µs';
  return digits(ns) + kNarrow + 'ns';
}

export function number(value, unit = '') {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (typeof value !== 'number') return String(value);
  if (unit === 'ns') return time(value);
  unit = unit.replace(/^us\b/, 'µs');
  return digits(value) + (unit ? kNarrow + unit : '');
}

export function count(value) {
  return value.toLocaleString('en-GB').replaceAll(',', kNarrow);
}

export function percent(ratio, signed = false) {
  if (ratio === null || ratio === undefined || Number.isNaN(ratio)) return '–';
  const value = 100 * ratio;
  const size = Math.abs(value);
  const text = size.toFixed(size >= 9.95 ? 0 : 1);
  const sign = value < 0 ? '\u2212' : signed ? '+' : '';
  return sign + text + kNarrow + '%';
}

export function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let unit = 0;
  while (value >= 1024 && value % 1024 === 0 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  return value + kNarrow + units[unit];
}

/** "put_completion_median_ns" -> {name: "put completion, median", unit: "ns"} */
export function metric(column) {
  const stage = column.startsWith('stage.');
  const units = { _mmsg_per_s: 'Mmsg/s', _gb_per_s: 'GB/s', _ns: 'ns' };
  let name = column;
  let unit = '';
  for (const [end, text] of Object.entries(units))
    if (name.endsWith(end)) {
      name = name.slice(0, -end.length);
      unit = text;
      break;
    }
  const of = /^(.*)_(median|mean|p10|p90|p99)$/.exec(name);
  if (of) name = `${of[1]}, ${of[2]}`;
  if (!stage) name = name.replaceAll('_', ' ');
  return { name: name.replace(/^stage\./, ''), unit };
}

/** The last part of a path, with what stands before it where that is a sweep's folder. */
export function file(path) {
  const parts = path.split('/').filter((p) => p !== '.');
  const last = parts.at(-1);
  return last === 'results.json' && parts.length > 1 ? parts.at(-2) : last;
}
