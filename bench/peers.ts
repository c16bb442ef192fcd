import type { Results } from "./results.ts";

/** Figures of one run with three products side by side. It was in November 2026; no day is recorded. */
const PEERS = [
  ["a page of 100 of 10,000 devices, CPU ms (server + database)", "1.44 + 2.60", "2.7 + 1.6", "22 + 7"],
  ["enroll a device, 8 at a time, CPU ms (server + database)", "1.03 + 1.28", "", "0.99 + 0.47"],
  ["a release to 1,000 robots", "4 s", "16–18 s", "30–35 s"],
] as const;

/** Returns server + PostgreSQL in milliseconds, from the row's lines of the total and of PostgreSQL's part. */
function cpuNow(results: Results, row: string): string {
  const us = (text: string): number | undefined => results[row]?.lines.find(({ part = "" }) => part.includes(text))?.ours?.median;
  const [total, database] = [us("CPU of server and PostgreSQL"), us("of that PostgreSQL")];
  if (total === undefined || database === undefined) return "";
  return [total - database, database].map((one) => (one / 1_000).toFixed(2)).join(" + ");
}

/** The section that compares us with other products. */
export function peersOf(results: Results): string {
  const now = [cpuNow(results, "list-robots"), cpuNow(results, "enroll"), ""];
  const lines = PEERS.map(([what, ours, balena, hawkbit], i) => `| ${what} | ${now[i]} | ${ours} | ${balena} | ${hawkbit} |`);
  return `## Beside other products

| operation | ours now | ours then | openBalena then | hawkBit then |
|---|---|---|---|---|
${lines.join("\n")}

"Then" is one run with all three side by side, in November 2026; no day is recorded. Each had 10,000 devices and 8 clients, with fsync on.
"Ours now" is from the rows \`list-robots\` and \`enroll\` below, measured on another day and machine. A fair ratio needs one run.`;
}
