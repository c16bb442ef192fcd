type Fields = Record<string, unknown>;

/**
 * Returns a function that removes optional fields with their default value from a body. Bodies that are equal afterwards are the same
 * request for an Idempotency-Key.
 */
export const withoutDefaults =
  (defaults: Readonly<Fields>) =>
  (body: Fields): Fields =>
    Object.fromEntries(Object.entries(body).filter(([name, value]) => !(name in defaults) || !isEqual(value, defaults[name])));

/** Compares as JSON; for defaults that are strings, numbers, booleans, or empty arrays and objects. */
const isEqual = (value: unknown, other: unknown): boolean => JSON.stringify(value) === JSON.stringify(other);

/** Converts `target_kind` and `target_id` to `robot_id` or `fleet_id`. */
export function withoutTargetKind(body: Fields): Fields {
  const { target_kind, target_id, ...rest } = body;
  if (target_kind !== "robot" && target_kind !== "fleet") return body;
  const name = `${target_kind}_id`;
  if (target_id !== undefined) return rest.robot_id === undefined && rest.fleet_id === undefined ? { ...rest, [name]: target_id } : body;
  return rest[name] === undefined ? body : rest;
}
