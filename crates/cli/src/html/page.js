"use strict";
// Reads the document that is embedded in the page and shows it. Whatever stands in the document is text: it is only ever put into text nodes.
(() => {
  const PAGE = 50;
  // Tables of fewer rows are seen at once.
  const SEARCHED_FROM = 15;
  const LOSSES_MAX = 12;
  const CELLS_MAX = 4096;
  const SEVERITIES = ["critical", "major", "minor", "note"];
  const data = JSON.parse(document.getElementById("data").textContent);
  const explanations = data.explanations || {};

  const element = (tag, properties, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name === "class") made.className = value;
      else made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  };
  const thousands = (number) => Number(number).toLocaleString("en");
  const counted = (number, one, many) => `${thousands(number)} ${number === 1 ? one : many}`;
  const bytes = (number) => {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let at = 0;
    let value = number;
    while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
    return at === 0 ? counted(value, "byte", "bytes") : `${value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
  };
  const duration = (ns) => {
    if (ns < 1e3) return `${ns} ns`;
    if (ns < 1e6) return `${(ns / 1e3).toFixed(1)} \u00b5s`;
    return ns < 1e9 ? `${(ns / 1e6).toFixed(1)} ms` : `${(ns / 1e9).toFixed(2)} s`;
  };
  const isLoss = (sentence) => Boolean(sentence) && !sentence.startsWith("Nothing");

  // A plan tells its problems by kind; the rest is as in a report of a repair.
  const fromPlan = (plan) => ({
    target: plan.target || plan.file,
    verdict: "plan",
    counts: Object.fromEntries((plan.problems || []).map((kind) => [kind.code, kind.count])),
    problems: (plan.problems || []).flatMap((kind) => kind.messages.map((message) => ({
      code: kind.code, message, severity: (explanations[kind.code] || {}).severity || "major", object: {},
    }))),
    repair: { files: [], losses: [], structures: [], tree: [], blocks: [], ...plan, outcome: "saved" },
  });
  const targets = data.targets || [data.plan ? fromPlan(data.plan) : data];

  // A table that is searched, sorted and leafed through; only the rows of one page are in the document.
  const table = ({ id, columns, rows, filters, open }) => {
    const state = { text: "", column: -1, down: false, page: 0, filter: "" };
    const texts = new Array(rows.length);
    const textOf = (at) => {
      if (texts[at] === undefined) texts[at] = columns.map((column) => column.text(rows[at])).join("\n").toLowerCase();
      return texts[at];
    };
    let order = rows.map((_, at) => at);
    const body = element("tbody");
    const status = element("span", { class: "soft" });
    const heads = columns.map((column, at) => element("th", column.number ? { scope: "col", class: "number" } : { scope: "col" }, element("button", { type: "button", onclick: () => sort(at) }, column.name)));
    const leaf = (by) => { state.page += by; show(); };
    const back = element("button", { type: "button", onclick: () => leaf(-1) }, "Previous");
    const next = element("button", { type: "button", onclick: () => leaf(1) }, "Next");
    const search = element("input", { type: "search", placeholder: "Search", "aria-label": "Search", oninput: () => { state.text = search.value.toLowerCase(); find(); } });
    const choice = filters && element("select", { "aria-label": "Show", onchange: () => { state.filter = choice.value; find(); } },
      element("option", { value: "" }, "All"), ...filters.values.map((value) => element("option", { value }, value)));

    const find = () => {
      order = [];
      for (let at = 0; at < rows.length; at += 1) {
        if (state.filter && !filters.of(rows[at]).includes(state.filter)) continue;
        if (!state.text || textOf(at).includes(state.text)) order.push(at);
      }
      arrange();
      state.page = 0;
      show();
    };
    const arrange = () => {
      if (state.column < 0) return;
      const key = columns[state.column].key || columns[state.column].text;
      const keys = new Map(order.map((at) => [at, key(rows[at])]));
      const sign = state.down ? -1 : 1;
      const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
      order.sort((a, b) => sign * compare(keys.get(a), keys.get(b)) || a - b);
    };
    const sort = (at) => {
      state.down = state.column === at && !state.down;
      state.column = at;
      heads.forEach((head, index) => head.removeAttribute("aria-sort") || (index === at && head.setAttribute("aria-sort", state.down ? "descending" : "ascending")));
      arrange();
      state.page = 0;
      show();
    };
    const line = (row) => {
      const made = element("tr", {}, ...columns.map((column) => {
        const kind = (column.class ? column.class(row) : "") || (column.number ? "number" : "");
        return element("td", kind ? { class: kind } : {}, column.text(row));
      }));
      if (open) {
        made.className = "openable";
        made.tabIndex = 0;
        const toggle = () => {
          if (made.nextSibling && made.nextSibling.dataset && made.nextSibling.dataset.detail) { made.nextSibling.remove(); return; }
          const detail = element("tr", { "data-detail": "1" }, element("td", { colspan: columns.length }, open(row)));
          made.after(detail);
        };
        made.addEventListener("click", toggle);
        made.addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(); });
      }
      return made;
    };
    const show = () => {
      const pages = Math.max(1, Math.ceil(order.length / PAGE));
      state.page = Math.min(Math.max(0, state.page), pages - 1);
      const from = state.page * PAGE;
      body.replaceChildren(...order.slice(from, from + PAGE).map((at) => line(rows[at])));
      const to = Math.min(order.length, from + PAGE);
      status.textContent = order.length ? `${thousands(from + 1)}\u2013${thousands(to)} of ${thousands(order.length)}` : "nothing found";
      back.disabled = state.page === 0;
      next.disabled = state.page >= pages - 1;
      back.hidden = next.hidden = pages === 1;
    };
    show();
    return element("div", { id },
      rows.length < SEARCHED_FROM && !choice ? null : element("div", { class: "controls" }, search, choice || null),
      element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body)),
      element("div", { class: "controls pager" }, back, next, status));
  };

  const section = (title, ...children) => element("section", {}, element("h2", {}, title), ...children);

  const verb = (action, file) => {
    switch (action.action) {
      case "removed": return "removed";
      case "truncated": return `truncated to ${thousands(action.size)} bytes`;
      case "extended": return `size set to ${thousands(action.size)} bytes`;
      case "unmapped": return `${counted(action.blocks, "block", "blocks")} removed from its block map, reads as zeros there`;
      case "copied": return `${counted(action.blocks, "block", "blocks")} copied`;
      case "renamed": return `renamed from ${action.path} to ${action.name}`;
      case "moved-to-lost-found": return `moved to lost+found as ${action.name}`;
      case "name-removed": return action.path === file.path ? "name removed" : `name ${action.path} removed`;
      case "corrected": return "metadata corrected";
      case "kept": return "kept as it is";
      default: return action.action;
    }
  };
  const TAKES = ["removed", "truncated", "unmapped", "name-removed"];
  const lossOf = (file) => (file.losses || []).map((code) => (explanations[code] || {}).loss || code).filter(isLoss).join(" ");
  const mayLose = (file) => lossOf(file) !== "" || file.actions.some((action) => TAKES.includes(action.action));
  const nameOf = (file) => file.path || (file.former_names && file.former_names.length ? `probably ${file.former_names[0].path}` : `inode ${file.inode}`);

  const head = (target) => {
    const repair = target.repair;
    const words = {
      sound: ["No problems found", "sound"], damaged: ["Damaged", "damaged"], refused: ["Not checked", "damaged"], cancelled: ["Cancelled", "other"],
      unconfirmed: ["Nothing confirmed", "other"], estimated: ["Estimated only", "other"], plan: ["A plan, not applied", "other"],
    };
    const [word, kind] = repair && repair.outcome === "written" ? ["Repaired", "sound"] : words[target.verdict] || [target.verdict, "other"];
    const found = Object.entries(target.counts || {}).filter(([code]) => (explanations[code] || {}).severity !== "note");
    const problems = found.reduce((sum, [, count]) => sum + count, 0);
    const lines = [];
    if (target.error) lines.push(`${target.error.message}. ${target.error.hint || ""}`);
    if (target.summary) {
      const is = target.summary;
      lines.push(`${is.kind}${is.label ? ` "${is.label}"` : ""}: ${thousands(is.files_used)} of ${thousands(is.files_total)} inodes, ` +
        `${bytes(is.blocks_used * is.block_size)} of ${bytes(is.blocks_total * is.block_size)} in use; journal: ${is.journal}`);
    }
    if (target.verdict !== "refused") lines.push(problems ? counted(problems, "problem", "problems") + "." : "No problems.");
    const outcomes = {
      written: "Written:", saved: "Nothing was written; a plan was saved. It writes", planned: "Nothing was written. The repair would write",
      impossible: "No complete repair was found; nothing was written.", nothing: "Nothing to do.",
      declined: "Nothing was written.", stopped: "Stopped; nothing was written.", "not-safe": "Not everything is safe to repair automatically; nothing was written.",
      finished: "An interrupted repair was finished.",
    };
    if (repair) {
      const size = `${bytes(repair.bytes || 0)} in ${counted((repair.blocks || []).length, "block", "blocks")}`;
      const said = outcomes[repair.outcome] || `Outcome: ${repair.outcome}.`;
      lines.push(said.endsWith(".") ? said : `${said} ${size}.`);
    }
    (target.warnings || []).concat(target.degraded || []).forEach((text) => lines.push(text));
    const losses = element("div", { class: "panel", id: "losses" }, element("strong", {}, "Estimate of loss: "));
    const kinds = repair ? repair.losses.filter((loss) => isLoss(loss.loss)).map((loss) => [loss.code, loss.count, loss.loss])
      : found.map(([code, count]) => [code, count, (explanations[code] || {}).loss]).filter(([, , loss]) => isLoss(loss));
    const losing = repair ? repair.files.filter(mayLose).length
      : new Set((target.problems || []).filter((problem) => kinds.some(([code]) => code === problem.code)).map((problem) => (problem.object || {}).inode)).size;
    losses.append(losing || kinds.length ? `${counted(losing, "file or directory", "files and directories")} may lose something.` : "nothing is lost by a repair.");
    if (kinds.length) {
      losses.append(element("ul", {}, ...kinds.slice(0, LOSSES_MAX).map(([code, count, loss]) => element("li", {}, `${loss} `, element("span", { class: "soft" }, `${code} (${thousands(count)})`))),
        kinds.length > LOSSES_MAX ? element("li", { class: "soft" }, `and ${thousands(kinds.length - LOSSES_MAX)} more kinds of problems`) : null));
    }
    if (!repair && kinds.length) losses.append(element("div", { class: "soft" }, "\"fsmend repair -n\" tells what happens to each file, and writes nothing."));
    return element("div", {}, element("p", {}, element("span", { class: `verdict ${kind}`, id: "verdict" }, word)),
      ...lines.map((text) => element("div", {}, text)), target.verdict === "refused" ? null : losses);
  };

  const filesOfRepair = (repair) => {
    const total = repair.files_total || repair.files.length;
    const more = total > repair.files.length ? element("p", { class: "soft" }, `${thousands(total - repair.files.length)} more are not listed.`) : null;
    const actions = [...new Set(repair.files.flatMap((file) => file.actions.map((action) => action.action)))].sort();
    // What may lose something comes first.
    const rows = [...repair.files.filter(mayLose), ...repair.files.filter((file) => !mayLose(file))];
    return section("What happens to which file", repair.files.length ? table({
      id: "files",
      rows,
      filters: { values: actions, of: (file) => file.actions.map((action) => action.action) },
      columns: [
        { name: "File", text: nameOf, class: () => "path" },
        { name: "Inode", text: (file) => String(file.inode), key: (file) => file.inode, number: true },
        { name: "Type", text: (file) => file.kind || "unknown" },
        { name: "Size", text: (file) => (file.size === undefined ? "" : bytes(file.size)), key: (file) => (file.size === undefined ? -1 : file.size), number: true },
        { name: "What happens", text: (file) => file.actions.map((action) => verb(action, file)).join(", ") },
        { name: "What may be lost", text: lossOf },
      ],
    }) : element("p", {}, "No file or directory is affected."), more);
  };

  const filesOfCheck = (problems) => {
    const files = new Map();
    for (const problem of problems) {
      const inode = problem.object && problem.object.inode;
      if (inode === undefined || problem.severity === "note") continue;
      const file = files.get(inode) || { inode, path: problem.object.path, problems: 0, worst: 3, codes: new Set() };
      file.problems += 1;
      file.worst = Math.min(file.worst, SEVERITIES.indexOf(problem.severity));
      file.codes.add(problem.code);
      files.set(inode, file);
    }
    if (!files.size) return null;
    const loses = (file) => [...file.codes].some((code) => isLoss((explanations[code] || {}).loss));
    const rows = [...files.values()];
    return section("Files with problems", table({
      id: "files",
      rows: [...rows.filter(loses), ...rows.filter((file) => !loses(file))],
      columns: [
        { name: "File", text: (file) => file.path || `inode ${file.inode}`, class: () => "path" },
        { name: "Inode", text: (file) => String(file.inode), key: (file) => file.inode, number: true },
        { name: "Problems", text: (file) => thousands(file.problems), key: (file) => file.problems, number: true },
        { name: "Worst", text: (file) => SEVERITIES[file.worst], key: (file) => file.worst, class: (file) => SEVERITIES[file.worst] },
        { name: "Loss", text: (file) => (loses(file) ? "something may be lost" : "nothing is lost") },
        { name: "Codes", text: (file) => [...file.codes].join(" ") },
      ],
    }));
  };

  const tree = (changes) => {
    if (!changes || !changes.length) return null;
    const shown = changes.slice(0, 1000);
    return section("The tree, before and after", element("div", { class: "tree panel", id: "tree" }, ...shown.flatMap((change) => [
      change.before ? element("div", { class: "minus" }, `- ${change.before}`) : null,
      change.after ? element("div", { class: "plus" }, `+ ${change.after}`) : null,
    ]).filter(Boolean)), changes.length > shown.length ? element("p", { class: "soft" }, `and ${thousands(changes.length - shown.length)} more`) : null);
  };

  const explained = (problem) => {
    const text = explanations[problem.code] || {};
    const parts = [["Meaning", text.meaning], ["Repair", text.repair], ["Lost", text.loss], ["Evidence", problem.evidence]];
    return element("div", {}, ...parts.filter(([, what]) => what).map(([name, what]) => element("div", {}, element("strong", {}, `${name}: `), what)));
  };
  const placeOf = (object) => {
    if (!object) return "";
    if (object.block !== undefined) return `block ${object.block}${object.blocks > 1 ? `\u2013${object.block + object.blocks - 1}` : ""}`;
    return object.group !== undefined ? `group ${object.group}` : object.inode !== undefined ? `inode ${object.inode}` : "";
  };
  const problemsOf = (target) => {
    if (!target.problems || !target.problems.length) return null;
    const listed = target.problems.length;
    const total = Object.values(target.counts || {}).reduce((sum, count) => sum + count, 0);
    return section("Problems", element("p", { class: "soft" }, "A line opens with its explanation." + (total > listed ? ` ${thousands(total - listed)} more are counted, not listed.` : "")), table({
      id: "problems",
      rows: target.problems,
      open: explained,
      filters: { values: SEVERITIES.filter((severity) => target.problems.some((problem) => problem.severity === severity)), of: (problem) => [problem.severity] },
      columns: [
        { name: "Severity", text: (problem) => problem.severity, key: (problem) => SEVERITIES.indexOf(problem.severity), class: (problem) => problem.severity },
        { name: "Problem", text: (problem) => problem.message, class: () => "path" },
        { name: "Place", text: (problem) => placeOf(problem.object), key: (problem) => { const at = problem.object || {}; return at.block ?? at.inode ?? at.group ?? -1; } },
        { name: "Code", text: (problem) => problem.code },
      ],
    }));
  };

  // The map: cells of equal size, as many as there are groups where that is a good number. A click looks closer, down to single blocks.
  const mapOf = (target) => {
    const map = target.map;
    if (!map || !map.areas.length) return null;
    const block = map.block_size;
    const first = Math.min(0, map.areas[0][0]);
    const last = map.areas[map.areas.length - 1];
    const end = last[0] + last[1];
    const writes = ((target.repair || {}).blocks || []).map((one) => [one.offset, one.length]);
    const damaged = [];
    for (const problem of target.problems || []) {
      const at = problem.object || {};
      if (problem.severity === "note") continue;
      if (at.block !== undefined) damaged.push([at.block * block, (at.blocks || 1) * block]);
      else if (at.group !== undefined && map.areas[at.group]) damaged.push([map.areas[at.group][0], block]);
    }
    damaged.sort((a, b) => a[0] - b[0]);
    const classes = ["metadata", "region", "journal", "directory"];
    const view = { from: first, to: end };
    const canvas = element("canvas", { tabindex: "0", role: "img", "aria-label": "Layout map" });
    const told = element("div", { class: "told soft" }, "Point at a cell to see what lies there; click to look closer.");
    const where = element("span", { class: "soft" });
    const out = element("button", { type: "button", onclick: () => zoom(view.from + (view.to - view.from) / 2, 1 / 16) }, "Zoom out");
    const whole = element("button", { type: "button", onclick: () => { view.from = first; view.to = end; draw(); } }, "Whole file system");
    const go = element("select", { "aria-label": map.area, onchange: () => { const area = map.areas[Number(go.value)]; if (area) { view.from = area[0]; view.to = area[0] + area[1]; draw(); } } },
      element("option", { value: "-1" }, `${map.area} ...`), ...map.areas.slice(0, 2000).map((_, at) => element("option", { value: at }, `${map.area} ${at}`)));
    let cells = [];
    let grid = { columns: 1, size: 1, cell: block };

    const firstBehind = (list, offset) => {
      let low = 0;
      let high = list.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (list[middle][0] + list[middle][1] <= offset) low = middle + 1; else high = middle;
      }
      return low;
    };
    const sum = (list, from, to, each) => {
      let total = 0;
      for (let at = firstBehind(list, from); at < list.length && list[at][0] < to; at += 1) {
        const inside = Math.min(to, list[at][0] + list[at][1]) - Math.max(from, list[at][0]);
        if (inside > 0) { total += inside; if (each) each(list[at], inside); }
      }
      return total;
    };
    // Lists of one kind may overlap: then a search by end is not exact, so what is long is cut to what is asked.
    const measure = (from, to) => {
      const cell = { from, to, kinds: new Map(), vacant: 0, metadata: 0, region: 0, journal: 0, directory: 0, free: 0, damaged: 0, written: 0 };
      sum(map.stretches, from, to, (stretch, inside) => {
        const [name, kind] = map.kinds[stretch[2]];
        cell[kind] += inside;
        cell.kinds.set(name, (cell.kinds.get(name) || 0) + inside);
        // What is free in a region is kept for metadata: it belongs to the region.
        if (kind === "region" && !map.free_is_cut) cell.vacant += sum(map.free, Math.max(from, stretch[0]), Math.min(to, stretch[0] + stretch[1]));
      });
      if (map.free_is_cut) {
        sum(map.areas, from, to, (area, inside) => { cell.free += area[1] ? inside * area[2] / area[1] : 0; });
      } else cell.free = sum(map.free, from, to) - cell.vacant;
      cell.damaged = sum(damaged, from, to);
      cell.written = sum(writes, from, to);
      cell.used = Math.max(0, to - from - cell.metadata - cell.region - cell.journal - cell.directory - cell.free);
      return cell;
    };
    const zoom = (middle, factor) => {
      const width = Math.min(end - first, Math.max(block * 64, (view.to - view.from) / factor));
      let from = Math.max(first, middle - width / 2);
      from = Math.floor(from / block) * block;
      view.from = Math.min(from, Math.max(first, end - width));
      view.to = Math.min(end, view.from + width);
      draw();
    };
    const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    const draw = () => {
      const range = view.to - view.from;
      const isWhole = view.from === first && view.to === end;
      const perArea = isWhole && map.areas.length >= 256 && map.areas.length <= CELLS_MAX;
      cells = [];
      if (perArea) map.areas.forEach((area) => cells.push(measure(area[0], area[0] + area[1])));
      else {
        const cell = Math.max(block, Math.ceil(range / CELLS_MAX / block) * block);
        for (let from = view.from; from < view.to; from += cell) cells.push(measure(from, Math.min(view.to, from + cell)));
      }
      const width = Math.max(320, canvas.clientWidth || 1100);
      const columns = Math.max(16, Math.min(cells.length, Math.round(Math.sqrt(cells.length * 3.2))));
      const size = width / columns;
      grid = { columns, size };
      const rows = Math.ceil(cells.length / columns);
      const scale = window.devicePixelRatio || 1;
      canvas.width = width * scale;
      canvas.height = Math.max(1, rows * size * scale);
      canvas.style.height = `${rows * size}px`;
      const paint = canvas.getContext("2d");
      paint.scale(scale, scale);
      const colours = Object.fromEntries(["free", "used", "metadata", "region", "journal", "directory", "damaged", "written"].map((name) => [name, colour(name)]));
      const gap = size > 5 ? 1 : 0;
      cells.forEach((cell, at) => {
        const x = (at % columns) * size;
        const y = Math.floor(at / columns) * size;
        const inner = size - gap;
        const parts = [...classes, "used", "free"].map((name) => [name, cell[name]]).filter(([, count]) => count > 0).sort((a, b) => b[1] - a[1]);
        const main = parts.length ? parts[0][0] : "free";
        const isVacant = main === "region" && 2 * cell.vacant > cell.region;
        paint.fillStyle = colours[isVacant ? "free" : main];
        paint.fillRect(x, y, inner, inner);
        if (isVacant) { paint.globalAlpha = 0.4; paint.fillStyle = colours.region; paint.fillRect(x, y, inner, inner); paint.globalAlpha = 1; }
        // What takes less than half of a cell is a strip at its foot.
        if (parts.length > 1 && size > 5) {
          const share = Math.max(1, inner * parts[1][1] / (cell.to - cell.from));
          paint.fillStyle = colours[parts[1][0]];
          paint.fillRect(x, y + inner - share, inner, share);
        }
        if (cell.damaged) { paint.fillStyle = colours.damaged; paint.fillRect(x, y, inner, Math.max(2, inner / 2)); }
        if (cell.written) { paint.fillStyle = colours.written; const side = Math.max(2, inner / 2); paint.fillRect(x + inner - side, y + inner - side, side, side); }
      });
      where.textContent = `${counted(cells.length, "cell", "cells")} of ${bytes(cells.length ? cells[0].to - cells[0].from : 0)}, blocks ${thousands(Math.floor(view.from / block))} to ${thousands(Math.ceil(view.to / block) - 1)}`;
      out.disabled = isWhole;
      whole.disabled = isWhole;
    };
    const cellAt = (event) => {
      const box = canvas.getBoundingClientRect();
      const column = Math.min(grid.columns - 1, Math.floor((event.clientX - box.left) / box.width * grid.columns));
      return cells[Math.floor((event.clientY - box.top) / grid.size) * grid.columns + column];
    };
    canvas.addEventListener("mousemove", (event) => {
      const cell = cellAt(event);
      if (!cell) return;
      const group = map.areas.findIndex((area) => cell.from >= area[0] && cell.from < area[0] + area[1]);
      const parts = [...cell.kinds].map(([name, count]) => `${name} ${bytes(count)}`);
      if (cell.used) parts.push(`contents ${bytes(Math.round(cell.used))}`);
      if (cell.vacant) parts.push(`free in it ${bytes(cell.vacant)}`);
      if (cell.free) parts.push(`free ${bytes(Math.round(cell.free))}`);
      if (cell.damaged) parts.push("problems");
      if (cell.written) parts.push(`to be written ${bytes(cell.written)}`);
      const blocks = `blocks ${thousands(Math.floor(cell.from / block))} to ${thousands(Math.ceil(cell.to / block) - 1)}`;
      told.textContent = `${blocks}${group >= 0 ? ` (${map.area} ${group})` : ""}: ${parts.join(", ") || "nothing known"}`;
    });
    canvas.addEventListener("click", (event) => { const cell = cellAt(event); if (cell) zoom((cell.from + cell.to) / 2, 16); });
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "+") zoom((view.from + view.to) / 2, 16);
      if (event.key === "-") zoom((view.from + view.to) / 2, 1 / 16);
    });
    window.addEventListener("resize", () => draw());
    const present = new Set(map.kinds.map(([, kind]) => kind));
    const legend = [["free", "free"], ["used", "contents"], ["metadata", "metadata"], ["region", "region for metadata (pale: free)"], ["journal", "journal or log"], ["directory", "directories"], ["damaged", "problems"], ["written", "to be written"]]
      .filter(([name]) => !classes.includes(name) || present.has(name));
    requestAnimationFrame(draw);
    draw();
    return section("Layout map", element("div", { class: "legend" }, ...legend.map(([name, word]) => element("span", {}, element("i", { style: `background: var(--${name})` }), word))),
      element("div", { class: "controls" }, go, out, whole, where), element("div", { id: "map" }, canvas), told);
  };

  const bars = (rows) => {
    const most = Math.max(1, ...rows.map((row) => row[1]));
    return element("div", { class: "bars" }, ...rows.flatMap(([name, count, text]) => [
      element("span", {}, name), element("i", { style: `width: ${100 * count / most}%` }), element("span", { class: "soft" }, text || thousands(count)),
    ]));
  };
  const histograms = (target) => {
    if (!target.histograms || !target.histograms.length) return null;
    return section("Files", element("div", { class: "histograms", id: "histograms" }, ...target.histograms.map((one) =>
      element("div", {}, element("h3", {}, one.title), bars(one.buckets)))));
  };
  const structures = (repair) => {
    if (!repair || !repair.structures || !repair.structures.length) return null;
    return section("Changed bytes by structure", bars(repair.structures.map((one) => [one.structure, one.bytes, bytes(one.bytes)])));
  };
  const stages = (target) => {
    const stats = target.stats;
    if (!stats || !stats.stages || !stats.stages.length) return null;
    const number = (name, get, text) => ({ name, text: (stage) => text(get(stage)), key: get, number: true });
    return section("Time and I/O by stage", element("p", { class: "soft" }, `${duration(stats.wall_ns)} in all, ${counted(stats.workers, "worker", "workers")}, ${stats.schedule}`),
      bars(stats.stages.map((stage) => [stage.name, stage.wall_ns, duration(stage.wall_ns)])),
      table({
        id: "stages",
        rows: stats.stages,
        columns: [
          { name: "Stage", text: (stage) => stage.name },
          number("Time", (stage) => stage.wall_ns, duration), number("CPU", (stage) => stage.cpu_ns, duration), number("Read", (stage) => stage.bytes_read, bytes),
          number("Requests", (stage) => stage.requests, thousands), number("Items", (stage) => stage.items, thousands), number("Memory", (stage) => stage.peak_memory, bytes),
        ],
      }));
  };

  const main = document.getElementById("main");
  const show = (at) => {
    const target = targets[at];
    const repair = target.repair;
    main.replaceChildren(...[
      targets.length > 1 ? element("h2", {}, target.target + (target.partition === undefined ? "" : `, partition ${target.partition}`)) : null,
      head(target),
      repair ? filesOfRepair(repair) : filesOfCheck(target.problems || []),
      tree(repair && repair.tree),
      problemsOf(target),
      mapOf(target),
      structures(repair),
      histograms(target),
      stages(target),
    ].filter(Boolean));
    document.querySelectorAll("#targets button").forEach((button, index) => button.setAttribute("aria-pressed", String(index === at)));
  };
  if (targets.length > 1) {
    document.getElementById("targets").append(...targets.map((target, at) =>
      element("button", { type: "button", onclick: () => show(at) }, `${target.target}${target.partition === undefined ? "" : `, partition ${target.partition}`}: ${target.verdict}`)));
  }
  show(0);
  document.getElementById("footer").append(element("p", { class: "soft" }, `fsmend ${data.tool ? data.tool.version : ""}. This page loads nothing from anywhere.`));
  document.documentElement.dataset.shown = String(Math.round(performance.now()));
})();
