/** Pieces of a message. Pure. */
import type { PartOut } from "../types/api";

/** A part with only the fields that its type has. */
export function part(type: PartOut["type"], fields: Partial<PartOut>): PartOut {
  return {
    type,
    text: "",
    call_id: "",
    name: "",
    arguments: "",
    is_error: false,
    attachment_id: "",
    mime: "",
    size: 0,
    ...fields,
  };
}
