"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 440, HEIGHT = 290, LEFT = 80, RIGHT = 14, TOP = 10, BOTTOM = 50;
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
  function axes(svg, spec, X, Y, left, height) {
    const bottom = height - BOTTOM, right = WIDTH - RIGHT;
    if (spec.x.ticks !== false) {
      for (const tick of X.ticks) {
        add(svg, "line", { class: "grid", x1: X(tick), x2: X(tick), y1: TOP, y2: bottom });
        add(svg, "text", { x: X(tick), y: bottom + 17, "text-anchor": "middle" }, short(tick));
      }
    }
    for (const tick of spec.y.labels ? [] : Y.ticks) {
      add(svg, "line", { class: "grid", x1: left, x2: right, y1: Y(tick), y2: Y(tick) });
      add(svg, "text", { x: left - 6, y: Y(tick) + 4, "text-anchor": "end" }, short(tick));
    }
    (spec.y.labels || []).forEach((name, i) => {
      const text = add(svg, "text", { x: left - 8, y: Y(i) + 4, "text-anchor": "end" },
        clipped(name, 15));
      add(text, "title", {}, name);
    });
    add(svg, "text", { x: (left + right) / 2, y: height - 8, "text-anchor": "middle" },
      clipped(spec.x.label, 40));
    add(svg, "text", { transform: `translate(17 ${(TOP + bottom) / 2}) rotate(-90)`,
      "text-anchor": "middle" }, clipped(spec.y.label, 28));
    add(svg, "rect", { class: "axis", x: left, y: TOP, width: right - left, height: bottom - TOP });
  }

  // --- layers: each draws itself into a group ---
  const layers = {
    line(g, layer, X, Y) {
      const points = layer.x.map((v, i) => `${X(v)},${Y(layer.y[i])}`).join(" ");
      add(g, "polyline", { points, fill: "none", stroke: paint(layer.colour),
        "stroke-width": layer.colour === "grey" ? 1.5 : 2 });
    },
    points(g, layer, X, Y) {
      layer.x.forEach((v, i) => add(g, "circle", { cx: X(v), cy: Y(layer.y[i]),
        r: Array.isArray(layer.size) ? layer.size[i] : layer.size, fill: paint(layer.colour),
        "fill-opacity": layer.size < 2.6 ? 0.7 : 1 }));
    },
    bars(g, layer, X, Y) {
      layer.x.forEach((v, i) => add(g, "rect", { x: Math.min(X(0), X(v)), y: Y(layer.y[i]) - 8,
        width: Math.abs(X(v) - X(0)), height: 16, fill: paint(layer.colour) }));
    },
    ranges(g, layer, X, Y) {
      const lying = layer.x === undefined;
      (lying ? layer.y : layer.x).forEach((v, i) => {
        const low = layer.low[i], high = layer.high[i];
        const ends = lying ? { x1: X(low), x2: X(high), y1: Y(v), y2: Y(v) }
          : { x1: X(v), x2: X(v), y1: Y(low), y2: Y(high) };
        add(g, "line", { ...ends, stroke: paint(layer.colour), "stroke-width": 3,
          "stroke-opacity": lying ? 0.8 : 0.45 });
      });
    },
    cells(g, layer, X, Y) {
      layer.lower.forEach(([a, b], i) => {
        const [c, d] = layer.upper[i];
        add(g, "rect", { class: "cell", x: X(a), y: Y(d), width: X(c) - X(a),
          height: Y(b) - Y(d), fill: PAINTS[(i * 7919) % 23] || "none" });
      });
    },
    image(g, layer) {
      const bytes = atob(layer.bytes), side = layer.side;
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

  // --- kinds of figure ---
  function chart(box, spec) {
    legend(box, spec.layers);
    const labels = spec.y.labels, left = labels ? 150 : LEFT;
    const height = labels ? TOP + 24 * labels.length + BOTTOM : HEIGHT;
    const svg = add(box, "svg", { viewBox: `0 0 ${WIDTH} ${height}`, "aria-hidden": "true" });
    if (labels) svg.style.maxHeight = "none";
    const all = (...names) => spec.layers.flatMap((l) => names.flatMap((n) => l[n] ?? []));
    const bars = spec.layers.some((l) => l.type === "bars");
    const across = labels ? [...all("x", "low", "high"), ...(bars ? [0] : [])] : all("x");
    const X = scale(spec.x, across, left, WIDTH - RIGHT);
    const Y = labels ? (i) => TOP + 24 * (i + 0.5)
      : scale(spec.y, all("y", "low", "high"), height - BOTTOM, TOP);
    axes(svg, spec, X, Y, left, height);
    for (const layer of spec.layers) layers[layer.type](add(svg, "g"), layer, X, Y);
    if (bars) add(svg, "line", { class: "axis", x1: X(0), x2: X(0), y1: TOP, y2: height - BOTTOM });
  }
  function matrix(box, spec) {
    const n = spec.labels.length, left = 120, side = (WIDTH - left - RIGHT) / n;
    const tall = Math.max(26, Math.min(side, 60)), height = 48 + tall * n;
    const svg = add(box, "svg", { viewBox: `0 0 ${WIDTH} ${height}`, "aria-hidden": "true" });
    spec.labels.forEach((label, i) => {
      const most = Math.max(3, Math.floor(side / 9));
      add(svg, "text", { x: left - 8, y: tall * (i + 0.5) + 4, "text-anchor": "end" },
        clipped(label, 12));
      add(svg, "text", { x: left + side * (i + 0.5), y: tall * n + 17, "text-anchor": "middle" },
        clipped(label, most));
    });
    add(svg, "text", { x: left + (side * n) / 2, y: height - 6, "text-anchor": "middle" },
      "predicted class");
    spec.counts.forEach((row, i) => {
      const total = row.reduce((a, b) => a + b, 0) || 1;
      row.forEach((count, j) => {
        const x = left + side * j, y = tall * i;
        add(svg, "rect", { x, y, width: side - 2, height: tall - 2, stroke: paint("line"),
          fill: paint(i === j ? "blue" : "red"), "fill-opacity": 0.05 + (0.45 * count) / total });
        add(svg, "text", { class: "count", x: x + side / 2 - 1, y: y + tall / 2 + 4 }, count);
      });
    });
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

  for (const box of document.querySelectorAll(".plot")) {
    const spec = figures[box.dataset.figure];
    (spec.kind === "matrix" ? matrix : chart)(box, spec);
  }

  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.style.colorScheme
      ? root.style.colorScheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.style.colorScheme = dark ? "light" : "dark";
  });
})();
