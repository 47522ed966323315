// Charts: fitted again to what is shown, and read out with pointer, finger or keys. The
// drawings are complete without it.

const { contenders, charts } = JSON.parse(document.getElementById("report-data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// What the reader chose. Who is not in colour is faint, or hidden if others say so.
const inColour = new Set(
  all('[data-toggle][aria-pressed="true"]').map((key) => Number(key.dataset.toggle)));
const chosen = { others: "faint", axis: "log" };
const isShown = (contender) => inColour.has(contender) || chosen.others === "faint";

const N_READ = 8; // contenders in a readout

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

const place = (value) => `${100 * value}%`;
// What is too high for an axis is at its edge, as Python draws it.
const down = (axis, value) => Math.max(0, 1 - share(axis, value));

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
    const y = place(down(axis, value));
    group.append(make("line", { x1: 0, x2: "100%", y1: y, y2: y, class: "grid" }));
    const at = { x: 0, dx: -7, y, dy: 4, class: "tick end" };
    group.append(make("text", at, tick(value, axis.kind)));
  }
}

// A chart whose values are read out at stops along it, one by one.
class ReadChart {
  constructor(plot, data) {
    Object.assign(this, { plot, data, index: -1 });
    this.svg = plot.querySelector("svg");
    this.cursor = plot.querySelector(".cursor");
    this.readout = make("div", { class: "readout", role: "status", hidden: "" });
    plot.append(this.readout);
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    const name = plot.closest("figure").querySelector("h2, h3").textContent;
    plot.setAttribute("aria-label", `${name}: arrow keys read values`);
    plot.addEventListener("pointermove", (event) => this.point(event));
    plot.addEventListener("pointerdown", (event) => this.point(event));
    plot.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.clear();
    });
    plot.addEventListener("keydown", (event) => this.press(event));
    plot.addEventListener("blur", () => this.clear());
  }

  press(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
    const last = this.stops.length - 1;
    if (event.key === "Escape") return this.clear();
    if (last < 0) return undefined;
    let index = this.index + (moves[event.key] ?? 0);
    if (event.key === "Home") index = 0;
    else if (event.key === "End") index = last;
    else if (!(event.key in moves)) return undefined;
    event.preventDefault();
    return this.show(Math.min(last, Math.max(0, index)));
  }

  // Beside a place given in shares, and always inside the plot.
  moveReadout(x, y) {
    this.readout.hidden = false;
    const outer = this.plot.getBoundingClientRect();
    const inner = this.svg.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.readout;
    const across = inner.left - outer.left + x * inner.width;
    const left = x > 0.5 ? across - width - 14 : across + 14;
    const top = inner.top - outer.top + y * inner.height - height / 2;
    const clamp = (value, most) => `${Math.max(0, Math.min(value, most))}px`;
    this.readout.style.left = clamp(left, outer.width - width);
    this.readout.style.top = clamp(top, outer.height - height);
  }

  clear() {
    this.index = -1;
    this.cursor.replaceChildren();
    this.readout.hidden = true;
  }
}

class LineChart extends ReadChart {
  constructor(plot, data) {
    super(plot, data);
    Object.assign(this, { x: data.x, y: data.y });
    // By number: toggling moves a group to the top.
    this.groups = data.series.map((_, index) =>
      plot.querySelector(`.series[data-line="${index}"]`));
  }

  get shown() {
    return this.data.series.filter((each) => isShown(each.contender));
  }

  rescale() {
    this.clear();
    const { shown } = this;
    const values = (key) => shown.flatMap((each) => each[key]);
    const isLinear = chosen.axis === "linear" && this.data.x.grows === "log";
    const x = isLinear ? { ...this.data.x, grows: "zero" } : this.data.x;
    this.x = fit(x, values("x")) ?? this.data.x;
    this.y = fit(this.data.y, shown.length ? [...values("y"), ...this.data.levels] : [])
      ?? this.data.y;
    if (this.x.ticks) drawTicksX(this.svg.querySelector(".ticks-x"), this.x, true);
    if (this.y.ticks) drawTicksY(this.svg.querySelector(".ticks-y"), this.y);
    for (const [index, each] of this.data.series.entries()) this.draw(this.groups[index], each);
    for (const level of all(".level-group", this.svg)) {
      const y = place(down(this.y, Number(level.dataset.y)));
      const [line, name] = level.children;
      line.setAttribute("y1", y);
      line.setAttribute("y2", y);
      name.setAttribute("y", y);
    }
  }

