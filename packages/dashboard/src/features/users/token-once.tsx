import type { NewToken } from "@roamfleet/protocol/routes";
import { Button, Command, Dialog, SecretOnce, shellLine } from "../../ui/index.ts";

export interface MadeToken {
  token: NewToken;
  /** Name of the token's user; undefined for an organization token. */
  of?: string | undefined;
  /** How long the previous secret still works, in words. */
  old?: string | undefined;
}

/** Shows a new token, once. */
export function TokenOnce({ made: { token, of, old }, onClose }: { made: MadeToken; onClose: () => void }) {
  return (
    <Dialog
      open
      onClose={onClose}
      title={of === undefined ? "Token of the organization" : `Token of ${of.slice(0, 80)}`}
      actions={
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      {token.token === null ? (
        <p>
          The token was created, but the response with its secret was lost, and the secret is shown only once. Rotate the token to get
          another secret.
        </p>
      ) : (
        <>
          <SecretOnce secret={token.token}>
            Copy the token now: it is shown only once. Anyone with this token has its permissions.
          </SecretOnce>
          {old !== undefined && <p className="mt-3">{old}</p>}
          <p className="mt-3 mb-1 text-muted">To sign in, paste it on this server's sign-in page, or run in a terminal:</p>
          <Command>{shellLine("rf", "login", "--base-url", window.location.origin)}</Command>
        </>
      )}
    </Dialog>
  );
}
