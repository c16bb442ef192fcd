type Fields = Record<string, unknown>;

/**
 * Makes the spelling of a body, in which optional fields that have their default value are left out. Two bodies that are equal
 * afterwards are the same request for an Idempotency-Key.
 */
export const withoutDefaults =
  (defaults: Readonly<Fields>) =>
  (body: Fields): Fields =>
    Object.fromEntries(Object.entries(body).filter(([name, value]) => !(name in defaults) || !isEqual(value, defaults[name])));

/** Equal as JSON; for defaults that are text, numbers, booleans, or empty lists and objects. */
const isEqual = (value: unknown, other: unknown): boolean => JSON.stringify(value) === JSON.stringify(other);

/** A robot or fleet as `robot_id` or `fleet_id`, also where it was sent as `target_kind` and `target_id`. */
export function withoutTargetKind(body: Fields): Fields {
  const { target_kind, target_id, ...rest } = body;
  if (target_kind !== "robot" && target_kind !== "fleet") return body;
  const name = `${target_kind}_id`;
  if (target_id !== undefined) return rest.robot_id === undefined && rest.fleet_id === undefined ? { ...rest, [name]: target_id } : body;
  return rest[name] === undefined ? body : rest;
}
