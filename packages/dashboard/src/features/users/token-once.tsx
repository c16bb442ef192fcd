import type { NewToken } from "@roamfleet/protocol/routes";
import { Button, Command, Dialog, SecretOnce, shellLine } from "../../ui/index.ts";

export interface MadeToken {
  token: NewToken;
  /** Name of the user that it is of; absent: it is the org's. */
  of?: string | undefined;
  /** Until when the secret before it is still taken, in words. */
  old?: string | undefined;
}

/** A token that was made a moment ago: its one showing. */
export function TokenOnce({ made: { token, of, old }, onClose }: { made: MadeToken; onClose: () => void }) {
  return (
    <Dialog
      open
      onClose={onClose}
      title={of === undefined ? "A token of the org" : `A token of ${of.slice(0, 80)}`}
      actions={
        <Button look="primary" onClick={onClose}>
          I have it
        </Button>
      }
    >
      {token.token === null ? (
        <p>The token was made, but the first answer did not arrive, and it is not told twice. Rotate it to get another secret.</p>
      ) : (
        <>
          <SecretOnce secret={token.token}>It is shown this once. Whoever has it can do what it may.</SecretOnce>
          {old !== undefined && <p className="mt-3">{old}</p>}
          <p className="mt-3 mb-1 text-muted">To sign in: paste it on this server's page, or in a terminal</p>
          <Command>{shellLine("rf", "login", "--base-url", window.location.origin)}</Command>
        </>
      )}
    </Dialog>
  );
}
