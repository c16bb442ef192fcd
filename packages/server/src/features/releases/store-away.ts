import { S3Error } from "../../engines/blobs/index.ts";
import { Fault } from "../../kernel/fault.ts";

const RETRY_SECONDS = "2";

/** Runs work that needs the artifact store. Throws 503 if the store does not respond, so that the client retries. */
export async function orStoreAway<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // An error that an operator must fix is a server error: the log contains the cause.
    if (!(error instanceof S3Error) || error.stays) throw error;
    throw new Fault("http_error", "the artifact store does not respond; try again. Acknowledged bytes are kept", {
      status: 503,
      headers: { "retry-after": RETRY_SECONDS },
      detail: { store: error.message },
    });
  }
}
