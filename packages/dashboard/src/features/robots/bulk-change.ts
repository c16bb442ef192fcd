export interface BulkChange {
  labels?: { set?: Record<string, string>; remove?: string[] };
  fleet_id?: string;
}

/** Robots per request: few enough for visible progress. */
const PART_ROBOTS = 200;
/** Maximum IDs listed in the command. For more, the command reads a file. */
const LISTED_IDS_MAX = 5;

export const chunks = <T>(all: readonly T[], size = PART_ROBOTS): T[][] =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, index) => all.slice(index * size, (index + 1) * size));

/** Returns the equivalent `rf` command. */
export function bulkCommand(robot_ids: readonly string[], change: BulkChange): string {
  const body = { robot_ids, ...change };
  if (robot_ids.length <= LISTED_IDS_MAX) return `rf api POST /api/robots/bulk --input - <<'END'\n${JSON.stringify(body)}\nEND`;
  const { robot_ids: ids, ...rest } = body;
  return `# ids.json: an array of the ids of these ${ids.length} robots, up to 1,000 a call\njq '{robot_ids: .} + ${JSON.stringify(rest).replaceAll("'", String.raw`'\''`)}' ids.json | rf api POST /api/robots/bulk --input -`;
}
