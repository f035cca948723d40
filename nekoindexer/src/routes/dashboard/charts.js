// Charts as svg, drawn from numbers: a curve over time, and bars.

const SPACE = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [300, 100];

function shape(tag, attributes) {
  const node = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** Shows `shapes` in `place`; `text` says the same to those who do not see it. */
function draw(place, text, shapes) {
  let chart = place.firstElementChild;
  if (!chart) {
    chart = shape("svg", { class: "chart", role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" });
    place.append(chart);
  }
  chart.setAttribute("aria-label", text);
  chart.replaceChildren(...shapes, shape("path", { class: "axis", d: `M0 ${HEIGHT}H${WIDTH}` }));
}

/** `values`, the oldest first, as a curve that ends at the right; `room` values fill the width. */
export function curve(place, values, room, text) {
  const top = Math.max(1, ...values);
  const x = (at) => (WIDTH * (room - values.length + at)) / (room - 1);
  const points = values.map((value, at) => `${x(at).toFixed(1)} ${(HEIGHT - (value / top) * (HEIGHT - 4)).toFixed(1)}`);
  if (points.length < 2) return draw(place, text, []);
  const line = `M${points.join("L")}`;
  draw(place, text, [
    shape("path", { class: "area", d: `${line}L${WIDTH} ${HEIGHT}L${x(0).toFixed(1)} ${HEIGHT}Z` }),
    shape("path", { class: "curve", d: line }),
  ]);
}

/** `values` as bars beside each other. */
export function bars(place, values, text) {
  const top = Math.max(1, ...values);
  const step = WIDTH / Math.max(1, values.length);
  draw(place, text, values.map((value, at) => {
    const height = value === 0 ? 0 : Math.max(1.5, (value / top) * (HEIGHT - 2));
    return shape("rect", { class: "bar", x: at * step + step * 0.1, width: step * 0.8, y: HEIGHT - height, height });
  }));
}
