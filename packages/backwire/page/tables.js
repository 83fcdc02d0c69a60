/** @file Tables that are filled again at each look; what stays is changed in place, so that it can be read, marked and copied. */
/* global document */

/**
 * Fills a table. A column: `title`, `of(row)` for the text, and whether it is a number, a heading of its row, or a state.
 * @param caption what the table is of, for those who cannot see where it stands.
 */
export function fill(table, caption, columns, rows) {
  const empty = document.querySelector(`.empty[data-for="${table.id}"]`);
  if (empty !== null) empty.hidden = rows.length > 0;
  table.hidden = rows.length === 0;
  // A place to scroll without anything in it is no stop on the way through the page.
  table.parentElement.hidden = table.hidden;
  if (table.tBodies.length === 0) build(table, caption, columns);
  const [body] = table.tBodies;
  while (body.rows.length > rows.length) body.lastElementChild.remove();
  while (body.rows.length < rows.length) body.append(emptyRow(columns));
  rows.forEach((data, i) => columns.forEach((column, j) => write(body.rows[i].cells[j], column, column.of(data))));
}

function build(table, caption, columns) {
  const heading = document.createElement('caption');
  heading.className = 'hidden';
  heading.textContent = caption;
  const row = document.createElement('tr');
  row.append(
    ...columns.map(({ title, number }) => {
      const cell = document.createElement('th');
      cell.scope = 'col';
      cell.textContent = title;
      if (number) cell.className = 'number';
      return cell;
    }),
  );
  const head = document.createElement('thead');
  head.append(row);
  table.replaceChildren(heading, head, document.createElement('tbody'));
}

function emptyRow(columns) {
  const row = document.createElement('tr');
  row.append(
    ...columns.map(({ number, heading, state }) => {
      const cell = document.createElement(heading ? 'th' : 'td');
      if (heading) cell.scope = 'row';
      if (number) cell.className = 'number';
      if (state) {
        const badge = document.createElement('span');
        badge.className = 'badge';
        cell.append(badge);
      }
      return cell;
    }),
  );
  return row;
}

function write(cell, { state }, text) {
  const place = state ? cell.firstChild : cell;
  if (state) place.dataset.state = text;
  if (place.textContent !== text) place.textContent = text;
}
