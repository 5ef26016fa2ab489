/** An element: h('p', {class: 'x', onclick: f}, 'text', child, [children]). */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'style') element.style.cssText = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== ''));
  return element;
}

let ids = 0;
export const newId = () => `m${++ids}`;

/** A labelled choice; options: [value, text]. */
export function choice(label, options, value, onchange) {
  const select = h(
    'select',
    { onchange: () => onchange(select.value) },
    options.map(([v, text]) => h('option', { value: v, selected: String(v) === String(value) }, text)),
  );
  return h('label', { class: 'choice' }, h('span', {}, label), select);
}

export const chip = (colour) => h('span', { class: 'chip', style: `background:${colour}`, 'aria-hidden': 'true' });
