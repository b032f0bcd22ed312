// Whether the controller has written a revision of the history, as `nephele history` says it: the
// signature of all of its spec is checked with the public keys that the controller publishes. What
// became of a revision, its status, is not signed.
import { ApiError, k8s } from './api'
import type { Revision } from './k8s'

/** Where the public keys are. */
export const PUBLISHED = '/api/v1/namespaces/kube-system/configmaps/nephele-history-keys'

const prefixes: Record<string, string> = {
  'crd.antrea.io/Tier': 'tr',
  'crd.antrea.io/Group': 'grp',
  'crd.antrea.io/ClusterGroup': 'cg',
  'crd.antrea.io/NetworkPolicy': 'annp',
  'crd.antrea.io/ClusterNetworkPolicy': 'acnp',
  'networking.k8s.io/NetworkPolicy': 'netpol',
  'policy.networking.k8s.io/ClusterNetworkPolicy': 'cnp',
  'policy.networking.k8s.io/AdminNetworkPolicy': 'anp',
  'policy.networking.k8s.io/BaselineAdminNetworkPolicy': 'banp',
}

const longestName = 200
const mostKeys = 8

const utf8 = new TextEncoder()
const bytes = (base64: string) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))

/** signed are the bytes of a revision that are signed: each text with its length before it. */
function signed(s: Revision['spec']): Uint8Array<ArrayBuffer> {
  const o = s.object
  const texts = ['nephele revision 1', o.group, o.version, o.kind, o.namespace, o.name, o.uid, s.number, s.change, s.generation, s.merged ?? 0, s.time, s.author?.user, s.author?.manager, s.hash, s.content, s.compressed, s.size]
  const out: number[][] = []
  let size = 0
  for (const text of texts) {
    const raw = utf8.encode(String(text ?? ''))
    const length: number[] = []
    let n = raw.length
    for (; n >= 0x80; n = Math.floor(n / 128)) length.push((n % 128) | 0x80)
    length.push(n)
    out.push(length, raw as unknown as number[])
    size += length.length + raw.length
  }
  const all = new Uint8Array(size)
  let at = 0
  for (const part of out) {
    all.set(part, at)
    at += part.length
  }
  return all
}

/** plain turns a signature from ASN.1 into its two numbers of 32 bytes; undefined if it is none. */
export function plain(der: Uint8Array): Uint8Array<ArrayBuffer> | undefined {
  if (der[0] !== 0x30 || der[1] !== der.length - 2) return undefined
  const out = new Uint8Array(64)
  let at = 2
  for (const half of [0, 32]) {
    const length = der[at + 1] ?? 0
    let number = der.subarray(at + 2, at + 2 + length)
    if (der[at] !== 0x02 || length === 0 || number.length !== length) return undefined
    at += 2 + length
    while (number.length > 1 && number[0] === 0) number = number.subarray(1)
    if (number.length > 32) return undefined
    out.set(number, half + 32 - number.length)
  }
  return at === der.length ? out : undefined
}

/** place is the name that the controller gives a revision; undefined of a kind without a history. */
async function place(s: Revision['spec']): Promise<string | undefined> {
  const prefix = prefixes[s.object.group + '/' + s.object.kind]
  if (!prefix) return undefined
  let name = s.object.name
  if (name.length > longestName) {
    const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', utf8.encode(name)))
    name = name.slice(0, longestName).replace(/[.-]+$/, '') + '-' + [...sum.slice(0, 4)].map((b) => b.toString(16).padStart(2, '0')).join('')
  }
  return `${prefix}-${name}-${s.number}`
}

/** Proofs knows the keys that are believed. */
export class Proofs {
  private known = new WeakMap<Revision, Promise<string>>()
  private constructor(private keys: Map<string, CryptoKey>) {}

  /** of reads keys as they are published; what is no such key is an error. */
  static async of(pem: string): Promise<Proofs> {
    const keys = new Map<string, CryptoKey>()
    for (const block of [...pem.matchAll(/-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----/g)].slice(0, mostKeys)) {
      const der = bytes(block[1]!.replace(/\s/g, ''))
      const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', der))
      const id = [...sum.slice(0, 8)].map((b) => b.toString(16).padStart(2, '0')).join('')
      keys.set(id, await crypto.subtle.importKey('spki', der, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['verify']))
    }
    return new Proofs(keys)
  }

  /** unproven is why it is not certain that the controller has written a revision; '' if it is. */
  unproven(r: Revision): Promise<string> {
    let answer = this.known.get(r)
    if (!answer) {
      answer = this.check(r).catch((e: Error) => 'it cannot be checked: ' + e.message)
      this.known.set(r, answer)
    }
    return answer
  }

  private async check(r: Revision): Promise<string> {
    if (!r.spec.proof) return 'it carries no proof'
    const [id, text] = r.spec.proof.split(':', 2)
    const key = this.keys.get(id ?? '')
    if (!key) return 'its proof is of a key that is not believed'
    const signature = /^[A-Za-z0-9+/]+=*$/.test(text ?? '') ? plain(bytes(text!)) : undefined
    if (!signature || !(await crypto.subtle.verify({ name: 'ECDSA', hash: 'SHA-256' }, key, signature, signed(r.spec)))) return 'its proof is not that of what it says'
    if ((r.spec.object.namespace ?? '') !== (r.metadata.namespace ?? '') || (await place(r.spec)) !== r.metadata.name) return 'it is not where the controller writes what it says'
    return ''
  }
}

let current: Promise<Proofs | string> | undefined
let read = 0

/** proofs are the proofs by the keys of now, or why nobody can tell. Keys are read each minute. */
export function proofs(now = Date.now()): Promise<Proofs | string> {
  if (!current || now - read > 60_000) {
    read = now
    current = crypto.subtle === undefined
      ? Promise.resolve('this browser checks signatures only of pages that come over TLS or from this machine')
      : k8s<{ data?: Record<string, string> }>(PUBLISHED)
          .then((c) => Proofs.of(c.data?.['keys.pem'] ?? ''))
          .catch((e: Error) => 'the keys are not known: ' + (e instanceof ApiError ? e.message : 'they cannot be read'))
  }
  return current
}

/** unproven is why it is not certain that the controller has written a revision; '' if it is. */
export async function unproven(r: Revision): Promise<string> {
  const p = await proofs()
  return typeof p === 'string' ? 'nobody can tell: ' + p : p.unproven(r)
}
