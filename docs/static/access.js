// What the theme leaves out for who reads with keys or a screen reader.
document.addEventListener("DOMContentLoaded", () => {
  const set = (selector, name, value) =>
    document.querySelectorAll(selector).forEach((each) => each.setAttribute(name, value));
  set('[role="heading"]:not([aria-level])', "aria-level", "2");
  set(".sidebar-drawer", "aria-label", "All pages");
  set(".toc-drawer", "aria-label", "On this page");
  set("pre, .table-wrapper", "tabindex", "0");
  // Markdown needs a head for every column, and some tables end with a free remark.
  for (const head of document.querySelectorAll("th"))
    if (!head.textContent.trim()) head.textContent = "remark";
});
