import { Type } from "typebox";
import { Maybe, Shape } from "../schema.ts";
import { SELECTED_ROBOTS_MAX } from "../states.ts";
import { Id, Labels, named, type Of } from "./route.ts";

/** Selects the robots that match all given parts; at least one is required. The answer has the parts that were given. */
export const TargetSelector = named(
  "TargetSelector",
  Shape({
    site_id: Maybe({ ...Id, description: "Robots of this site" }),
    fleet_id: Maybe({ ...Id, description: "Robots of this fleet" }),
    labels: Maybe({ ...Labels, description: "Robots with all of these labels" }),
    robot_ids: Maybe(Type.Array(Id, { minItems: 1, maxItems: SELECTED_ROBOTS_MAX, description: "Only these robots" })),
  }),
);
export type TargetSelector = Of<typeof TargetSelector>;
