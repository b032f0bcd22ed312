import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { untilFresh } from '../src/lib/fresh'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** asker notes when it was asked, and answers after a time. */
function asker(takes: number) {
  const begun = Date.now()
  const asked: number[] = []
  return { asked, ask: () => (asked.push(Date.now() - begun), new Promise((answer) => setTimeout(answer, takes))) }
}

test('what the server saw before a change is asked for again', async () => {
  const a = asker(100)
  untilFresh(700, a.ask)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(a.asked).toEqual([700, 2500])
})

test('the second question waits for the answer to the first', async () => {
  const a = asker(4000)
  untilFresh(700, a.ask)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(a.asked.map((ms) => Math.round(ms / 100) * 100)).toEqual([700, 4700])
})

test('an answer that can only be new is enough', async () => {
  const a = asker(100)
  untilFresh(3000, a.ask)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(a.asked).toEqual([3000])
})

test('another change ends the asking, before and between the questions', async () => {
  const before = asker(100)
  untilFresh(700, before.ask)()
  const between = asker(4000)
  const end = untilFresh(700, between.ask)
  await vi.advanceTimersByTimeAsync(1000)
  end()
  await vi.advanceTimersByTimeAsync(60_000)
  expect([before.asked, between.asked]).toEqual([[], [700]])
})