  draw(group, each) {
    const steps = each.x.map((value, index) => {
      const x = 1000 * share(this.x, value);
      return `${x.toFixed(2)} ${(1000 * down(this.y, each.y[index])).toFixed(2)}`;
    });
    group.querySelector(".line").setAttribute("d", `M${steps.join("L")}`);
    for (const mark of all("[data-point]", group)) {
      const [left, top] = mark.localName === "use" ? ["x", "y"] : ["cx", "cy"];
      mark.setAttribute(left, place(share(this.x, each.x[mark.dataset.point])));
      mark.setAttribute(top, place(down(this.y, each.y[mark.dataset.point])));
    }
  }

  get read() {
    return this.data.series.filter((each) => inColour.has(each.contender));
  }

  get stops() {
    return [...new Set(this.read.flatMap((each) => each.x))].sort((a, b) => a - b);
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const at = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const distance = (value) => Math.abs(share(this.x, value) - at);
    const { stops } = this;
    if (stops.length === 0) return;
    this.show(stops.reduce((best, each, index) =>
      distance(each) < distance(stops[best]) ? index : best, 0));
  }

  // At a place each line shows its last round until then, the highest first.
  show(index) {
    this.index = index;
    const at = this.stops[index];
    const x = place(share(this.x, at));
    this.cursor.replaceChildren(make("line", { x1: x, x2: x, y1: 0, y2: "100%" }));
    const isRounds = this.data.x.kind === "whole";
    const heading = isRounds ? `round ${write(at, "whole")}` : write(at, this.data.x.kind);
    this.readout.replaceChildren(make("b", {}, heading));
    const found = this.readings(at, isRounds);
    for (const each of found.slice(0, N_READ)) this.addLine(each, isRounds);
    if (found.length > N_READ) {
      this.readout.append(make("small", {}, `and ${found.length - N_READ} more`));
    }
    this.moveReadout(share(this.x, at), 0.5);
  }

  // Of each contender the last points of its runs until a place, and their mean.
  readings(at, isRounds) {
    const found = new Map(this.read.map((each) => [each.contender, []]));
    for (const series of this.read) {
      const last = series.x.findLastIndex((value) => value <= at);
      if (last < 0 || (isRounds && series.x[last] !== at)) continue;
      const point = { x: series.x[last], y: series.y[last], round: series.rounds[last] };
      found.get(series.contender).push(point);
    }
    const mean = (points) => points.reduce((sum, each) => sum + each.y, 0) / points.length;
    return [...found]
      .map(([contender, points]) => ({ contender, points, height: points.length ? mean(points) : null }))
      .sort((one, other) => (other.height ?? -Infinity) - (one.height ?? -Infinity) || 0);
  }

  addLine({ contender, points, height }, isRounds) {
    const { label, look } = contenders[contender];
    const line = make("span", { class: look });
    const numbers = make("span");
    if (points.length > 1) numbers.append(make("small", {}, `mean of ${points.length}`));
    else if (points.length && !isRounds) numbers.append(make("small", {}, `round ${points[0].round}`));
    numbers.append(make("em", {}, height === null ? "–" : write(height, this.data.y.kind)));
    line.append(make("i", {}, label), numbers);
    this.readout.append(line);
    for (const each of points) {
      const [cx, cy] = [place(share(this.x, each.x)), place(down(this.y, each.y))];
      this.cursor.append(make("circle", { cx, cy, r: 4.5, class: look }));
    }
  }
}

class PointChart extends ReadChart {
  constructor(plot, data) {
    super(plot, data);
    new ResizeObserver(() => this.placeNames()).observe(this.svg);
  }

  rescale() {
    this.clear();
    this.placeNames();
  }

  groupOf(contender) {
    return this.svg.querySelector(`.point[data-contender="${contender}"]`);
  }

  get stops() {
    const shown = this.data.points.filter((each) => isShown(each.contender));
    const middle = (each) => this.centre(each.contender)[0];
    return shown.sort((one, other) => middle(one) - middle(other));
  }

