export interface BulkChange {
  labels?: { set?: Record<string, string>; remove?: string[] };
  fleet_id?: string;
}

/** Robots of one request: few enough that the bar moves. */
const PART_ROBOTS = 200;
/** So many ids stand in the line for the terminal; with more it says how to get them. */
const LISTED_IDS_MAX = 5;

export const chunks = <T>(all: readonly T[], size = PART_ROBOTS): T[][] =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, index) => all.slice(index * size, (index + 1) * size));

/** The same by `rf`. */
export function bulkCommand(robot_ids: readonly string[], change: BulkChange): string {
  const body = { robot_ids, ...change };
  if (robot_ids.length <= LISTED_IDS_MAX) return `rf api POST /api/robots/bulk --input - <<'END'\n${JSON.stringify(body)}\nEND`;
  const { robot_ids: ids, ...rest } = body;
  return `# ids.json: an array of the ids of these ${ids.length} robots, up to 1,000 a call\njq '{robot_ids: .} + ${JSON.stringify(rest).replaceAll("'", String.raw`'\''`)}' ids.json | rf api POST /api/robots/bulk --input -`;
}
