import type { ApprovedOrg } from "@roamfleet/protocol/routes";
import { useMutation } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { signIn } from "../../api/session.ts";
import { Button, Command, Dialog, SecretOnce, shellLine, tellError } from "../../ui/index.ts";

/** Shows the first token of an organization and the next steps. */
export function BootstrapToken({ org: { name, token }, onClose }: { org: ApprovedOrg; onClose: () => void }) {
  const router = useRouter();
  const entering = useMutation({
    mutationFn: (secret: string) => signIn(secret),
    onSuccess: async () => {
      await router.invalidate();
      await router.navigate({ to: "/" });
    },
    onError: tellError,
  });
  return (
    <Dialog
      open
      onClose={onClose}
      title={`${name.slice(0, 80)} is active`}
      actions={
        <>
          <Button onClick={onClose}>Done</Button>
          {token !== null && (
            <Button look="primary" busy={entering.isPending} onClick={() => entering.mutate(token)}>
              Sign in with this token
            </Button>
          )}
        </>
      }
    >
      {token === null ? (
        <p>
          The organization was approved, but the response with its token was lost, and the token is shown only once. Suspend the
          organization and create another one.
        </p>
      ) : (
        <div className="text-left">
          <SecretOnce secret={token}>
            Copy the bootstrap token now: it is shown only once. It has full access to this organization.
          </SecretOnce>
          <ol className="mt-4 list-decimal space-y-2 pl-5">
            <li>
              Send it over a secure channel, or sign in with it on this server's page or in a terminal:
              <div className="mt-1">
                <Command>{shellLine("rf", "login", "--base-url", window.location.origin, "--token", token)}</Command>
              </div>
            </li>
            <li>Enroll the first robot.</li>
            <li>Invite users, each with a separate token. Then revoke this token.</li>
          </ol>
        </div>
      )}
    </Dialog>
  );
}
