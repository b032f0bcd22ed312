/**
 * How long after a change an answer can still be one from before it, in milliseconds: the server may answer from what it
 * saw two seconds ago (reviewAge of the controller).
 */
const OLDEST = 2500

/**
 * untilFresh asks a moment after a change, and again as soon as no answer can be from before the change: nothing else may
 * change after that. The second question waits for the answer to the first. It returns what ends the asking.
 */
export function untilFresh(delay: number, ask: () => Promise<unknown>): () => void {
  let ended = false
  const changed = Date.now()
  let timer = setTimeout(async () => {
    const asked = Date.now()
    await ask()
    if (!ended && asked - changed < OLDEST) {
      timer = setTimeout(() => void ask(), Math.max(0, OLDEST - (Date.now() - changed)))
    }
  }, delay)
  return () => {
    ended = true
    clearTimeout(timer)
  }
}
