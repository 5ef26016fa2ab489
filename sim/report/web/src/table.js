import { h } from './dom.js';

/**
 * A table that its reader can sort. columns: {label, value(row), show(row)?, number?, wide?}; show
 * gives text or an element, value what is sorted by. sort: [column, descending] at first.
 */
export function table(caption, columns, rows, sort = null) {
  let [by, down] = sort ?? [-1, false];
  const body = h('tbody');
  const heads = columns.map((column, i) =>
    h(
      'th',
      { scope: 'col', class: column.number ? 'number' : null },
      h(
        'button',
        {
          type: 'button',
          onclick: () => {
            down = by === i ? !down : Boolean(column.number);
            by = i;
            fill();
          },
        },
        column.label,
      ),
    ),
  );
  function fill() {
    const sorted = [...rows];
    if (by >= 0) {
      const value = columns[by].value;
      sorted.sort((a, b) => {
        const x = value(a);
        const y = value(b);
        if (x === null || x === undefined) return 1;
        if (y === null || y === undefined) return -1;
        const order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), 'en', { numeric: true });
        return down ? -order : order;
      });
    }
    heads.forEach((head, i) =>
      i === by ? head.setAttribute('aria-sort', down ? 'descending' : 'ascending') : head.removeAttribute('aria-sort'),
    );
    body.replaceChildren(
      ...sorted.map((row) =>
        h(
          'tr',
          {},
          columns.map((column, i) =>
            h(
              i === 0 ? 'th' : 'td',
              { scope: i === 0 ? 'row' : null, class: [column.number ? 'number' : '', column.wide ? 'wide' : ''].join(' ').trim() || null },
              column.show ? column.show(row) : String(column.value(row) ?? '–'),
            ),
          ),
        ),
      ),
    );
  }
  fill();
  return h(
    'div',
    { class: 'table', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', {}, h('caption', {}, caption), h('thead', {}, h('tr', {}, heads)), body),
  );
}
