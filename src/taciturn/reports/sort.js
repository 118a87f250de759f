for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("th button").forEach((button, column) => button.addEventListener("click", () => {
    const head = button.parentElement, up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows], text = row => row.cells[column].textContent;
    const number = row => parseFloat(text(row).replace("+", ""));
    rows.sort((a, b) => {
      const x = number(a), y = number(b);
      if (isNaN(x) !== isNaN(y)) return isNaN(x) - isNaN(y); // what has no number is last either way
      const order = isNaN(x) ? text(a).localeCompare(text(b)) : x - y;
      return up ? order : -order;
    });
    table.tBodies[0].append(...rows);
  }));
}
