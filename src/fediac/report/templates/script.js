// What the page can do beyond being read: hide runs, choose a switch and a way to
// count traffic, and read values out with pointer, finger or keys. The drawings are
// complete without it. Ticks and numbers are written exactly as the Python side does.
"use strict";

(() => {
  const { runs, charts } = JSON.parse(document.getElementById("report-data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const hidden = new Set();
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  function make(name, attributes = {}, words = "") {
    const isDrawn = ["g", "line", "text", "circle"].includes(name);
    const element = isDrawn
      ? document.createElementNS(SVG, name)
      : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      element.setAttribute(key, value);
    }
    if (words !== "") element.textContent = words;
    return element;
  }

  // Numbers and scales: twins of number_words.py and scales.py.

  const grouped = (value, decimals) =>
    value.toLocaleString("en-US", {
      minimumFractionDigits: decimals,
      maximumFractionDigits: decimals,
    });
  const short = (value) =>
    Number(value.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 12 });

  function digits(value) {
    if (value === 0) return "0";
    return grouped(value, Math.max(0, 3 - Math.floor(Math.log10(Math.abs(value)))));
  }

  function write(value, kind) {
    if (kind === "percent") return `${grouped(100 * value, 2)}\u00a0%`;
    if (kind === "seconds") return `${digits(value)}\u00a0s`;
    if (kind === "mib") return `${digits(value)}\u00a0MiB`;
    return kind === "whole" ? grouped(value, 0) : digits(value);
  }

  function tick(value, kind) {
    if (kind === "percent") return `${short(100 * value)}\u00a0%`;
    const size = Math.abs(value);
    if (size >= 1e9) return `${short(value / 1e9)} G`;
    if (size >= 1e6) return `${short(value / 1e6)} M`;
    return size >= 1e4 ? `${short(value / 1e3)} k` : short(value);
  }

  function share(axis, value) {
    const on = axis.log ? Math.log : (number) => number;
    return (on(value) - on(axis.low)) / (on(axis.high) - on(axis.low));
  }

  function step(span) {
    const rough = span / 6;
    const power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 2.5, 5, 10].map((each) => each * power)
      .find((each) => rough <= each * (1 + 1e-9));
  }

  function ticks(low, high, size) {
    const found = [];
    const last = Math.floor(high / size + 1e-9);
    for (let n = Math.ceil(low / size - 1e-9); n <= last; n += 1) found.push(n * size);
    return found;
  }

  function logTicks(low, high) {
    const steps = high / low >= 1e3 ? [1] : [1, 2, 5];
    const found = [];
    const first = Math.floor(Math.log10(low));
    const last = Math.ceil(Math.log10(high));
    const every = Math.ceil((last - first) / 8) || 1;
    for (let power = first; power <= last; power += every) {
      found.push(...steps.map((each) => each * 10 ** power));
    }
    const inside = found.filter((each) => low <= each && each <= high);
    return inside.length < 2 ? ticks(low, high, step(high - low)) : inside;
  }

  // An axis for the values of the runs that are shown, or null to leave it alone.
  function fit(axis, values) {
    if (axis.grows === "fixed" || values.length === 0) return null;
    let low = values.reduce((least, each) => Math.min(least, each));
    let high = values.reduce((most, each) => Math.max(most, each));
    if (axis.grows === "log") {
      if (low === high) [low, high] = [low / 2, high * 2];
      return { ...axis, low, high, ticks: logTicks(low, high) };
    }
    if (axis.grows === "zero") {
      high = high || 1;
      return { ...axis, low: 0, high, ticks: ticks(0, high, step(high)) };
    }
    if (low === high) {
      [low, high] = low ? [low - 0.1 * Math.abs(low), high + 0.1 * Math.abs(high)] : [0, 1];
    }
    const size = step(high - low);
    low = Math.floor(low / size + 1e-9) * size;
    high = Math.ceil(high / size - 1e-9) * size;
    return { ...axis, low, high, ticks: ticks(low, high, size) };
  }

  const place = (value) => `${100 * value}%`;
  // What is too high for an axis is at its edge, as Python draws it.
  const down = (axis, value) => place(Math.max(0, 1 - share(axis, value)));

  function drawTicksX(group, axis, hasText) {
    group.replaceChildren();
    for (const value of axis.ticks) {
      const x = place(share(axis, value));
      group.append(make("line", { x1: x, x2: x, y1: 0, y2: "100%", class: "grid" }));
      if (!hasText) continue;
      const at = { x, y: "100%", dy: 17, class: "tick" };
      group.append(make("text", at, tick(value, axis.kind)));
    }
  }

  function drawTicksY(group, axis) {
    group.replaceChildren();
    for (const value of axis.ticks) {
      const y = down(axis, value);
      group.append(make("line", { x1: 0, x2: "100%", y1: y, y2: y, class: "grid" }));
      const at = { x: 0, dx: -7, y, dy: 4, class: "tick end" };
      group.append(make("text", at, tick(value, axis.kind)));
    }
  }

  // Charts with lines

  class LineChart {
    constructor(plot, data) {
      Object.assign(this, { plot, data, x: data.x, y: data.y, index: -1 });
      this.svg = plot.querySelector("svg");
      this.cursor = plot.querySelector(".cursor");
      this.readout = make("div", { class: "readout", role: "status", hidden: "" });
      plot.append(this.readout);
      plot.tabIndex = 0;
      plot.setAttribute("role", "group");
      const name = plot.closest("figure").querySelector("h3").textContent;
      plot.setAttribute("aria-label", `${name}: arrow keys read values`);
      plot.addEventListener("pointermove", (event) => this.point(event));
      plot.addEventListener("pointerdown", (event) => this.point(event));
      plot.addEventListener("pointerleave", (event) => {
        if (event.pointerType === "mouse") this.clear();
      });
      plot.addEventListener("keydown", (event) => this.press(event));
      plot.addEventListener("blur", () => this.clear());
    }

    get shown() {
      return this.data.series.filter((each) => !hidden.has(each.run));
    }

    rescale() {
      this.clear();
      const shown = this.shown;
      const values = (key) => shown.flatMap((each) => each[key]);
      this.x = fit(this.data.x, values("x")) ?? this.data.x;
      this.y = fit(this.data.y, shown.length ? [...values("y"), ...this.data.levels] : [])
        ?? this.data.y;
      if (this.x.ticks) drawTicksX(this.svg.querySelector(".ticks-x"), this.x, true);
      if (this.y.ticks) drawTicksY(this.svg.querySelector(".ticks-y"), this.y);
      const left = share(this.data.x, this.x.low);
      const right = share(this.data.x, this.x.high);
      const bottom = share(this.data.y, this.y.low);
      const top = share(this.data.y, this.y.high);
      const box = [left, 1 - top, right - left, top - bottom].map((each) => 1000 * each);
      for (const lines of all(".lines", this.svg)) lines.setAttribute("viewBox", box.join(" "));
      this.moveMarkers();
    }

    moveMarkers() {
      for (const each of this.data.series) {
        const group = this.svg.querySelector(`.series[data-run="${each.run}"]`);
        for (const mark of all("[data-point]", group)) {
          const [x, y] = mark.localName === "use" ? ["x", "y"] : ["cx", "cy"];
          mark.setAttribute(x, place(share(this.x, each.x[mark.dataset.point])));
          mark.setAttribute(y, down(this.y, each.y[mark.dataset.point]));
        }
      }
      for (const level of all("[data-y]", this.svg)) {
        const y = down(this.y, Number(level.dataset.y));
        const [line, name] = level.children;
        line.setAttribute("y1", y);
        line.setAttribute("y2", y);
        name.setAttribute("y", y);
      }
    }

    get stops() {
      return [...new Set(this.shown.flatMap((each) => each.x))].sort((a, b) => a - b);
    }

    point(event) {
      const box = this.svg.getBoundingClientRect();
      const at = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      const distance = (value) => Math.abs(share(this.x, value) - at);
      const stops = this.stops;
      if (stops.length === 0) return;
      const near = stops.reduce((best, each, index) =>
        distance(each) < distance(stops[best]) ? index : best, 0);
      this.show(stops, near);
    }

    press(event) {
      const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
      const stops = this.stops;
      if (event.key === "Escape") return this.clear();
      if (stops.length === 0) return undefined;
      let index = this.index + (moves[event.key] ?? 0);
      if (event.key === "Home") index = 0;
      else if (event.key === "End") index = stops.length - 1;
      else if (!(event.key in moves)) return undefined;
      event.preventDefault();
      return this.show(stops, Math.min(stops.length - 1, Math.max(0, index)));
    }

    // At a place each run shows its last round until then.
    show(stops, index) {
      this.index = index;
      const at = stops[index];
      const x = place(share(this.x, at));
      this.cursor.replaceChildren(make("line", { x1: x, x2: x, y1: 0, y2: "100%" }));
      const isRounds = this.data.x.kind === "whole";
      const heading = isRounds ? `round ${write(at, "whole")}` : write(at, this.data.x.kind);
      this.readout.replaceChildren(make("b", {}, heading));
      for (const each of this.shown) {
        const last = each.x.findLastIndex((value) => value <= at);
        const hasValue = last >= 0 && !(isRounds && each.x[last] !== at);
        const value = hasValue ? write(each.y[last], this.data.y.kind) : "–";
        this.addLine(each, hasValue ? last : -1, value, isRounds);
      }
      this.readout.hidden = false;
      this.moveReadout(share(this.x, at));
    }

    addLine(series, index, value, isRounds) {
      const { label, look } = runs[series.run];
      const line = make("span", { class: look });
      const numbers = make("span", {}, "");
      if (index >= 0 && !isRounds) {
        numbers.append(make("small", {}, `round ${series.rounds[index]}`));
      }
      numbers.append(make("em", {}, value));
      line.append(make("i", {}, label), numbers);
      this.readout.append(line);
      if (index < 0) return;
      const cx = place(share(this.x, series.x[index]));
      const cy = down(this.y, series.y[index]);
      this.cursor.append(make("circle", { cx, cy, r: 4.5, class: look }));
    }

    moveReadout(at) {
      const isLeft = at > 0.5;
      const space = this.svg.getBoundingClientRect().width * (isLeft ? 1 - at : at);
      const margin = isLeft ? 14 : 46;
      this.readout.style[isLeft ? "right" : "left"] = `${margin + space + 14}px`;
      this.readout.style[isLeft ? "left" : "right"] = "auto";
    }

    clear() {
      this.index = -1;
      this.cursor.replaceChildren();
      this.readout.hidden = true;
    }
  }

  // Charts with rows

  class BarChart {
    constructor(plot, data) {
      Object.assign(this, { plot, data, x: data.x });
    }

    get lengths() {
      const shown = Object.entries(this.data.largest).filter(([run]) => !hidden.has(Number(run)));
      return shown.map(([, length]) => length);
    }

    rescale() {
      const axis = fit(this.data.x, this.lengths);
      if (axis === null) return;
      this.x = axis;
      for (const group of all(".ticks-x", this.plot)) {
        drawTicksX(group, axis, group.parentNode.matches(".axis"));
      }
      for (const bars of all(".bars", this.plot)) {
        const height = bars.viewBox.baseVal.height;
        bars.setAttribute("viewBox", `0 0 ${(1000 * axis.high) / this.data.x.high} ${height}`);
      }
    }
  }

  class DotChart extends BarChart {
    constructor(plot, data) {
      super(plot, data);
      const n = Math.max(...data.finish.map((each) => each.rounds.length));
      if (n < 2) return;
      const numbers = [...new Set(data.finish.flatMap((each) => each.rounds))];
      this.stops = numbers.sort((a, b) => a - b);
      const label = make("label", { class: "slider" });
      const last = this.stops.length - 1;
      this.input = make("input", { type: "range", min: 0, max: last, step: 1 });
      this.input.value = last;
      this.output = make("output", {}, "last round");
      this.input.addEventListener("input", () => this.choose());
      label.append(make("span", {}, "round"), this.input, this.output);
      plot.before(label);
    }

    get lengths() {
      const shown = this.data.finish.filter((each) => !hidden.has(each.run));
      return shown.flatMap((each) => each.finish.flat());
    }

    // The slider's last stop is each run's own last round, as in the first drawing.
    choose() {
      const place = Number(this.input.value);
      const isLast = place === this.stops.length - 1;
      this.round = isLast ? null : this.stops[place];
      const name = isLast ? "last round" : `round ${this.round}`;
      this.output.textContent = name;
      this.input.setAttribute("aria-valuetext", name);
      this.rescale();
    }

    rescale() {
      super.rescale();
      for (const each of this.data.finish) {
        const drawing = this.plot.querySelector(`[data-run="${each.run}"]`);
        const until = this.round ?? Infinity;
        const index = each.rounds.findLastIndex((number) => number <= until);
        const isOver = this.round != null && each.rounds.at(-1) < this.round;
        const finish = index < 0 || isOver ? [] : each.finish[index];
        drawing.querySelector(".dots").replaceChildren(...finish.map((value, client) =>
          make("circle", {
            cx: place(share(this.x, value)),
            cy: 44 + 5 * ((client % 3) - 1),
            r: 4.5,
            class: "dot",
          })));
        const last = finish.reduce((most, value) => Math.max(most, value), 0);
        const slowest = `slowest ${finish.length ? write(last, "seconds") : "–"}`;
        drawing.querySelector(".total").textContent = slowest;
        const words = drawing.querySelector("desc");
        words.dataset.last ??= words.textContent;
        const now = `${runs[each.run].label}, round ${this.round}: ${slowest}.`;
        words.textContent = this.round == null ? words.dataset.last : now;
      }
    }
  }

  // The page

  const drawn = all(".plot").map((plot) => {
    const data = charts[plot.dataset.chart];
    if (data.series) return new LineChart(plot, data);
    return data.finish ? new DotChart(plot, data) : new BarChart(plot, data);
  });

  function toggle(button) {
    const run = Number(button.dataset.toggle);
    const isShown = hidden.delete(run);
    if (!isShown) hidden.add(run);
    button.setAttribute("aria-pressed", String(isShown));
    for (const element of all(`figure [data-run="${run}"]`)) {
      element.classList.toggle("off", !isShown);
    }
    for (const chart of drawn) chart.rescale();
  }

  function choose(choice, key) {
    for (const button of all(`[data-choice="${choice}"]`)) {
      button.setAttribute("aria-pressed", String(button.dataset.key === key));
    }
    for (const variant of all(`.variant[data-${choice}]`)) {
      variant.hidden = variant.dataset[choice] !== key;
    }
  }

  document.documentElement.classList.add("js");
  for (const button of all("[data-toggle]")) {
    button.addEventListener("click", () => toggle(button));
  }
  for (const button of all("[data-choice]")) {
    const { choice, key } = button.dataset;
    button.addEventListener("click", () => choose(choice, key));
  }
  for (const choice of ["switch", "view"]) {
    const first = document.querySelector(`[data-choice="${choice}"]`);
    if (first) choose(choice, first.dataset.key);
  }
})();
