// The page: who is in colour, which drawings are seen, and which way tables are sorted.

const drawn = all(".plot").map((plot) => {
  const data = charts[plot.dataset.chart];
  if (data.series) return new LineChart(plot, data);
  if (data.points) return new PointChart(plot, data);
  return data.finish ? new DotChart(plot, data) : new BarChart(plot, data);
});

function rescale() {
  for (const chart of drawn) chart.rescale();
}

function toggle(button) {
  const contender = Number(button.dataset.toggle);
  const isOn = !inColour.delete(contender);
  if (isOn) inColour.add(contender);
  button.setAttribute("aria-pressed", String(isOn));
  for (const element of all(`figure .series[data-contender="${contender}"]`)) {
    element.classList.toggle("faint", !isOn);
    // What is in colour is drawn last, so on top; rows keep their order.
    if (isOn && element.localName === "g") element.parentNode.querySelector(".cursor").before(element);
  }
  rescale();
}

const choices = {
  others(key) {
    chosen.others = key;
    document.documentElement.classList.toggle("hides-others", key === "hidden");
    rescale();
  },
  axis(key) {
    chosen.axis = key;
    rescale();
  },
  switch: (key) => showVariants("switch", key),
  view: (key) => showVariants("view", key),
};

function showVariants(choice, key) {
  for (const variant of all(`.variant[data-${choice}]`)) {
    variant.hidden = variant.dataset[choice] !== key;
  }
  rescale();
}

function choose(choice, key) {
  for (const button of all(`[data-choice="${choice}"]`)) {
    button.setAttribute("aria-pressed", String(button.dataset.key === key));
  }
  choices[choice](key);
}

document.documentElement.classList.add("js");
for (const button of all("[data-toggle]")) {
  button.addEventListener("click", () => toggle(button));
}
for (const button of all("[data-choice]")) {
  const { choice, key } = button.dataset;
  button.addEventListener("click", () => choose(choice, key));
}
for (const choice of Object.keys(choices)) {
  const first = document.querySelector(`[data-choice="${choice}"]`);
  if (first) choose(choice, first.dataset.key);
}
rescale();
for (const button of all(".sort")) {
  button.addEventListener("click", () => sortBy(button.closest("th")));
}
