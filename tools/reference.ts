import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import {
  access,
  type AccessRow,
  fleetStreamAccess,
  fleetStreamPaths,
  ID_PREFIXES,
  type ObjectField,
  ROLES,
  SECRET_PREFIXES,
  streamAccess,
  streamPaths,
  DEPLOYMENT_STATUSES,
  TARGET_STATUSES,
  WAITING_FOR,
} from "@roamfleet/protocol";
import { type Access, type Route, routes } from "@roamfleet/protocol/routes";
import { root } from "../bin/launch.mjs";
import { LIMIT_DEFAULTS, type LimitName } from "../packages/server/src/config.ts";
import { DOCTOR_FLAGS } from "../packages/server/src/doctor/command.ts";
import { LIMIT_MEANINGS, SERVE_ENVIRONMENT, SERVE_FLAGS } from "../packages/server/src/flags.ts";
import { SWARM_FLAGS } from "../packages/swarm/src/options.ts";
import { OBJECTS, ROLE_TERMS, SECRETS, STATUSES, TERMS, WAITS } from "./glossary.ts";
import { CLIENT_INPUTS, type Input, ROBOT_INPUTS, SERVER_INPUTS } from "./limits.ts";

/** Generated pages of docs/reference by file name. */
export const PAGES: Readonly<Record<string, () => string>> = {
  "settings.md": settingsPage,
  "routes.md": routesPage,
  "roles.md": rolesPage,
  "limits.md": limitsPage,
  "glossary.md": glossaryPage,
};

export const pathOf = (page: string): string => path.join(root, "docs", "reference", page);

const GENERATED = "<!-- Written by `node tools/run.mjs tools/reference.ts` from the code; a test compares them. -->";

type Row = readonly string[];

function table(head: Row, rows: readonly Row[]): string {
  const line = (cells: Row): string => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), `|${head.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n");
}

const code = (text: string): string => `\`${text}\``;

function glossaryPage(): string {
  const rowsOf = (names: readonly string[], meanings: Readonly<Record<string, string>>): Row[] =>
    names.map((name) => [code(name), meanings[name] ?? ""]);
  const statuses = [...new Set<string>([...DEPLOYMENT_STATUSES, ...TARGET_STATUSES])];
  const prefixed = (prefixes: Readonly<Record<string, string>>, meanings: Readonly<Record<string, string>>, end: string): Row[] =>
    Object.entries(prefixes).map(([name, prefix]) => [name.replaceAll("_", " "), code(`${prefix}${end}`), meanings[name] ?? ""]);
  return `# Glossary

${GENERATED}

## Objects

${table(["object", "id", "meaning"], prefixed(ID_PREFIXES, OBJECTS, "_…"))}

## Terms

${table(
  ["term", "meaning", "in the code"],
  TERMS.map(({ term, meaning, code: name }) => [term, meaning, name === undefined ? "" : code(name)]),
)}

## Statuses of deployments and targets

Time limits and transitions: [deploying](../guide/deploying.md#status-of-a-target).

${table(["status", "meaning"], rowsOf(statuses, STATUSES))}

A queued target may wait for:

${table(["waiting for", "meaning"], rowsOf(WAITING_FOR, WAITS))}

## Roles and secrets

Each role includes the previous one.

${table(["role", "may"], rowsOf(ROLES, ROLE_TERMS))}

Secrets begin with a prefix that no id has.

${table(["secret", "form", "meaning"], prefixed(SECRET_PREFIXES, SECRETS, "…"))}
`;
}

function limitsPage(): string {
  const inputs = (rows: readonly Input[]): string =>
    table(
      ["input", "bound", "beyond it", "test"],
      rows.map(({ input, bound, beyond, test: file }) => [input, bound, beyond, `[${path.basename(file, ".test.ts")}](../../${file})`]),
    );
  return `# Limits

${GENERATED}

Everything that a robot, a viewer or a client of the API can make larger. Limits with a name can be set:
[settings](settings.md#limits). Why they are shared as they are: [limits of a link](../decisions/0051-limits-of-a-link.md).

## From a robot

${inputs(ROBOT_INPUTS)}

## From viewers and clients of the API

${inputs(CLIENT_INPUTS)}

## From a server, at the agent

${inputs(SERVER_INPUTS)}
`;
}

