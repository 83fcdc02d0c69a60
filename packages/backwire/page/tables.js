/** @file Tables that are filled again at each look. */
/* global document */

/**
 * Fills a table. A column: `title`, `of(row)` for the text, and whether it is a number, a heading of its row, or a state.
 * @param caption what the table is of, for those who cannot see where it stands.
 */
export function fill(table, caption, columns, rows) {
  const empty = document.querySelector(`.empty[data-for="${table.id}"]`);
  if (empty !== null) empty.hidden = rows.length > 0;
  table.hidden = rows.length === 0;
  const head = document.createElement('thead');
  head.append(
    row(
      columns.map(({ title, number }) => {
        const cell = document.createElement('th');
        cell.scope = 'col';
        cell.textContent = title;
        if (number) cell.className = 'number';
        return cell;
      }),
    ),
  );
  const body = document.createElement('tbody');
  body.append(...rows.map((data) => row(columns.map((column) => cellOf(column, data)))));
  const heading = document.createElement('caption');
  heading.className = 'hidden';
  heading.textContent = caption;
  table.replaceChildren(heading, head, body);
}

function row(cells) {
  const element = document.createElement('tr');
  element.append(...cells);
  return element;
}

function cellOf({ of, number, heading, state }, data) {
  const cell = document.createElement(heading ? 'th' : 'td');
  if (heading) cell.scope = 'row';
  if (number) cell.className = 'number';
  const text = of(data);
  if (!state) {
    cell.textContent = text;
    return cell;
  }
  const badge = document.createElement('span');
  badge.className = 'badge';
  badge.dataset.state = text;
  badge.textContent = text;
  cell.append(badge);
  return cell;
}
