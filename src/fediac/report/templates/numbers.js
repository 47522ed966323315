// Numbers and scales: twins of number_words.py and scales.py, equal to the letter.

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

// An axis for the values that are shown, or null to leave it alone.
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
    return { ...axis, log: false, low: 0, high, ticks: ticks(0, high, step(high)) };
  }
  if (low === high) {
    [low, high] = low ? [low - 0.1 * Math.abs(low), high + 0.1 * Math.abs(high)] : [0, 1];
  }
  const size = step(high - low);
  low = Math.floor(low / size + 1e-9) * size;
  high = Math.ceil(high / size - 1e-9) * size;
  return { ...axis, low, high, ticks: ticks(low, high, size) };
}

