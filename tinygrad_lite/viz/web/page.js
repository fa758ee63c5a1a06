"use strict";
(async () => {
  // Text from the graph only ever becomes text nodes: nothing of it is read as markup.
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const make = (tag, props = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
      if (name === "class") element.className = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== undefined && value !== false) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };
  const shape = (tag, props, ...children) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const amount = (n, unit) => {
    for (const [prefix, size] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]])
      if (n >= size) return `${(n / size).toPrecision(3)} ${prefix}${unit}`;
    return `${Number(n.toPrecision(3))} ${unit}`;
  };
  const enterable = (action) => (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); action(); }
  };

  async function unpacked() {
    const bytes = Uint8Array.from(atob($("data").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  let data;
  try {
    data = await unpacked();
  } catch (error) {
    $("note").textContent = `This browser cannot unpack the page: ${error}`;
    return;
  }
  const steps = data.steps;
  const state = { step: 0, level: 0, zoom: 0, closed: new Set(), query: "", hits: [], hit: -1 };
  const shown = (i) => { while (steps[i].same && i > 0) i -= 1; return steps[i]; };

  // ---- details ----------------------------------------------------------------------------------------
  const facts = (pairs) => {
    const list = make("dl");
    for (const [name, value] of pairs) if (value !== "" && value !== undefined) list.append(make("dt", {}, name), make("dd", {}, String(value)));
    return list;
  };
  function explain(title, ...content) {
    $("details").replaceChildren(make("h2", {}, title), ...content);
  }
  const groupOf = (row) => data.nodes[row][7];
  function kernelsOf(rows) {
    const groups = new Set(rows.map(groupOf).filter((g) => g >= 0));
    return [...new Set(data.tape.filter((t) => groups.has(t.group)).map((t) => t.kernel))];
  }
  function kernelLinks(rows) {
    const found = kernelsOf(rows).slice(0, 6);
    return found.map((k) => {
      const kernel = data.kernels[k];
      return make("details", {}, make("summary", {}, `kernel ${k} ${kernel.label}`), make("pre", {}, kernel.nest || kernel.source));
    });
  }
  function explainRow(row) {
    const [op, type, scope, phase, line, flops, bytes, group] = data.nodes[row];
    explain(op, facts([["shape", type], ["module", scope], ["phase", phase], ["line", line], ["FLOP", amount(flops, "")],
      ["moves", amount(bytes, "B")], ["group", group >= 0 ? group : ""]]), ...kernelLinks([row]));
  }
  function explainBox([label, module, rows, change]) {
    const nodes = rows.map((r) => data.nodes[r]);
    const sum = (i) => nodes.reduce((total, n) => total + n[i], 0);
    const lines = [...new Set(nodes.map((n) => n[4]).filter(Boolean))];
    const changes = { "+": "new in this step", "~": "changed in this step" }[change];
    const list = make("pre", {}, nodes.slice(0, 30).map((n) => `${n[0]} ${n[1]}`).join("\n") + (nodes.length > 30 ? `\nand ${nodes.length - 30} more` : ""));
    explain(label, facts([["module", module], ["phase", nodes.length ? nodes[0][3] : ""], ["shape", nodes.length === 1 ? nodes[0][1] : ""],
      ["nodes", nodes.length || ""], ["FLOP", nodes.length ? amount(sum(5), "") : ""], ["moves", nodes.length ? amount(sum(6), "B") : ""],
      ["line", lines.slice(0, 4).join(", ") + (lines.length > 4 ? ", …" : "")], ["", changes]]),
      ...(nodes.length ? [list] : []), ...kernelLinks(rows));
  }

  // ---- the drawing ------------------------------------------------------------------------------------
  let picture = null, natural = 1, view = [], boxes = [], frames = [], edges = [], plain = [];
  function draw() {
    const drawings = shown(state.step).drawings || [];
    const chosen = drawings[Math.min(state.level, drawings.length - 1)];
    $("level").replaceChildren(...drawings.map((d, i) => make("option", { value: i, selected: d === chosen || false }, d.name)));
    $("drawn").textContent = chosen ? chosen.note : "nothing is drawn";
    picture = null; boxes = []; frames = []; edges = []; plain = [];
    if (!chosen || !chosen.svg) { $("canvas").replaceChildren(); return; }
    picture = document.importNode(new DOMParser().parseFromString(chosen.svg, "image/svg+xml").documentElement, true);
    picture.setAttribute("role", "group");
    picture.setAttribute("aria-label", `${data.title}, ${chosen.name}`);
    natural = parseFloat(picture.getAttribute("width")) || 800;
    view = numbers(picture.getAttribute("viewBox") || "");
    picture.removeAttribute("height");
    $("canvas").replaceChildren(picture);
    const byName = new Map();
    for (const node of picture.querySelectorAll("g.node")) prepare(node, chosen.boxes, byName);
    for (const frame of picture.querySelectorAll("g.cluster")) prepareFrame(frame);
    nest();
    for (const edge of picture.querySelectorAll("g.edge")) prepareEdge(edge, byName);
    picture.querySelector("g.graph > title")?.remove();
    resize();
    arrange();
  }
  function prepare(node, all, byName) {
    const title = node.querySelector("title"), number = /^n(\d+)$/.exec(title.textContent);
    if (!number || !all[number[1]]) { title.remove(); plain.push({ node, ...extent(node) }); return; }
    const box = all[number[1]];
    byName.set(title.textContent, boxes.length);
    title.textContent = box[0];
    node.setAttribute("tabindex", "0");
    node.setAttribute("role", "button");
    node.setAttribute("aria-label", `${box[0]}${box[3] ? ", changed in this step" : ""}`);
    if (box[3]) node.classList.add(box[3] === "+" ? "added" : "changed");
    const tell = () => { pick(node); explainBox(box); };
    node.addEventListener("mouseenter", () => explainBox(box));
    node.addEventListener("focus", tell);
    node.addEventListener("click", tell);
    const text = `${box[0]} ${box[1]} ${box[2].map((r) => data.nodes[r].slice(0, 5).join(" ")).join(" ")}`.toLowerCase();
    boxes.push({ node, box, text, ...extent(node) });
  }
  function pick(node) {
    for (const other of document.querySelectorAll(".picked")) other.classList.remove("picked");
    node.classList.add("picked");
  }

  // ---- modules closed into one box --------------------------------------------------------------------
  // The layout stays as it is: a closed module is one box in the middle of its frame, where the arrows from and to
  // what is in it meet, and rows of the picture that are left empty are cut out.
  const ROW = 46; // what is left of an empty row
  const numbers = (text) => (text.match(/-?\d+(?:\.\d+)?/g) || []).map(Number);
  function extent(element) {
    const xs = [], ys = [];
    for (const part of element.querySelectorAll(":scope > polygon, :scope > polyline, :scope > path, :scope > ellipse")) {
      const at = (name) => Number(part.getAttribute(name));
      if (part.tagName === "ellipse") {
        xs.push(at("cx") - at("rx"), at("cx") + at("rx"));
        ys.push(at("cy") - at("ry"), at("cy") + at("ry"));
      } else numbers(part.getAttribute("points") || part.getAttribute("d")).forEach((n, i) => (i % 2 ? ys : xs).push(n));
    }
    const text = element.querySelector(":scope > text"), at = (name) => Number(text?.getAttribute(name) || 0);
    if (!xs.length) { xs.push(at("x")); ys.push(at("y")); }
    return { x0: Math.min(...xs), x1: Math.max(...xs), y0: Math.min(...ys), y1: Math.max(...ys) };
  }
  const holds = (a, b) => a !== b && a.x0 <= b.x0 && a.y0 <= b.y0 && a.x1 >= b.x1 && a.y1 >= b.y1;
  const partsOf = (element) => [...element.querySelectorAll("path, polygon, text")].map((part) => {
    const name = { path: "d", polygon: "points", text: "y" }[part.tagName];
    return { part, name, value: part.getAttribute(name) };
  });
  function prepareFrame(element) {
    element.querySelector("title")?.remove();
    const name = element.querySelector("text")?.textContent || "", area = extent(element);
    if (!name || name === "legend") { plain.push({ node: element, ...area }); return; }
    const frame = { element, name, parts: partsOf(element), ...area };
    frames.push(frame);
    element.setAttribute("tabindex", "0");
    element.setAttribute("role", "button");
    element.setAttribute("aria-expanded", "true");
    element.setAttribute("aria-label", `module ${name}`);
    const close = () => {
      const focused = document.activeElement === element;
      state.closed.add(frame.key);
      arrange();
      search();
      if (focused) frame.shut.focus();
    };
    element.addEventListener("click", close);
    element.addEventListener("keydown", enterable(close));
  }
  function nest() {
    const outside = (part) => frames.filter((f) => holds(f, part)).sort((a, b) => b.y1 - b.y0 - (a.y1 - a.y0));
    for (const part of [...frames, ...boxes]) part.within = outside(part);
    for (const frame of frames) frame.key = [...frame.within, frame].map((f) => f.name).join(" / ");
    for (const frame of frames) frame.inside = boxes.filter((b) => b.within.includes(frame));
  }
  function prepareEdge(element, byName) {
    const ends = (element.querySelector("title")?.textContent || "").split("->").map((name) => byName.get(name));
    element.querySelector("title")?.remove();
    edges.push({ element, ends: ends.includes(undefined) ? null : ends.map((i) => boxes[i]), parts: partsOf(element) });
  }
  const shutOf = (part) => part.within.find((f) => state.closed.has(f.key));
  const seen = (element, visible) => { element.style.display = visible ? "" : "none"; };

  /** Show every module open or closed, as `state.closed` says. */
  function arrange() {
    if (!picture) return;
    for (const made of picture.querySelectorAll(".made")) made.remove();
    const open = [], shut = [], kept = [], turned = new Map();
    for (const frame of frames) {
      const hidden = shutOf(frame) !== undefined, closed = !hidden && state.closed.has(frame.key);
      seen(frame.element, !hidden && !closed);
      if (closed) shut.push(frame);
      else if (!hidden) open.push(frame);
    }
    for (const frame of shut) {
      const half = Math.max(36, 3.4 * Math.max(frame.name.length, 14)), x = (frame.x0 + frame.x1) / 2, y = (frame.y0 + frame.y1) / 2;
      frame.place = { x0: x - half, x1: x + half, y0: y - 19, y1: y + 19 };
    }
    for (const box of boxes) { box.by = shutOf(box); seen(box.node, !box.by); }
    for (const edge of edges) {
      const around = edge.ends ? edge.ends.filter((b) => b.by) : [];
      seen(edge.element, !around.length);
      if (!around.length) kept.push(edge);
      else if (edge.ends[0].by !== edge.ends[1].by) {
        const between = edge.ends.map((b) => b.by || b), key = between.map((b) => (b.key === undefined ? boxes.indexOf(b) : b.key)).join(" -> ");
        if (!turned.has(key)) turned.set(key, { between, like: edge, labels: new Set() });
        for (const { part } of edge.parts) if (part.tagName === "text") turned.get(key).labels.add(part.textContent);
      }
    }
    const down = shut.length ? cutter(open, shut, kept) : (y) => y;
    redraw(open, kept, down);
    picture.setAttribute("viewBox", [...view.slice(0, 3), view[3] + down(1e6) - 1e6].join(" "));
    const root = picture.querySelector("g.graph"), first = root.querySelector(":scope > g.node, :scope > g.edge");
    for (const edge of turned.values()) root.insertBefore(curve(edge, down), first);
    for (const frame of shut) root.append(closedBox(frame, down));
  }
  /** y → y in the picture without its empty rows. */
  function cutter(open, shut, kept) {
    const rows = shut.map((f) => f.place);
    rows.push(...plain, ...boxes.filter((b) => !b.by));
    for (const f of open) rows.push({ y0: f.y0, y1: f.y0 + 24 }, { y0: f.y1 - 6, y1: f.y1 });
    for (const edge of kept) for (const { part, value } of edge.parts) if (part.tagName === "text") rows.push({ y0: value - 9, y1: Number(value) + 3 });
    rows.sort((a, b) => a.y0 - b.y0);
    const cuts = [];
    let end = rows[0].y1;
    for (const row of rows) {
      if (row.y0 - end > ROW) cuts.push({ from: end + ROW / 2, to: row.y0 - ROW / 2 });
      end = Math.max(end, row.y1);
    }
    return (y) => y - cuts.reduce((total, c) => total + Math.min(Math.max(y - c.from, 0), c.to - c.from), 0);
  }
  function redraw(open, kept, down) {
    const moved = (text) => text.replace(/(-?[\d.]+),(-?[\d.]+)/g, (_, x, y) => `${x},${down(Number(y)).toFixed(1)}`);
    for (const { node, y0 } of [...boxes, ...plain]) node.setAttribute("transform", `translate(0 ${(down(y0) - y0).toFixed(1)})`);
    for (const { parts } of [...open, ...kept])
      for (const { part, name, value } of parts) part.setAttribute(name, name === "y" ? down(Number(value)).toFixed(1) : moved(value));
  }
  /** An arrow to or from a closed module; several between the same two are one. */
  function curve({ between, like, labels }, down) {
    const [a, b] = between.map((part) => part.place || part).map((p) => ({ ...p, y0: down(p.y0), y1: down(p.y0) + p.y1 - p.y0 }));
    const mid = (p) => [(p.x0 + p.x1) / 2, (p.y0 + p.y1) / 2], [ax, ay] = mid(a), [bx, by] = mid(b);
    // [start, its control, the end's control, end, which way the arrow points]: down, across, or round the right side
    const [from, c1, c2, to, [dx, dy]] = (() => {
      if (b.y0 >= a.y1) {
        const bend = Math.max(8, (b.y0 - 6 - a.y1) / 2);
        return [[ax, a.y1], [ax, a.y1 + bend], [bx, b.y0 - 6 - bend], [bx, b.y0 - 6], [0, 1]];
      }
      if (b.x0 >= a.x1) return [[a.x1, ay], [(a.x1 + b.x0) / 2, ay], [(a.x1 + b.x0) / 2, by], [b.x0 - 6, by], [1, 0]];
      const out = Math.max(a.x1, b.x1) + 40;
      return [[a.x1, ay], [out, ay], [out, by], [b.x1 + 6, by], [-1, 0]];
    })();
    const line = like.parts.find(({ part }) => part.tagName === "path")?.part;
    const stroke = line?.getAttribute("stroke") || "#555555";
    const style = { fill: "none", stroke, "stroke-width": line?.getAttribute("stroke-width") || 1 };
    if (line?.getAttribute("stroke-dasharray")) style["stroke-dasharray"] = line.getAttribute("stroke-dasharray");
    const [tx, ty] = to, tip = `${tx - 2.5 * dy},${ty - 2.5 * dx} ${tx + 2.5 * dy},${ty + 2.5 * dx} ${tx + 6 * dx},${ty + 6 * dy}`;
    const texts = [...labels], words = texts.slice(0, 2).join(", ") + (texts.length > 2 ? ` +${texts.length - 2}` : "");
    const group = shape("g", { class: "made edge" }, shape("path", { ...style, d: `M${from}C${c1} ${c2} ${to}` }), shape("polygon", { points: tip, fill: stroke, stroke }));
    if (words) group.append(shape("text", { x: (from[0] + to[0]) / 2 + 4, y: (from[1] + to[1]) / 2 + 3, "font-size": 8, fill: "#555555" }, words));
    return group;
  }
  function closedBox(frame, down) {
    const { x0, x1, y0 } = frame.place, top = down(y0), x = (x0 + x1) / 2;
    const rows = [...new Set(frame.inside.flatMap((b) => b.box[2]))];
    const flops = rows.reduce((total, r) => total + data.nodes[r][5], 0), changes = frame.inside.map((b) => b.box[3]);
    const change = changes.includes("+") ? "+" : changes.includes("~") ? "~" : "";
    const count = `${frame.inside.length} box${frame.inside.length === 1 ? "" : "es"}`, cost = rows.length ? `, ${amount(flops, "FLOP")}` : "";
    const group = shape("g", { class: "made closed", tabindex: 0, role: "button", "aria-expanded": "false", "aria-label": `module ${frame.name}, closed: ${count}${cost}` },
      shape("rect", { x: x0, y: top, width: x1 - x0, height: 38, rx: 6 }),
      shape("text", { x, y: top + 16, "text-anchor": "middle", "font-size": 11 }, frame.name),
      shape("text", { x, y: top + 30, "text-anchor": "middle", "font-size": 8, fill: "#555555" }, count + cost));
    if (change) group.classList.add(change === "+" ? "added" : "changed");
    const tell = () => explainBox([frame.name, frame.inside[0]?.box[1] || "", rows, change]);
    const reopen = () => {
      const focused = document.activeElement === group;
      state.closed.delete(frame.key);
      arrange();
      search();
      if (focused) frame.element.focus();
    };
    group.addEventListener("mouseenter", tell);
    group.addEventListener("focus", () => { pick(group); tell(); });
    group.addEventListener("click", reopen);
    group.addEventListener("keydown", enterable(reopen));
    frame.shut = group;
    return group;
  }
  const fitted = () => Math.min(1, Math.max(0.4, ($("canvas").clientWidth - 20) / natural)) || 1;
  function resize() {
    if (picture) picture.setAttribute("width", Math.round(natural * (state.zoom || fitted())));
  }
  function zoom(factor) {
    state.zoom = Math.min(8, Math.max(0.05, (state.zoom || fitted()) * factor));
    resize();
  }
  function pan() {
    const canvas = $("canvas");
    let from = null;
    canvas.addEventListener("pointerdown", (e) => { if (e.button === 0) from = [e.clientX + canvas.scrollLeft, e.clientY + canvas.scrollTop]; });
    canvas.addEventListener("pointermove", (e) => { if (from && e.buttons) canvas.scrollTo(from[0] - e.clientX, from[1] - e.clientY); else from = null; });
    canvas.addEventListener("wheel", (e) => { if (e.ctrlKey || e.metaKey) { e.preventDefault(); zoom(e.deltaY < 0 ? 1.15 : 1 / 1.15); } }, { passive: false });
  }

  // ---- the text ---------------------------------------------------------------------------------------
  const moduleOf = (row) => {
    if (row === undefined) return "";
    const [op, , scope, phase] = data.nodes[row];
    if (op === "input") return "arguments";
    if (op === "state") return "states";
    const words = scope.split(".");
    const top = words.slice(0, /^\d+$/.test(words[1] || "") ? 2 : 1).join(".");
    return [phase === "forward" && top ? "" : phase, top].filter(Boolean).join(" ");
  };
  function write() {
    const lines = shown(state.step).lines, only = $("only").checked;
    const changed = lines.map((l) => l[0] === "+" || l[0] === "-" || l[0] === "~");
    const near = (i) => !only || [i - 2, i - 1, i, i + 1, i + 2].some((j) => changed[j]);
    const parts = [];
    let module = null, place = null;
    lines.forEach(([mark, text, row], i) => {
      if (!near(i)) return;
      const own = mark === "#" ? module : row === undefined ? "results" : moduleOf(row);
      if (own !== module || place === null) {
        module = own;
        place = make("details", { open: "" }, make("summary", {}, module || "top"));
        parts.push(place);
      }
      const line = make("span", { class: mark === "#" ? "line head" : "line" }, text);
      if (mark && mark !== "#") line.dataset.mark = mark;
      if (row !== undefined) line.dataset.row = row;
      place.append(line);
    });
    for (const part of parts) part.firstChild.append(` (${part.childElementCount - 1} lines)`);
    $("lines").replaceChildren(...(parts.length ? parts : [make("p", {}, "this step changes nothing")]));
  }
  function lineEvents() {
    const row = (e) => e.target.closest?.(".line")?.dataset.row;
    $("lines").addEventListener("mouseover", (e) => { const r = row(e); if (r !== undefined) explainRow(Number(r)); });
    $("lines").addEventListener("click", (e) => { const r = row(e); if (r !== undefined) { pick(e.target.closest(".line")); explainRow(Number(r)); } });
  }

  // ---- search -----------------------------------------------------------------------------------------
  function search() {
    const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
    for (const old of document.querySelectorAll(".match")) old.classList.remove("match");
    state.hits = [];
    state.hit = -1;
    if (!words.length) { $("found").textContent = ""; return; }
    const fits = (text) => words.every((w) => text.includes(w));
    const inText = !$("text").hidden;
    if (inText) {
      for (const line of $("lines").querySelectorAll(".line")) {
        const row = line.dataset.row;
        const more = row === undefined ? "" : data.nodes[row].slice(0, 5).join(" ");
        if (fits(`${line.textContent} ${more}`.toLowerCase())) state.hits.push(line);
      }
    } else state.hits = [...new Set(boxes.filter((b) => fits(b.text)).map((b) => (b.by ? b.by.shut : b.node)))];
    for (const hit of state.hits) hit.classList.add("match");
    $("found").textContent = `${state.hits.length} found`;
  }
  function nextHit() {
    if (!state.hits.length) return;
    state.hit = (state.hit + 1) % state.hits.length;
    const hit = state.hits[state.hit];
    const closed = hit.closest("details");
    if (closed) closed.open = true;
    hit.scrollIntoView({ block: "center", inline: "center" });
    pick(hit);
    const at = hit.dataset?.row;
    if (at !== undefined) explainRow(Number(at));
    $("found").textContent = `${state.hit + 1} of ${state.hits.length}`;
  }

  // ---- tables, memory, kernels, profile ---------------------------------------------------------------
  function table(caption, columns, rows) {
    const body = make("tbody");
    const fill = (sorted) => body.replaceChildren(...sorted.map((row) => make("tr", {}, ...columns.map(([, , show]) => make("td", {}, String(show(row)))))));
    let last = -1, up = false;
    const heads = columns.map(([name, key], i) => {
      const head = make("th", { scope: "col", "aria-sort": "none" });
      head.append(make("button", { type: "button", onclick: () => {
        up = last === i ? !up : false;
        last = i;
        for (const h of heads) h.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const order = (a, b) => (typeof key(a) === "number" ? key(a) - key(b) : String(key(a)).localeCompare(String(key(b))));
        fill([...rows].sort((a, b) => (up ? order(a, b) : order(b, a))));
      } }, name));
      return head;
    });
    fill(rows);
    return make("table", { class: "names" }, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...heads)), body);
  }
  const column = (name, key, show) => [name, typeof key === "function" ? key : (row) => row[key], show || ((row) => row[key])];

  function memory() {
    const plan = data.memory, place = $("memory");
    if (!plan || !plan.timeline.length) { place.append(make("p", {}, data.note || "There is no memory plan: nothing is kept between instructions.")); return; }
    const width = 1000, height = 340, low = 120, count = plan.timeline.length, arena = plan.arena || 1;
    const x = (i) => 60 + ((width - 70) * i) / count, y = (n) => 10 + (height * n) / arena;
    const most = Math.max(...plan.timeline, 1), base = height + 40;
    const z = (n) => base + low - (low * n) / most;
    const drawn = shape("svg", { class: "plot", viewBox: `0 0 ${width} ${base + low + 40}`, role: "group", "aria-label": `memory plan: arena of ${amount(plan.arena, "B")}, a table follows` });
    drawn.append(shape("text", { x: 4, y: 20 }, "0"), shape("text", { x: 4, y: 10 + height }, amount(plan.arena, "B")), shape("text", { x: 4, y: base + 10 }, amount(most, "B")));
    plan.buffers.forEach((b, i) => {
      const life = shape("rect", { class: "life", x: x(b.first), y: y(b.offset), width: Math.max(1, x(b.last + 1) - x(b.first)), height: Math.max(1, (height * b.nbytes) / arena), fill: `hsl(${(i * 47) % 360} 45% 62%)`, tabindex: -1 });
      const tell = () => explain(b.name, facts([["type", b.type], ["bytes", amount(b.nbytes, "B")], ["instructions", `${b.first} to ${b.last}`], ["offset", b.offset], ["module", b.scope]]));
      life.append(shape("title", {}, `${b.name} ${b.type}`));
      life.addEventListener("mouseenter", tell);
      life.addEventListener("focus", tell);
      drawn.append(life);
    });
    const path = plan.timeline.map((n, i) => `${i ? "L" : "M"}${x(i)},${z(n)}L${x(i + 1)},${z(n)}`).join("");
    drawn.append(shape("path", { d: path, fill: "none", stroke: "#26587f", "stroke-width": 1.5 }));
    drawn.append(shape("line", { x1: x(plan.peak + 0.5), x2: x(plan.peak + 0.5), y1: 10, y2: base + low, stroke: "#b3261e", "stroke-dasharray": "4 3" }));
    drawn.append(shape("text", { x: x(plan.peak + 0.5) + 4, y: base - 8 }, `peak at instruction ${plan.peak}`));
    drawn.append(shape("text", { x: 60, y: base + low + 25 }, `instruction 0 … ${count - 1}; above: each buffer's life and offset; below: bytes alive`));
    place.append(make("p", {}, `arena ${amount(plan.arena, "B")}, greatest live ${amount(plan.live, "B")}; states ${amount(plan.states, "B")}, inputs ${amount(plan.inputs, "B")}, outputs ${amount(plan.outputs, "B")}`), drawn);
    place.append(table("buffers in the arena", [column("buffer", "name"), column("bytes", "nbytes"), column("offset", "offset"), column("first", "first"), column("last", "last"), column("type", "type")], plan.buffers));
  }

  function kernels() {
    const place = $("kernels");
    if (!data.kernels.length) { place.append(make("p", {}, data.note || "There are no kernels.")); return; }
    place.append(table("instructions of the tape", [column("module", "scope"), column("number", "number"), column("kernel", (r) => r.kernel, (r) => `${r.kernel} ${r.label}`), column("FLOP", "flops", (r) => amount(r.flops, "")), column("moves", "bytes", (r) => amount(r.bytes, "B")), column("shares", (r) => r.parts.length, (r) => r.parts.map(([a, b]) => (a < b ? `${a}–${b}` : "–")).join(" ")), column("barrier", (r) => Number(r.barrier), (r) => (r.barrier ? "barrier" : "")), column("writes", (r) => r.writes.join(", ")), ], data.tape));
    for (const k of data.kernels)
      place.append(make("details", {}, make("summary", {}, `kernel ${k.number} ${k.label}, ${k.instructions.length} instructions`), ...(k.nest ? [make("pre", { "aria-label": "loop nest" }, k.nest)] : []), make("pre", { "aria-label": "source" }, k.source)));
  }

  function profile() {
    const p = data.profile, place = $("profile");
    if (!p) { place.append(make("p", {}, "Not profiled: save the page of a compiled function with profile=compiled.profile().")); return; }
    const columns = [column("name", "name"), column("share", "seconds", (r) => `${((100 * r.seconds) / p.step).toFixed(1)} %`), column("ms", "seconds", (r) => (1e3 * r.seconds).toFixed(3)), column("wait ms", "wait", (r) => (1e3 * r.wait).toFixed(3)), column("count", "count"), column("GFLOP/s", "gflops", (r) => r.gflops.toFixed(2)), column("GB/s", "gbytes", (r) => r.gbytes.toFixed(2)), column("roofline", "roofline", (r) => `${(100 * r.roofline).toFixed(0)} %`)];
    place.append(make("p", {}, `${(1e3 * p.step).toFixed(3)} ms a run over ${p.runs}, ${p.workers} workers; peaks measured: ${amount(p.peaks.flops, "FLOP/s")}, ${amount(p.peaks.bytes, "B/s")}`));
    place.append(table("kernels", columns, p.kernels), table("modules", columns, p.modules));
  }

  // ---- controls ---------------------------------------------------------------------------------------
  function go(i) {
    state.step = Math.min(steps.length - 1, Math.max(0, i));
    const step = steps[state.step];
    $("step").value = state.step;
    $("where").textContent = `${state.step + 1}/${steps.length} ${step.title}`;
    $("step").setAttribute("aria-valuetext", step.title);
    $("note").textContent = [step.note, step.same ? "no change" : "", state.step === 0 ? data.note : ""].filter(Boolean).join("; ");
    draw();
    if (!$("text").hidden) write();
    search();
  }
  const tabs = [...document.querySelectorAll("[role=tab]")];
  function show(tab) {
    for (const each of tabs) {
      const chosen = each === tab;
      each.setAttribute("aria-selected", String(chosen));
      each.tabIndex = chosen ? 0 : -1;
      $(each.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (tab.id === "tab-text") write();
    if (tab.id === "tab-graph") resize();
    search();
  }
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => show(tab));
    tab.addEventListener("keydown", (e) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[e.key];
      if (to !== undefined) { e.preventDefault(); show(tabs[to % tabs.length]); tabs[to % tabs.length].focus(); }
    });
  });
  $("step").max = steps.length - 1;
  $("step").addEventListener("input", () => go(Number($("step").value)));
  $("previous").addEventListener("click", () => go(state.step - 1));
  $("next").addEventListener("click", () => go(state.step + 1));
  $("level").addEventListener("change", () => { state.level = Number($("level").value); state.zoom = 0; draw(); search(); });
  $("larger").addEventListener("click", () => zoom(1.25));
  $("smaller").addEventListener("click", () => zoom(0.8));
  $("fit").addEventListener("click", () => { state.zoom = 0; resize(); });
  $("open").addEventListener("click", () => { state.closed.clear(); arrange(); search(); });
  $("shut").addEventListener("click", () => { for (const frame of frames) state.closed.add(frame.key); arrange(); search(); });
  $("only").addEventListener("change", () => { write(); search(); });
  $("closeall").addEventListener("click", () => {
    const all = [...$("lines").querySelectorAll("details")], open = all.some((d) => d.open);
    for (const d of all) d.open = !open;
    $("closeall").textContent = open ? "open all modules" : "close all modules";
  });
  $("search").addEventListener("input", () => { state.query = $("search").value; search(); });
  $("search").addEventListener("keydown", (e) => { if (e.key === "Enter") nextHit(); });
  document.addEventListener("keydown", (e) => {
    if (e.target.matches?.("input, select, textarea")) return;
    const keys = { "/": () => $("search").focus(), "+": () => zoom(1.25), "-": () => zoom(0.8), 0: () => $("fit").click(), "[": () => go(state.step - 1), "]": () => go(state.step + 1) };
    if (keys[e.key] && !e.ctrlKey && !e.metaKey && !e.altKey) { e.preventDefault(); keys[e.key](); }
  });
  window.addEventListener("resize", () => { if (!state.zoom) resize(); });
  pan();
  lineEvents();
  memory();
  kernels();
  profile();
  go(0);
  document.documentElement.dataset.ready = "true";
})();
