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
  let picture = null, natural = 1, boxes = [];
  function draw() {
    const drawings = shown(state.step).drawings || [];
    const chosen = drawings[Math.min(state.level, drawings.length - 1)];
    $("level").replaceChildren(...drawings.map((d, i) => make("option", { value: i, selected: d === chosen || false }, d.name)));
    $("drawn").textContent = chosen ? chosen.note : "nothing is drawn";
    picture = null; boxes = [];
    if (!chosen || !chosen.svg) { $("canvas").replaceChildren(); return; }
    picture = document.importNode(new DOMParser().parseFromString(chosen.svg, "image/svg+xml").documentElement, true);
    picture.setAttribute("role", "group");
    picture.setAttribute("aria-label", `${data.title}, ${chosen.name}`);
    natural = parseFloat(picture.getAttribute("width")) || 800;
    picture.removeAttribute("height");
    $("canvas").replaceChildren(picture);
    for (const node of picture.querySelectorAll("g.node")) prepare(node, chosen.boxes);
    for (const frame of picture.querySelectorAll("g.cluster")) prepareFrame(frame);
    for (const edge of picture.querySelectorAll("g.edge, g.graph")) edge.querySelector(":scope > title")?.remove();
    resize();
    for (const name of state.closed) closeFrame(name);
  }
  function prepare(node, all) {
    const title = node.querySelector("title"), number = /^n(\d+)$/.exec(title.textContent);
    if (!number || !all[number[1]]) { title.remove(); return; }
    const box = all[number[1]];
    title.textContent = box[0];
    node.setAttribute("tabindex", "0");
    node.setAttribute("role", "button");
    node.setAttribute("aria-label", `${box[0]}${box[3] ? ", changed in this step" : ""}`);
    if (box[3]) node.classList.add(box[3] === "+" ? "added" : "changed");
    const tell = () => { pick(node); explainBox(box); };
    node.addEventListener("mouseenter", () => explainBox(box));
    node.addEventListener("focus", tell);
    node.addEventListener("click", tell);
    boxes.push({ node, text: `${box[0]} ${box[1]} ${box[2].map((r) => data.nodes[r].slice(0, 5).join(" ")).join(" ")}`.toLowerCase() });
  }
  function pick(node) {
    for (const other of document.querySelectorAll(".picked")) other.classList.remove("picked");
    node.classList.add("picked");
  }
  // A closed module is a lid over its frame: what is in it keeps its place and its arrows.
  const frameName = (frame) => frame.querySelector("text")?.textContent || "";
  function prepareFrame(frame) {
    frame.querySelector("title")?.remove();
    const name = frameName(frame);
    if (!name || name === "legend") return;
    frame.setAttribute("tabindex", "0");
    frame.setAttribute("role", "button");
    frame.setAttribute("aria-expanded", "true");
    frame.setAttribute("aria-label", `module ${name}`);
    const close = () => { state.closed.add(name); closeFrame(name); };
    frame.addEventListener("click", close);
    frame.addEventListener("keydown", enterable(close));
  }
  function closeFrame(name) {
    if (!picture) return;
    for (const frame of picture.querySelectorAll("g.cluster")) {
      if (frameName(frame) !== name || frame.lid) continue;
      const area = frame.getBBox();
      const inside = boxes.filter(({ node }) => {
        const b = node.getBBox();
        return b.x >= area.x && b.y >= area.y && b.x + b.width <= area.x + area.width && b.y + b.height <= area.y + area.height;
      });
      const words = shape("text", { x: area.x + area.width / 2, y: area.y + area.height / 2, "text-anchor": "middle", "font-size": 12 }, `${name}: ${inside.length} boxes`);
      const lid = shape("g", { class: "lid", tabindex: 0, role: "button", "aria-expanded": "false", "aria-label": `module ${name}, closed` },
        shape("rect", { x: area.x, y: area.y, width: area.width, height: area.height, rx: 6 }), words);
      const open = () => openFrame(frame, name);
      lid.addEventListener("click", open);
      lid.addEventListener("keydown", enterable(open));
      for (const { node } of inside) node.setAttribute("tabindex", "-1");
      frame.lid = lid;
      frame.inside = inside;
      frame.setAttribute("aria-expanded", "false");
      frame.parentNode.append(lid);
      if (document.activeElement === frame) lid.focus();
    }
  }
  function openFrame(frame, name) {
    state.closed.delete(name);
    for (const { node } of frame.inside) node.setAttribute("tabindex", "0");
    const focused = document.activeElement === frame.lid;
    frame.lid.remove();
    frame.lid = undefined;
    frame.setAttribute("aria-expanded", "true");
    if (focused) frame.focus();
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
    } else for (const { node, text } of boxes) if (fits(text)) state.hits.push(node);
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
  $("open").addEventListener("click", () => { state.closed.clear(); draw(); search(); });
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
