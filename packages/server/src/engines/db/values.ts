import { types } from "pg";

/** OIDs of the PostgreSQL types of the columns that Roamfleet reads. They never change; see pg_type.dat. */
export const OID = {
  bool: 16,
  bytea: 17,
  name: 19,
  int8: 20,
  int2: 21,
  int4: 23,
  text: 25,
  json: 114,
  float4: 700,
  float8: 701,
  varchar: 1043,
  date: 1082,
  timestamptz: 1184,
  uuid: 2950,
  jsonb: 3802,
} as const;

type Parse = (value: string) => unknown;

function parseBigint(value: string): number {
  const parsed = Number(value);
  if (!Number.isSafeInteger(parsed)) throw new Error(`bigint ${value} does not fit a JS number`);
  return parsed;
}

const parseAnyTimestamp = types.getTypeParser(OID.timestamptz);

/** Whether a timestamp has the usual form. Sessions use UTC, so that is `2030-01-01 00:00:00.123456+00`. */
const isUsual = (value: string): boolean => value.length >= 22 && value.charCodeAt(10) === 32 && value.endsWith("+00");

/** Formats a timestamp like `wireTime`, without a Date, which would take 40 times as long. */
function wireTimestamp(value: string): unknown {
  if (!isUsual(value)) return (parseAnyTimestamp(value) as Date).toISOString();
  return `${value.slice(0, 10)}T${value.slice(11, 19)}.${`${value.slice(20, -3)}000`.slice(0, 3)}Z`;
}

/** Parses a timestamp. The usual form is quick to convert for Date.parse. */
function parseTimestamp(value: string): unknown {
  if (isUsual(value)) {
    const ms = Date.parse(`${value.slice(0, 10)}T${value.slice(11, -3)}Z`);
    if (!Number.isNaN(ms)) return new Date(ms);
  }
  return parseAnyTimestamp(value);
}

const asIs: Parse = (value) => value;

/**
 * Parsers for the values of each type, used instead of the driver's global ones. An int8 becomes a number. A date stays text, because a JS
 * Date would depend on the machine's time zone.
 */
export const valueParsers = {
  getTypeParser(oid: number, format?: string): Parse {
    if (format === "binary") return types.getTypeParser(oid, "binary");
    switch (oid) {
      case OID.text:
      case OID.varchar:
      case OID.date:
        return asIs;
      case OID.int8:
        return parseBigint;
      case OID.timestamptz:
        return parseTimestamp;
      default:
        return types.getTypeParser(oid) as Parse;
    }
  },
};

/** The same parsers, except that a time becomes the text of a response. */
export const wireValueParsers = {
  getTypeParser: (oid: number, format?: string): Parse =>
    oid === OID.timestamptz && format !== "binary" ? wireTimestamp : valueParsers.getTypeParser(oid, format),
};
