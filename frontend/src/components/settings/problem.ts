import type { ErrorOut } from "../../types/api";

/** What a store threw, if it is a refusal of the server. */
export function refusalOf(error: unknown): ErrorOut | null {
  return typeof error === "object" && error !== null && "message" in error && "code" in error
    ? (error as ErrorOut)
    : null;
}

/** A sentence for the person. */
export function messageOf(error: unknown, otherwise: string): string {
  return refusalOf(error)?.message ?? otherwise;
}
