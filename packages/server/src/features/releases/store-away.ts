import { S3Error } from "../../engines/blobs/index.ts";
import { Fault } from "../../kernel/fault.ts";

const RETRY_SECONDS = "2";

/** Does what needs the store of artifacts. Throws 503 when the store does not answer, so that whoever asked comes again. */
export async function orStoreAway<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // What a person has to mend is an error of the server: the log says which.
    if (!(error instanceof S3Error) || error.stays) throw error;
    throw new Fault("http_error", "the store of artifacts does not answer; try again. What it has acknowledged is kept", {
      status: 503,
      headers: { "retry-after": RETRY_SECONDS },
      detail: { store: error.message },
    });
  }
}
