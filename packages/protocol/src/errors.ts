/** Every error code of the API with its HTTP status. `http_error` is returned with the statuses in HTTP_ERROR_STATUSES. */
export const ERROR_STATUS = {
  bad_request: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  http_error: 500,
  internal_server_error: 500,
} as const;
export type ErrorCode = keyof typeof ERROR_STATUS;

export const HTTP_ERROR_STATUSES = [405, 406, 408, 411, 412, 413, 414, 415, 416, 423, 426, 429, 431, 501, 503] as const;
export type HttpErrorStatus = (typeof HTTP_ERROR_STATUSES)[number];

/** Body of every error response. */
export interface ErrorEnvelope {
  error: { code: ErrorCode; message: string };
}

/** Any JSON value. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };
