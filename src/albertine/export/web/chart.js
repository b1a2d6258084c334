// A picture of shares over depth: one line for each name, and a mark at the step that is shown.

const SVG = "http://www.w3.org/2000/svg";

function draw(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// `lines` has a list of values for each name, by step, undefined where there is none; `limits` the smallest and the largest value of the axis.
export function depthChart({ lines, steps, trained, shown, limits, format, width, onSelect }) {
  const height = Math.round(Math.min(260, Math.max(170, width * 0.42)));
  const left = 44, right = 12, top = 22, bottom = 30;
  const x = (step) => left + ((step - 1) / Math.max(1, steps - 1)) * (width - left - right);
  const y = (value) => top + (1 - (value - limits[0]) / (limits[1] - limits[0] || 1)) * (height - top - bottom);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart", role: "img" });
  svg.setAttribute("aria-label", description(lines, trained, format));

  if (steps > trained) {
    const start = (x(trained) + x(trained + 1)) / 2;
    svg.append(draw("rect", { x: start, y: top, width: width - right - start + 6, height: height - top - bottom, class: "deeper" }));
    svg.append(draw("text", { x: start + 6, y: top - 7, class: "note" }, "deeper than trained"));
  }
  for (const share of [0, 0.5, 1]) {
    const value = limits[0] + share * (limits[1] - limits[0]);
    svg.append(draw("line", { x1: left - 4, x2: width - right + 4, y1: y(value), y2: y(value), class: "grid" }));
    svg.append(draw("text", { x: left - 9, y: y(value) + 4, class: "tick end" }, format(value)));
  }
  const every = Math.ceil(steps / Math.max(2, Math.floor((width - left) / 34)));
  for (let step = 1; step <= steps; step++) {
    if (step === 1 || step % every === 0) svg.append(draw("text", { x: x(step), y: height - 10, class: "tick middle" }, String(step)));
  }
  svg.append(draw("line", { x1: x(shown), x2: x(shown), y1: top - 4, y2: height - bottom + 4, class: "shown" }));
  lines.forEach(({ values }, index) => {
    // A new part after a step without a value.
    const points = values.flatMap((value, step) => (value === undefined ? [] : [`${values[step - 1] === undefined ? "M" : "L"}${x(step + 1)} ${y(value)}l0 0`]));
    svg.append(draw("path", { d: points.join(""), class: `line c${index}` }));
    if (values[shown - 1] !== undefined) svg.append(draw("circle", { cx: x(shown), cy: y(values[shown - 1]), r: 4.5, class: `dot c${index}` }));
  });
  svg.addEventListener("click", (event) => {
    const position = (event.clientX - svg.getBoundingClientRect().left) * (width / svg.getBoundingClientRect().width);
    const step = Math.round(1 + ((position - left) / (width - left - right)) * (steps - 1));
    onSelect(Math.min(steps, Math.max(1, step)));
  });
  return svg;
}

function description(lines, trained, format) {
  const at = (value) => (value === undefined ? "not among the best" : format(value));
  const parts = lines.map(({ name, values }) => `${name} ${at(values[0])} after one step, ${at(values[trained - 1])} after ${trained}`);
  return `Probabilities over depth: ${parts.join("; ")}`;
}
