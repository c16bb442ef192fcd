import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import addFormats from "ajv-formats";
import { closest } from "fastest-levenshtein";
import type { RouteSpec } from "@roamfleet/protocol/routes";
import type { TObject } from "typebox";
import { checkText } from "./body.ts";
import { badRequest, printable } from "./fault.ts";

const options = { strict: false, useDefaults: true, verbose: true } as const;
// JSON bodies have types. Query values are text and are converted to the type in the schema.
const body_ajv = new Ajv(options);
const query_ajv = new Ajv({ ...options, coerceTypes: true });
(addFormats as unknown as (ajv: Ajv) => void)(body_ajv);
(addFormats as unknown as (ajv: Ajv) => void)(query_ajv);

/** Schema of an object without fields. All routes share this one, because Ajv compiles each schema object separately. */
const NO_FIELDS = { type: "object", additionalProperties: false };

type Record_ = Record<string, unknown>;

/** Validates the query and the body of one route, and returns them in the form that the handler gets. */
export interface Validator {
  query(raw: unknown): Record_;
  body(raw: unknown): Record_;
}

export function validator(route: RouteSpec): Validator {
  const query = check(query_ajv, route.query, "query parameter");
  const body = check(body_ajv, route.body, "field");
  const aliases = Object.entries(route.aliases ?? {});
  return {
    query: (raw) => {
      const value = { ...(raw as Record_) };
      for (const text of Object.values(value).flat()) if (typeof text === "string") checkText(text, "the query");
      return query(value);
    },
    body: (raw) => {
      if (raw === undefined) return body({});
      if (typeof raw !== "object" || raw === null || Array.isArray(raw)) throw badRequest("the body must be a JSON object");
      const value = { ...(raw as Record_) };
      for (const [alias, field] of aliases) rename(value, alias, field);
      return body(dropNulls(value, route.body));
    },
  };
}

function rename(value: Record_, alias: string, field: string): void {
  if (value[alias] === undefined || value[alias] === null) {
    delete value[alias];
    return;
  }
  if (value[field] !== undefined && value[field] !== null) throw badRequest(`${field} and ${alias} mean the same; send one of them`);
  value[field] = value[alias];
  delete value[alias];
}

/** Removes nulls: `null` in an optional field is the same as omitting it. */
function dropNulls(value: Record_, schema: TObject | undefined): Record_ {
  const required = new Set<string>(schema?.required ?? []);
  for (const [key, property] of Object.entries(schema?.properties ?? {})) {
    const field = value[key];
    if (field === null && !required.has(key)) delete value[key];
    else if (isObject(field) && isObject((property as TObject).properties)) value[key] = dropNulls({ ...field }, property as TObject);
  }
  return value;
}

const isObject = (value: unknown): value is Record_ => typeof value === "object" && value !== null && !Array.isArray(value);

function check(ajv: Ajv, schema: TObject | undefined, what: string): (value: Record_) => Record_ {
  const known = Object.keys(schema?.properties ?? {});
  let validate: ValidateFunction | undefined;
  return (value) => {
    // Compiles the schema at its first use. Compiling the schemas of all routes takes 150 ms, and a start needs few of them.
    validate ??= ajv.compile(schema ?? NO_FIELDS);
    if (validate(value)) return value;
    throw badRequest(explain(validate.errors?.[0], what, known));
  };
}

/**
 * Returns a validator for an object in the body field `field`, with a separate schema. It returns the object without nulls in optional
 * fields. It throws 400 with a path that starts at the field.
 */
export function fieldValidator(field: string, schema: TObject): (value: Record_) => Record_ {
  const around = { type: "object", properties: { [field]: schema } } as unknown as TObject;
  const checked = check(body_ajv, around, "field");
  return (value) => checked({ [field]: dropNulls({ ...value }, schema) })[field] as Record_;
}

/** Returns one sentence that names the field and the expected value. */
function explain(error: ErrorObject | undefined, what: string, known: readonly string[]): string {
  if (error === undefined) return "the request is not valid";
  const at = error.instancePath.slice(1).replaceAll("/", ".");
  const params = error.params as Record<string, unknown>;
  if (error.keyword === "additionalProperties") {
    const name = String(params.additionalProperty);
    const siblings = at === "" ? known : Object.keys((error.parentSchema?.properties ?? {}) as object);
    return unknownField(what, at === "" ? name : `${at}.${name}`, name, siblings);
  }
  if (error.keyword === "required") return `${what} ${printable(joined(at, String(params.missingProperty)))} is required`;
  const field = `${what} ${printable(at)}`;
  if (error.keyword === "enum") return `${field} must be one of ${(params.allowedValues as unknown[]).join(", ")}`;
  if (error.keyword === "pattern" || error.keyword === "format") {
    const description = (error.parentSchema as { description?: string } | undefined)?.description;
    return `${field} must be ${description ?? `in the form ${String(params.pattern ?? params.format)}`}`;
  }
  return `${field} ${error.message ?? "is not valid"}`;
}

const joined = (path: string, name: string): string => (path === "" ? name : `${path}.${name}`);

function unknownField(what: string, path: string, name: string, known: readonly string[]): string {
  const near = known.length === 0 ? undefined : closest(name.slice(0, 100), known);
  return `unknown ${what} ${printable(path)}${near === undefined ? "" : `; the nearest known one is ${near}`}`;
}
