import { fill, h, methodBadge, prose } from "./dom.js";
import { operationView, schemaView } from "./operation.js";

const DOCUMENTS = [
  { title: "API", url: "/openapi.json" },
  { title: "Agent", url: "/agent/openapi.json" },
];
const THEME_KEY = "roamfleet-docs-theme";

const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const content = byId("content");
/** The token lives in its input and nowhere else: gone with the page. */
const credentials = () => ({ token: byId("token").value.trim(), org: byId("org").value.trim() });

/** Everything that can be shown, in the order of the list. */
let entries = [];
let roots = [];

async function start() {
  setTheme(readTheme());
  byId("theme").addEventListener("click", () => setTheme(otherTheme()));
  byId("menu").addEventListener("click", () => openMenu(!document.body.classList.contains("menu")));
  byId("search").addEventListener("input", renderList);
  byId("search").addEventListener("keydown", (event) => event.key === "Enter" && openFirst());
  document.addEventListener("keydown", focusSearch);
  window.addEventListener("hashchange", renderContent);
  try {
    roots = await Promise.all(DOCUMENTS.map(({ url }) => load(url)));
  } catch (error) {
    fill(content, h("h1", {}, "The API description could not be loaded"), h("p", {}, error.message));
    return;
  }
  byId("version").textContent = roots[0].info.version;
  entries = roots.flatMap((root, i) => entriesOf(root, DOCUMENTS[i].title));
  renderList();
  renderContent();
}

async function load(url) {
  const response = await fetch(url, { credentials: "omit" });
  if (!response.ok) throw new Error(`${url} returned status ${response.status}`);
  return await response.json();
}

function entriesOf(root, title) {
  const operations = Object.entries(root.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      hash: operation.operationId,
      group: operation.tags[0],
      label: operation.summary,
      method,
      path,
      words: [operation.operationId, operation.summary, method, path, operation.tags[0]].join(" ").toLowerCase(),
      view: () => operationView({ root, method, path, operation }, credentials),
    })),
  );
  const grouped = root.tags.flatMap(({ name }) => operations.filter(({ group }) => group === name));
  const schemas = Object.keys(root.components.schemas).map((name) => ({
    hash: `schema/${name}`,
    group: title === "API" ? "Schemas" : "Schemas of the agent",
    label: name,
    words: `${name} schema`.toLowerCase(),
    view: () => schemaView(root, name),
  }));
  return [...grouped, ...schemas];
}

function renderList() {
  const wanted = byId("search").value.trim().toLowerCase().split(/\s+/);
  const found = entries.filter(({ words }) => wanted.every((word) => words.includes(word)));
  const groups = Map.groupBy(found, ({ group }) => group);
  fill(
    byId("routes"),
    found.length === 0 ? h("p", { class: "muted" }, "No matching operations.") : null,
    [...groups].map(([group, list]) => h("section", {}, h("h3", {}, group), h("ul", {}, list.map(listItem)))),
  );
}

const listItem = (entry) =>
  h(
    "li",
    {},
    h(
      "a",
      { href: `#${entry.hash}`, "aria-current": entry.hash === location.hash.slice(1) ? "page" : null, title: entry.path },
      entry.method === undefined ? null : methodBadge(entry.method),
      h("span", {}, entry.label),
    ),
  );

function openFirst() {
  const link = byId("routes").querySelector("a");
  if (link !== null) location.hash = link.hash;
}

function renderContent() {
  const entry = entries.find(({ hash }) => hash === decodeURIComponent(location.hash.slice(1)));
  fill(content, entry === undefined ? home() : h("article", {}, entry.view()));
  document.title = entry === undefined ? "Roamfleet API reference" : `${entry.label} · Roamfleet`;
  for (const link of byId("routes").querySelectorAll("a")) {
    if (link.hash === location.hash) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  openMenu(false);
  window.scrollTo(0, 0);
}

function home() {
  const { info } = roots[0];
  return h(
    "article",
    {},
    h("h1", {}, info.title),
    prose(info.description),
    h(
      "p",
      {},
      "OpenAPI documents: ",
      DOCUMENTS.map(({ url }, i) => [i === 0 ? "" : ", ", h("a", { href: url }, url)]),
      ".",
    ),
    h("h2", {}, "Routes"),
    h(
      "ul",
      { class: "all" },
      entries
        .filter(({ method }) => method !== undefined)
        .map(({ hash, method, path, label }) =>
          h("li", {}, h("a", { href: `#${hash}` }, methodBadge(method), h("code", {}, path)), h("span", { class: "muted" }, label)),
        ),
    ),
  );
}

function focusSearch(event) {
  if (event.key !== "/" || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  event.preventDefault();
  byId("search").focus();
}

function openMenu(open) {
  document.body.classList.toggle("menu", open);
  byId("menu").setAttribute("aria-expanded", String(open));
}

function readTheme() {
  try {
    return localStorage.getItem(THEME_KEY) ?? "";
  } catch {
    return "";
  }
}

function otherTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  return now === "dark" ? "light" : "dark";
}

function setTheme(theme) {
  if (theme !== "light" && theme !== "dark") return;
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(THEME_KEY, theme);
  } catch {
    // Storage may be off; the choice then lasts as long as the page.
  }
}

await start();
