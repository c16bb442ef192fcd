import { addExamples, type Define, wholeNumber } from "../../command.ts";
import type { Context } from "../../context.ts";
import { readTime, type TimeOption } from "../../logs/options.ts";

/** Default number of points: one screen. */
const POINTS_SHOWN = 60;

interface Options {
  since?: TimeOption;
  until?: TimeOption;
  points?: number;
}

export const define: Define = (command, act) => {
  command
    .description(
      "Show a robot's health over time: one line per minute, or averages over longer intervals. `rf robots inspect` shows the current state.",
    )
    .argument("<id>", "Id of the robot")
    .option("--since <time>", "Start time: 10m, 2h, 3d ago, or RFC 3339 (default: an hour ago)", readTime)
    .option("--until <time>", "End time", readTime)
    .option("--points <n>", `At most this many lines (default: ${POINTS_SHOWN})`, wholeNumber(2))
    .action(act<[string, Options]>(run));
  addExamples(command, ["rf robots health rob_… --since 1d", "rf robots health rob_… --since 7d --points 2000 --json"]);
};

async function run(context: Context, id: string, { since, until, points }: Options): Promise<void> {
  const { out } = context;
  const query = { since: since?.(context.now()), until: until?.(context.now()), points: points ?? POINTS_SHOWN };
  const answer = await (await context.client()).getRobotHealthHistory({ params: { id }, query });
  await out.result(answer, () => {
    if (answer.items.length === 0) return out.note("No health data in this period.");
    const shown = (value: number | null, unit: string): string => (value === null ? "–" : `${value.toFixed(0)} ${unit}`);
    return out.table(answer.items, [
      { title: "TIME", value: ({ at }) => at },
      { title: "CPU", value: ({ cpu_percent }) => shown(cpu_percent, "%") },
      { title: "LOAD", value: ({ load_1m }) => load_1m.toFixed(2) },
      { title: "MEMORY", value: ({ memory_percent }) => shown(memory_percent, "%") },
      { title: "TEMPERATURE", value: ({ temperature_celsius }) => shown(temperature_celsius, "°C") },
      { title: "BATTERY", value: ({ battery_percent }) => shown(battery_percent, "%") },
      { title: "DISKS", value: ({ disks }) => disks.map(({ mount, percent }) => `${mount} ${percent.toFixed(0)} %`).join(", ") || "–" },
    ]);
  });
}
