"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 440, HEIGHT = 290, LEFT = 72, RIGHT = 14, TOP = 10, BOTTOM = 44;
  const CLASSES = ["#1f4e9c", "#d21f1b", "#f2c230", "#3a9d5d", "#8e5bb5", "#e07b28", "#5bb5c9",
    "#b0307a", "#808080", "#a8c23a", "#6b4423", "#2b2b2b"];
  const PAINTS = ["#d21f1b", "#1f4e9c", "#f2c230", "#d21f1b", "#1f4e9c", "#f2c230"];  // of 23 cells
  const SHADES = [[38, 20, 72], [44, 82, 138], [38, 138, 141], [97, 196, 106], [250, 230, 60]];

  const add = (parent, tag, attributes = {}, text) => {
    const node = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };
  const paint = (colour) => `var(--${colour})`;
  const short = (value) => {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(0).replace("+", "");
    if (size >= 1e4) return Number((value / 1e3).toPrecision(4)) + "k";
    return String(Number(value.toPrecision(4)));
  };
  const clipped = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

  // --- scales: a function from values to places, with its ticks ---
  function scale(axis, values, from, to) {
    const log = axis.log === true;
    let held = values.filter((v) => v !== null && (!log || v > 0));
    if (!held.length) held = [log ? 1 : 0];
    let [low, high] = axis.domain || [held.reduce((a, b) => Math.min(a, b)),
      held.reduce((a, b) => Math.max(a, b))];
    const move = log ? Math.log : (v) => v;
    if (!axis.domain) {
      const pad = 0.04 * (move(high) - move(low)) || (log ? 0.1 : Math.abs(low) / 10 || 1);
      [low, high] = log
        ? [low / Math.exp(pad), high * Math.exp(pad)] : [low - pad, high + pad];
    }
    const span = (move(high) - move(low)) || 1;
    const place = (v) => from + ((to - from) * (move(v) - move(low))) / span;
    const few = to > from ? 6 : 5;
    place.ticks = log ? logTicks(low, high, few) : linearTicks(low, high, few);
    return place;
  }
  function linearTicks(low, high, few) {
    const rough = (high - low) / few, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= rough);
    const ticks = [];
    for (let n = Math.ceil(low / step); n * step <= high; n++) ticks.push(n * step);
    return ticks;
  }
  function logTicks(low, high, few) {
    const ticks = [];
    const decades = Math.log10(high / low), every = Math.max(1, Math.ceil(decades / few));
    const marks = decades < 1.2 ? [1, 1.5, 2, 3, 4, 5, 7] : decades < 2.5 ? [1, 2, 5] : [1];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) {
      if (e % every !== 0) continue;
      for (const m of marks) {
        const tick = m * 10 ** e;
        if (tick >= low && tick <= high) ticks.push(tick);
      }
    }
    return ticks;
  }

  // --- axes ---
  function axes(svg, spec, X, Y, height) {
    const bottom = height - BOTTOM;
    if (spec.x.ticks !== false) {
      for (const tick of X.ticks) {
        add(svg, "line", { class: "grid", x1: X(tick), x2: X(tick), y1: TOP, y2: bottom });
        add(svg, "text", { x: X(tick), y: bottom + 16, "text-anchor": "middle" }, short(tick));
      }
    }
    for (const tick of Y ? Y.ticks : []) {
      add(svg, "line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: Y(tick), y2: Y(tick) });
      add(svg, "text", { x: LEFT - 6, y: Y(tick) + 4, "text-anchor": "end" }, short(tick));
    }
    add(svg, "text", { x: (LEFT + WIDTH - RIGHT) / 2, y: height - 8, "text-anchor": "middle" },
      clipped(spec.x.label, 52));
    if (Y) {
      add(svg, "text", { transform: `translate(13 ${(TOP + bottom) / 2}) rotate(-90)`,
        "text-anchor": "middle" }, clipped(spec.y.label, 36));
    }
  }

  // --- layers: each draws itself into a group for one place of the slider ---
  const at = (layer, name, k) => (layer[name + "s"] ? layer[name + "s"][k] : layer[name]);
  const layers = {
    line(g, layer, X, Y, k) {
      const x = at(layer, "x", k), y = at(layer, "y", k);
      const points = x.map((v, i) => `${X(v)},${Y(y[i])}`).join(" ");
      add(g, "polyline", { points, fill: "none",
        stroke: paint(layer.colour), "stroke-width": layer.colour === "grey" ? 1.5 : 2,
        "stroke-dasharray": layer.dashed ? "6 4" : "none" });
    },
    points(g, layer, X, Y, k) {
      const x = at(layer, "x", k), y = at(layer, "y", k), sizes = at(layer, "size", k);
      x.forEach((v, i) => {
        if (v === null || y[i] === null) return;
        add(g, "circle", { cx: X(v), cy: Y(y[i]), r: Array.isArray(sizes) ? sizes[i] : sizes,
          fill: paint(layer.colour), "fill-opacity": layer.size > 3 ? 1 : 0.7 });
      });
    },
    steps(g, layer, X, Y) {
      const most = Math.max(...layer.heights), bottom = HEIGHT - BOTTOM;
      layer.heights.forEach((height, i) => {
        const tall = ((bottom - TOP) * 0.45 * height) / most, x = X(layer.edges[i]);
        add(g, "rect", { x, y: bottom - tall, width: X(layer.edges[i + 1]) - x, height: tall,
          fill: paint(layer.colour), "fill-opacity": 0.75 });
      });
    },
    ranges(g, layer, X, Y) {
      layer.x.forEach((v, i) => add(g, "line", { x1: X(v), x2: X(v), y1: Y(layer.low[i]),
        y2: Y(layer.high[i]), stroke: paint(layer.colour), "stroke-width": 3,
        "stroke-opacity": 0.45 }));
    },
    cursor(g, layer, X, Y, k) {
      const x = X(data.lifetimes[k]);
      if (!(x >= LEFT && x <= WIDTH - RIGHT)) return;
      add(g, "line", { class: "cursor", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM });
    },
    cells(g, layer, X, Y, k) {
      const time = data.lifetimes[k];
      layer.birth.forEach((birth, i) => {
        if (birth > time || layer.time[i] <= time) return;
        const [a, b] = layer.lower[i], [c, d] = layer.upper[i];
        add(g, "rect", { class: "cell", x: X(a), y: Y(d), width: X(c) - X(a),
          height: Y(b) - Y(d), fill: PAINTS[(i * 7919) % 23] || "none" });
      });
    },
    image(g, layer, X, Y, k) {
      const bytes = atob(layer.frames[k]), side = layer.side;
      const canvas = document.createElement("canvas");
      canvas.width = canvas.height = side;
      const context = canvas.getContext("2d"), picture = context.createImageData(side, side);
      for (let i = 0; i < side * side; i++) {
        const place = ((side - 1 - Math.floor(i / side)) * side + (i % side)) * 4;
        picture.data.set([...colourOf(layer, bytes.charCodeAt(i)), 255], place);
      }
      context.putImageData(picture, 0, 0);
      add(g, "image", { href: canvas.toDataURL(), x: LEFT, y: TOP, width: WIDTH - RIGHT - LEFT,
        height: HEIGHT - BOTTOM - TOP, preserveAspectRatio: "none" });
    },
  };
  function colourOf(layer, byte) {
    if (layer.classes) {
      const hex = parseInt(CLASSES[byte % CLASSES.length].slice(1), 16);
      return [hex >> 16, (hex >> 8) & 255, hex & 255];
    }
    const t = (byte / 255) * (SHADES.length - 1), i = Math.min(Math.floor(t), SHADES.length - 2);
    return SHADES[i].map((v, c) => v + (SHADES[i + 1][c] - v) * (t - i));
  }
  const MOVING = new Set(["cursor", "cells", "image"]);
  const moves = (layer) => MOVING.has(layer.type) || "xs" in layer || "ys" in layer;

  // --- kinds of figure: each draws itself and returns what redraws it for a place ---
  function chart(box, spec) {
    legend(box, spec.layers);
    const svg = add(box, "svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" });
    const all = (...names) => spec.layers.flatMap((l) => names.flatMap((n) => l[n] || [])).flat();
    const X = scale(spec.x, all("x", "xs"), LEFT, WIDTH - RIGHT);
    const Y = scale(spec.y, all("y", "ys", "low", "high"), HEIGHT - BOTTOM, TOP);
    axes(svg, spec, X, Y, HEIGHT);
    const groups = spec.layers.map((layer) => {
      const g = add(svg, "g");
      if (!moves(layer)) layers[layer.type](g, layer, X, Y, data.chosen);
      return g;
    });
    add(svg, "rect", { class: "axis", x: LEFT, y: TOP, width: WIDTH - RIGHT - LEFT,
      height: HEIGHT - BOTTOM - TOP });
    return (k) => spec.layers.forEach((layer, i) => {
      if (!moves(layer)) return;
      groups[i].replaceChildren();
      layers[layer.type](groups[i], layer, X, Y, k);
    });
  }
  function bars(box, spec) {
    const step = 24, height = TOP + step * spec.labels.length + BOTTOM, left = 150;
    const svg = add(box, "svg", { viewBox: `0 0 ${WIDTH} ${height}`, "aria-hidden": "true",
      style: "max-height: none" });
    const ends = spec.values.flatMap((v, i) => [v - spec.spread[i], v + spec.spread[i]]);
    const X = scale(spec.x, [0, ...ends], left, WIDTH - RIGHT);
    axes(svg, spec, X, null, height);
    spec.values.forEach((value, i) => {
      const y = TOP + step * i, x = Math.min(X(0), X(value));
      const label = add(svg, "text", { x: left - 8, y: y + 16, "text-anchor": "end" },
        clipped(spec.labels[i], 20));
      add(label, "title", {}, spec.labels[i]);
      add(svg, "rect", { x, y: y + 4, width: Math.abs(X(value) - X(0)), height: step - 8,
        fill: paint("blue") });
      add(svg, "line", { x1: X(value - spec.spread[i]), x2: X(value + spec.spread[i]),
        y1: y + step / 2, y2: y + step / 2, stroke: paint("red"), "stroke-width": 2 });
    });
    add(svg, "line", { class: "axis", x1: X(0), x2: X(0), y1: TOP, y2: height - BOTTOM });
    return () => {};
  }
  function matrix(box, spec) {
    const n = spec.labels.length, left = 100, side = (WIDTH - left - RIGHT) / n;
    const tall = Math.max(26, Math.min(side, 60)), height = 44 + tall * n;
    const svg = add(box, "svg", { viewBox: `0 0 ${WIDTH} ${height}`, "aria-hidden": "true" });
    spec.labels.forEach((label, i) => {
      const most = Math.max(3, Math.floor(side / 7));
      add(svg, "text", { x: left - 8, y: tall * (i + 0.5) + 4, "text-anchor": "end" },
        clipped(label, 13));
      add(svg, "text", { x: left + side * (i + 0.5), y: tall * n + 16, "text-anchor": "middle" },
        clipped(label, most));
    });
    add(svg, "text", { x: left + (side * n) / 2, y: height - 6, "text-anchor": "middle" },
      "predicted class");
    const g = add(svg, "g");
    return (k) => {
      g.replaceChildren();
      spec.frames[k].forEach((row, i) => {
        const total = row.reduce((a, b) => a + b, 0) || 1;
        row.forEach((count, j) => {
          const share = count / total, x = left + side * j, y = tall * i;
          add(g, "rect", { x, y, width: side - 2, height: tall - 2, stroke: paint("line"),
            fill: paint(i === j ? "blue" : "red"), "fill-opacity": 0.05 + 0.6 * share });
          add(g, "text", { class: "count", x: x + side / 2 - 1, y: y + tall / 2 + 4 }, count);
        });
      });
    };
  }
  function legend(box, all) {
    const line = document.createElement("div");
    line.className = "legend";
    const entry = (name, background) => {
      const item = document.createElement("span"), mark = document.createElement("i");
      mark.style.background = background;
      item.append(mark, name);
      line.append(item);
    };
    for (const layer of all) {
      if (layer.name) entry(layer.name, paint(layer.colour));
      if (layer.classes) layer.classes.forEach((c, i) => entry(c, CLASSES[i % CLASSES.length]));
      if (layer.range) {
        const shades = SHADES.map((c) => `rgb(${c})`).join(", "), mark = document.createElement("i");
        mark.className = "scale";
        mark.style.background = `linear-gradient(to right, ${shades})`;
        line.append(layer.range[0], mark, layer.range[1]);
      }
    }
    if (line.childNodes.length) box.append(line);
  }

  const kinds = { bars, matrix };
  const redraws = [...document.querySelectorAll(".plot")].map((box) => {
    const spec = data.figures[box.dataset.figure];
    return (kinds[spec.kind] || chart)(box, spec);
  });

  // --- the slider and the colours ---
  const slider = document.getElementById("lifetime"), readout = document.getElementById("readout");
  const show = (k) => {
    for (const redraw of redraws) redraw(k);
    readout.textContent = data.readouts[k];
    if (slider) slider.setAttribute("aria-valuetext", data.readouts[k]);
  };
  show(data.chosen);
  if (slider) {
    slider.addEventListener("input", () => show(Number(slider.value)));
    document.getElementById("back").addEventListener("click", () => {
      slider.value = data.chosen;
      show(data.chosen);
    });
  }
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.style.colorScheme
      ? root.style.colorScheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.style.colorScheme = dark ? "light" : "dark";
  });
})();
