import { expect, test } from 'vitest'
import { readFileSync } from 'node:fs'
import type { Revision } from '../src/lib/k8s'
import { plain, Proofs } from '../src/lib/proof'

// What the commands say of these is tested in internal/history.
const file = JSON.parse(readFileSync(new URL('proofs.json', import.meta.url), 'utf8')) as { keys: string; revisions: (Revision & { What: string; unproven: string })[] }

test('the page says of revisions what the commands say', async () => {
  const proofs = await Proofs.of(file.keys)
  for (const r of file.revisions) {
    expect(await proofs.unproven(r), r.What).toBe(r.unproven)
  }
})

test('without keys no revision is proven', async () => {
  const proofs = await Proofs.of('')
  for (const r of file.revisions.filter((r) => !r.unproven)) {
    expect(await proofs.unproven(r)).toBe('its proof is of a key that is not believed')
  }
  await expect(Proofs.of('-----BEGIN PUBLIC KEY-----AAAA-----END PUBLIC KEY-----')).rejects.toThrow()
})

test('what is no signature is none', () => {
  for (const der of [[], [0x30], [0x30, 0], [0x30, 2, 2, 0], [0x30, 6, 2, 1, 1, 2, 1, 1, 9], [0x30, 7, 2, 1, 1, 2, 2, 1], [0x30, 6, 2, 1, 1, 3, 1, 1], [0x30, 6, 2, 9, 1, 2, 1, 1]]) {
    expect(plain(Uint8Array.from(der))).toBeUndefined()
  }
  expect(plain(Uint8Array.from([0x30, 6, 2, 1, 1, 2, 1, 2]))?.[63]).toBe(2)
})