function settingsPage(): string {
  return `# Settings

${GENERATED}

How to use them: [operating the server](../guide/operating.md). Flags and variables of the agent: [robots](../guide/robots.md#flags).

## \`roamfleet serve\`

Flags win over the environment.

${table(
  ["flag", "meaning"],
  SERVE_FLAGS.map(({ flags, meaning }) => [code(flags), meaning]),
)}

${table(
  ["variable", "meaning"],
  SERVE_ENVIRONMENT.map(([name, meaning]) => [code(name), meaning]),
)}

## \`roamfleet doctor\`

The flags and variables of \`serve\`, and these; what it checks: [before it starts](../guide/operating.md#before-it-starts).

${table(
  ["flag", "meaning"],
  DOCTOR_FLAGS.map(({ flags, meaning }) => [code(flags), meaning]),
)}

## \`roamfleet swarm\`

Simulated robots, in a clone of the repository only; how to use them: [try a rollout](../guide/try-a-rollout.md).

${table(
  ["flag", "meaning"],
  SWARM_FLAGS.map(({ flags, meaning }) => [code(flags), meaning]),
)}

## Limits

Each is changed with \`--limit name=number\`.

${table(
  ["limit", "default", "meaning"],
  Object.entries(LIMIT_DEFAULTS).map(([name, value]) => [code(name), shown(name, value), LIMIT_MEANINGS[name as LimitName]]),
)}

## \`rf\`

Its environment variables are listed with its [commands](commands.md#environment).
`;
}

const BYTE_UNITS = [
  ["GiB", 1024 ** 3],
  ["MiB", 1024 ** 2],
] as const;

function shown(name: string, value: number): string {
  const unit = BYTE_UNITS.find(([, bytes]) => name.includes("bytes") && value >= bytes);
  return unit === undefined ? String(value) : `${value} (${value / unit[1]} ${unit[0]})`;
}

const ALL_STREAM_PATHS = { ...streamPaths, ...fleetStreamPaths };

const ACCESS: Record<Access, string> = {
  public: "anyone",
  viewer: "viewer",
  operator: "operator",
  admin: "admin",
  service_admin: "administrator of the service",
  robot: "a robot, by signature",
};

function routesPage(): string {
  const by_tag = Map.groupBy(Object.values(routes) as Route[], ({ tag }) => tag);
  const sections = [...by_tag].map(
    ([tag, own]) =>
      `## ${tag}\n\n${table(
        ["route", "for", "what"],
        own.map(({ method, path: at, access, idempotency, summary }) => [
          code(`${method} ${at}`),
          ACCESS[access] + keyed(idempotency),
          summary,
        ]),
      )}\n`,
  );
  return `# Routes

${GENERATED}

Conventions: [the API](../guide/api.md). Schemas: \`/openapi.json\` and \`/docs\` of your server. ¹ takes an \`Idempotency-Key\`, ² requires one.
WebSockets stand in [the API](../guide/api.md#live-logs) and [the link protocol](link-protocol.md).

${sections.join("\n")}`;
}

const keyed = (idempotency: Route["idempotency"]): string => (idempotency === undefined ? "" : idempotency === "required" ? " ²" : " ¹");

const OUTSIDE: Record<AccessRow["outside"], string> = {
  not_found: "404",
  filtered: "left out",
  forbidden: "403",
  allowed: "the same",
};

/** Returns the fields with which a request names objects, except the id in its path. */
const namedIn = (objects: readonly ObjectField[]): string =>
  objects
    .filter(({ in: place }) => place !== "params")
    .map(({ in: place, field, role }) => `${code(field)} (${place}): ${role}`)
    .join(", ");

function rolesPage(): string {
  const row = (at: string, { access: role, about, outside, objects }: AccessRow): Row => [
    code(at),
    ACCESS[role],
    about,
    OUTSIDE[outside],
    namedIn(objects),
  ];
  const portal = (Object.values(routes) as Route[]).filter(({ access: role }) => ["viewer", "operator", "admin"].includes(role));
  const head = ["route", "role", "about", "outside the scopes", "also needs, on what these name"];
  return `# Who may do what

${GENERATED}

How roles and scopes work: [roles](../guide/roles.md). Outside the scopes of a grant: **404** the object does not exist, **left out**
the list holds only what is inside, **403** the role must hold in the whole org, **the same** every member of the org may.

${table(
  head,
  portal.map(({ name, method, path: at }) => row(`${method} ${at}`, access[name])),
)}

## WebSockets

${table(
  head,
  Object.entries({ ...streamAccess, ...fleetStreamAccess }).map(([name, one]) =>
    row(ALL_STREAM_PATHS[name as keyof typeof ALL_STREAM_PATHS], one),
  ),
)}
`;
}

async function main(): Promise<void> {
  for (const [page, make] of Object.entries(PAGES)) {
    const text = make();
    const before = await readFile(pathOf(page), "utf8").catch(() => undefined);
    if (before !== text) await writeFile(pathOf(page), text);
    process.stdout.write(`docs/reference/${page}: ${before === text ? "as before" : "written"}\n`);
  }
}

// Compares paths because import.meta.main is false if the launcher, when its own Node is new enough, imports this file.
if (process.argv[1] === import.meta.filename) await main();
