import type { HealthAnswer } from "../domain/health";

const CALL_MS = 8_000;

/** GET /health; null when no answer came in time. */
export async function fetchHealth(): Promise<HealthAnswer | null> {
  try {
    const response = await fetch("/health", { signal: AbortSignal.timeout(CALL_MS) });
    const body: unknown = await response.json().catch(() => null);
    return { status: response.status, body };
  } catch {
    return null;
  }
}
