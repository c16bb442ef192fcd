import { Type } from "typebox";
import { VERSION_NUMBERS_PATTERN } from "../agent-version.ts";
import { ALERT_CONDITIONS } from "../states.ts";
import { Entity, type Of } from "./route.ts";
import { Maybe, OneOf } from "../schema.ts";

export const AlertCondition = Entity("AlertCondition", {
  type: OneOf(ALERT_CONDITIONS),
  check: Maybe(Type.String({ minLength: 1, maxLength: 200, description: "check_failing: the name of the check. Default: any check" })),
  percent: Maybe(Type.Integer({ minimum: 1, maximum: 99, description: "disk_above: the used share of a disk. Default: 90" })),
  below: Maybe(
    Type.String({
      pattern: VERSION_NUMBERS_PATTERN,
      description: "agent_outdated: the oldest current version. Default: the server's version",
    }),
  ),
});
export type AlertCondition = Of<typeof AlertCondition>;
