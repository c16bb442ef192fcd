import { PROMISES } from "./promises.ts";

/** The figures of the last successful run by promise number: of the full size or, if that never ran, of `npm test`. */
export type Kept = Record<string, { figures: readonly string[]; date: string; machine: string; size?: "test" }>;

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");

/** Generates docs/reference/promises.md: each promise, its proof, and the figures of its last run. */
export function renderPage(kept: Kept): string {
  const rows = PROMISES.map(({ number, promise, proof }) => {
    const { figures: measured, date, size } = kept[number] ?? { figures: ["**not proven yet**"], date: "" };
    const figures = size === "test" ? ["**so far in the sizes of `npm test` only**", ...measured] : measured;
    return `| ${number} | ${cell(promise)} | ${cell(proof)} | ${figures.map(cell).join("<br>")} | ${date} |`;
  });
  const machines = [...new Set(Object.values(kept).map(({ machine }) => machine))];
  return `# Promises

<!-- Written by \`npm run promises\`, which proves them; a test compares the promises with the code. -->

What Roamfleet guarantees, and the figure that the proof of each measured. Run it yourself: \`npm run promises\`, or
\`npm run promises -- 16\` for one of them. \`npm test\` runs the same proofs in smaller sizes.

Measured on ${machines.join("; ")}.

| | promise | how it is proven | measured | on |
|---|---|---|---|---|
${rows.join("\n")}
`;
}
