import { useState } from "react";
import { Button, Card, Command, PageHeader, TextInput } from "../../ui/index.ts";
import type { Refusal } from "./admin-client.ts";

interface Parts {
  refusal: Refusal;
  /** What the server said to the last try. */
  message: string | undefined;
  busy: boolean;
  onToken: (token: string) => void;
}

/** Asks for the token of the server's own configuration; it is not one of an org or a user. */
export function TokenForm({ refusal, message, busy, onToken }: Parts) {
  const [token, setToken] = useState("");
  return (
    <div className="mx-auto max-w-md pt-8">
      <PageHeader title="Service admin" label="Service admin" meta="For whoever runs this server: which orgs there are, and who gets in." />
      <Card>
        {refusal === "elsewhere" ? (
          <div className="space-y-3">
            <p role="alert">{message}.</p>
            <p className="text-muted">Open this page on the server's own machine, or start the server with a token:</p>
            <Command>{"SERVICE_ADMIN_TOKEN=$(openssl rand -hex 32) roamfleet serve …"}</Command>
          </div>
        ) : (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              if (token.trim() !== "") onToken(token.trim());
            }}
          >
            <TextInput
              label="Admin token"
              type="password"
              autoComplete="off"
              autoFocus
              spellCheck={false}
              required
              value={token}
              onChange={(event) => setToken(event.target.value)}
              hint="The server's SERVICE_ADMIN_TOKEN. It is kept until you leave this page, and nowhere else."
              error={message}
            />
            <Button look="primary" type="submit" className="w-full" busy={busy}>
              Go on
            </Button>
          </form>
        )}
      </Card>
    </div>
  );
}
