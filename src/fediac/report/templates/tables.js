// Tables: a click on a heading sorts by it, a second one the other way round. Numbers
// are sorted by their size; what has none comes last.

const leadingNumber = (text) => parseFloat(text.replaceAll(",", "").replace("<", ""));

function sortBy(heading) {
  const table = heading.closest("table");
  const headings = [...heading.parentNode.children];
  const column = headings.indexOf(heading);
  const isNumber = heading.classList.contains("n");
  const first = "ascending";
  const isUp = heading.getAttribute("aria-sort") !== first;
  for (const each of headings) each.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", isUp ? first : "descending");
  const body = table.tBodies[0];
  const text = (row) => row.cells[column].textContent.trim();
  const order = (one, other) => {
    if (!isNumber) return text(one).localeCompare(text(other), "en") * (isUp ? 1 : -1);
    const [left, right] = [leadingNumber(text(one)), leadingNumber(text(other))];
    if (Number.isNaN(left) || Number.isNaN(right)) {
      return Number.isNaN(left) - Number.isNaN(right);
    }
    return (left - right) * (isUp ? 1 : -1);
  };
  body.append(...[...body.rows].sort(order));
}
