import { expect, test } from 'vitest'
import { askable, bytesText, causeText, endText, missing, seenText, type FlowAnswer, type SeenFlow } from '../src/lib/flows'

const flow = (more: Partial<SeenFlow>): SeenFlow => ({ first: '', last: '', enforcer: 'worker', direction: 'In', from: { address: '10.0.0.1', kind: 'Pod', namespace: 'shop', name: 'web' }, to: { address: '10.0.0.2' }, protocol: 'TCP', verdict: 'Allow', by: { cause: 'Native' }, connections: 1, ...more })

test('ends are named, and asked about by their kind', () => {
  expect([endText(flow({}).from), endText(flow({}).to), endText({ address: '192.0.2.1', kind: 'Node', name: 'w' })]).toEqual(['shop/web', '10.0.0.2', 'node/w'])
  expect([askable(flow({}).from), askable(flow({}).to), askable({ address: 'x', kind: 'ExternalEntity', namespace: 'vms', name: 'db' })]).toEqual(['pod/shop/web', '10.0.0.2', 'ee/vms/db'])
})

test('what happened and what decided', () => {
  expect([seenText(flow({})), seenText(flow({ verdict: 'Reject', direction: 'Out' })), seenText(flow({ verdict: 'Unknown', direction: 'Through' }))]).toEqual(['accepted ingress', 'rejected egress', 'ended'])
  expect(causeText(flow({ by: { cause: 'Policy', type: 'AntreaNetworkPolicy', name: 'p', rule: 'r' } }))).toBe('r')
  expect(causeText(flow({ by: { cause: 'Policy', type: 'AntreaNetworkPolicy', name: 'p' } }))).toBe('rule 0')
  expect(causeText(flow({ by: { cause: 'Policy', type: 'K8sNetworkPolicy', name: 'p' } }))).toBe('')
  expect(causeText(flow({ hidden: true, by: { cause: 'Policy' } }))).toContain('may not read')
  expect(causeText(flow({ by: { cause: 'Unknown', why: 'because' } }))).toBe('unknown: because')
})

test('what is missing is said', () => {
  const a: FlowAnswer = { since: '', next: '', enforcers: 1, flows: [flow({ uncounted: true })], limited: true, more: 3, losses: { packets: 7, refused: 0 } }
  expect(missing(a)).toEqual([expect.stringContaining('7 denied packets'), expect.stringContaining('only flows with an end'), expect.stringContaining('nf_conntrack_acct'), expect.stringContaining('3 flows more')])
  expect([bytesText(0), bytesText(999), bytesText(1500), bytesText(104_096), bytesText(3e9)]).toEqual(['0 B', '999 B', '1.5 kB', '104 kB', '3.0 GB'])
})