  // In pixels of the drawing.
  centre(contender) {
    const mark = this.groupOf(contender).querySelector(".spot");
    const box = this.svg.getBoundingClientRect();
    const at = (name) => parseFloat(mark.getAttribute(name)) / 100;
    return [at("x") * box.width, at("y") * box.height];
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const { stops } = this;
    const distance = (each) => {
      const [x, y] = this.centre(each.contender);
      return Math.hypot(event.clientX - box.left - x, event.clientY - box.top - y);
    };
    const nearest = stops.reduce((best, each, index) =>
      best < 0 || distance(each) < distance(stops[best]) ? index : best, -1);
    if (nearest >= 0 && distance(stops[nearest]) < 60) this.show(nearest);
    else this.clear();
  }

  show(index) {
    this.index = index;
    const each = this.stops[index];
    const { label, look } = contenders[each.contender];
    const [x, y] = this.centre(each.contender);
    const { width, height } = this.svg.getBoundingClientRect();
    this.cursor.replaceChildren(make("circle", { cx: x, cy: y, r: 9, class: look }));
    this.readout.replaceChildren(make("b", {}, label));
    for (const words of each.words) this.readout.append(make("div", {}, words));
    this.moveReadout(x / width, y / height);
  }

  // Names go where they cover no point and no other name, and stay inside.
  placeNames() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (width === 0) return;
    const shown = this.data.points.filter((each) => inColour.has(each.contender));
    const taken = this.data.points.filter((each) => isShown(each.contender)).map((each) => {
      const [x, y] = this.centre(each.contender);
      const half = inColour.has(each.contender) ? 7 : 4;
      return { left: x - half, right: x + half, top: y - half, bottom: y + half };
    });
    for (const range of all(".point:not(.faint) .range", this.svg)) {
      const { x, y, width: long, height: tall } = range.getBBox();
      taken.push({ left: x, right: x + long + 1, top: y, bottom: y + tall + 1 });
    }
    const overlap = (one, other) =>
      Math.max(0, Math.min(one.right, other.right) - Math.max(one.left, other.left))
      * Math.max(0, Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top));
    for (const each of shown) {
      const name = this.groupOf(each.contender).querySelector(".point-name");
      const [x, y] = this.centre(each.contender);
      const { width: long, height: tall } = name.getBBox();
      const boxes = [[10, 0], [-10 - long, 0]];
      for (const dy of [-15, 15, -29, 29]) boxes.push([8, dy], [-8 - long, dy], [-long / 2, dy]);
      const tried = boxes.map(([dx, dy]) => {
        const left = Math.max(-38, Math.min(x + dx, width + 12 - long));
        const top = y + dy - tall / 2;
        const box = { left, right: left + long, top, bottom: top + tall };
        const isOut = top < -8 || top + tall > height;
        const covered = taken.reduce((sum, other) => sum + overlap(box, other), 0);
        const cost = covered + (isOut ? 1e4 : 0) + (left < 0 ? 150 : 0) // on the axis' numbers
          + Math.abs(left - x - dx) + Math.abs(dy) / 8;
        return { box, cost };
      });
      const { box } = tried.reduce((best, other) => (other.cost < best.cost ? other : best));
      taken.push(box);
      name.setAttribute("class", "point-name");
      for (const [key, value] of Object.entries({ x: box.left, dx: 0, dy: 0 })) {
        name.setAttribute(key, value);
      }
      name.setAttribute("y", box.bottom - tall / 4);
    }
  }
}

// Charts with rows: only those in colour have one.

class BarChart {
  constructor(plot, data) {
    Object.assign(this, { plot, data, x: data.x });
  }

  get lengths() {
    const shown = Object.entries(this.data.largest).filter(([each]) => inColour.has(Number(each)));
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
    const shown = this.data.finish.filter((each) => inColour.has(each.contender));
    return shown.flatMap((each) => each.finish.flat());
  }

  // The slider's last stop is each run's own last round, as in the first drawing.
  choose() {
    const stop = Number(this.input.value);
    const isLast = stop === this.stops.length - 1;
    this.round = isLast ? null : this.stops[stop];
    const name = isLast ? "last round" : `round ${this.round}`;
    this.output.textContent = name;
    this.input.setAttribute("aria-valuetext", name);
    this.rescale();
  }

  rescale() {
    super.rescale();
    for (const each of this.data.finish) {
      const drawing = this.plot.querySelector(`[data-contender="${each.contender}"]`);
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
      const now = `${contenders[each.contender].label}, round ${this.round}: ${slowest}.`;
      words.textContent = this.round == null ? words.dataset.last : now;
    }
  }
}
