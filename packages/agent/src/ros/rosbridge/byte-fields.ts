/** Types whose arrays rosbridge sends as base64. */
const BYTE_TYPES = new Set(["uint8", "char", "byte", "octet"]);

/** The fields of one message type that contain bytes: true for an array of bytes, a map for a nested message. */
export type ByteFields = ReadonlyMap<string, true | ByteFields>;

/** Parses the response of `rosapi/message_details`: the type itself comes first, then its nested types. */
export function readByteFields(type: string, typedefs: unknown): ByteFields {
  const definitions = new Map<string, Record<string, unknown>>();
  for (const value of listOf(typedefs)) {
    if (typeof value === "object" && value !== null) definitions.set(plainType(String(Reflect.get(value, "type"))), { ...value });
  }
  return fieldsOf(plainType(type), definitions, new Set());
}

function fieldsOf(type: string, definitions: ReadonlyMap<string, Record<string, unknown>>, above: ReadonlySet<string>): ByteFields {
  const made = new Map<string, true | ByteFields>();
  const definition = definitions.get(type);
  // Protects against a response in which a type contains itself.
  if (definition === undefined || above.has(type)) return made;
  const [names, types, lengths] = ["fieldnames", "fieldtypes", "fieldarraylen"].map((key) => listOf(definition[key]));
  for (const [index, name] of names!.entries()) {
    const field_type = String(types![index]);
    const is_array = Number(lengths![index]) >= 0;
    if (is_array && BYTE_TYPES.has(field_type)) made.set(String(name), true);
    else {
      const inner = fieldsOf(plainType(field_type), definitions, new Set([...above, type]));
      if (inner.size > 0) made.set(String(name), inner);
    }
  }
  return made;
}

/** Returns the message with base64 replaced by bytes. */
export function withBytes(message: unknown, fields: ByteFields): unknown {
  if (Array.isArray(message)) return message.map((one) => withBytes(one, fields));
  if (typeof message !== "object" || message === null) return message;
  for (const [name, inner] of fields) {
    const value: unknown = Reflect.get(message, name);
    if (inner !== true) Reflect.set(message, name, withBytes(value, inner));
    else if (typeof value === "string") Reflect.set(message, name, new Uint8Array(Buffer.from(value, "base64")));
  }
  return message;
}

/** Details may use either `sensor_msgs/msg/Image` (ROS 2) or `sensor_msgs/Image` (ROS 1). */
const plainType = (type: string): string => type.replace("/msg/", "/");

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
