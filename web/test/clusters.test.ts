import { describe, expect, test } from 'vitest'
import { cellPhase, cellText, clusterState, hubState, joinCommand, setRows, troubles } from '../src/lib/clusters'
import type { Policy, SetCluster } from '../src/lib/k8s'

const cluster = (conditions: [string, string, string?, string?][], pods = ['10.1.0.0/16']): SetCluster => ({
  metadata: { name: 'east' },
  spec: { addresses: { pods } },
  status: { conditions: conditions.map(([type, status, reason, message]) => ({ type, status, reason, message })) as never },
})

describe('a member of the set', () => {
  test('has the state that the command tells', () => {
    expect(clusterState({ metadata: { name: 'east' } })).toBe('Unknown')
    expect(clusterState(cluster([['Connected', 'False', 'NotJoined']]))).toBe('NotJoined')
    expect(clusterState(cluster([['Connected', 'True'], ['InSync', 'False']]))).toBe('Syncing')
    expect(clusterState(cluster([['Connected', 'True'], ['InSync', 'True']]))).toBe('InSync')
  })
  test('tells what needs attention', () => {
    expect(troubles(cluster([['Connected', 'True'], ['InSync', 'True'], ['ClaimsRefused', 'False', '', 'none']]))).toEqual([])
    expect(troubles(cluster([['Connected', 'False', 'Silent', 'not heard of'], ['ClaimsRefused', 'True', 'Some', 'Pod shop/x: 192.0.2.1']], []))).toEqual([
      'not heard of',
      'Pod shop/x: 192.0.2.1',
      'spec.addresses names no address: nothing that it has is believed.',
    ])
  })
})

describe('policies by cluster', () => {
  const policy = (name: string, namespace: string | undefined, clusters: object[]): Policy => ({ metadata: { name, namespace, generation: 3 }, spec: { priority: 1 }, status: { clusters } }) as never
  test('are those that are for clusters, each cluster in its column', () => {
    const rows = setRows([policy('b', undefined, [{ name: 'west', phase: 'Realized', observedGeneration: 3 }]), policy('own', undefined, [])], [policy('a', 'x y', [{ name: 'east' }])], [
      { metadata: { name: 'east' } },
      { metadata: { name: 'west' }, status: { kubernetesPolicies: [{ namespace: 'shop', name: 'k', phase: 'Realizing', currentNodesRealized: 1, desiredNodesRealized: 2 }] } },
    ])
    expect(cellPhase(rows[1]!.policy, rows[1]!.cells[1]!)).toBe('Realizing')
    expect(rows.map((r) => [r.name, r.path, r.cells.map((c) => c?.name)])).toEqual([
      ['b', '/policies/acnp/b', [undefined, 'west']],
      ['shop/k (Kubernetes)', '', [undefined, 'west']],
      ['x y/a', '/policies/annp/x%20y/a', ['east', undefined]],
    ])
  })
  test('say Unknown where nothing was heard, which is not Failed, and Pending for a former version', () => {
    const p = policy('b', undefined, [])
    expect(cellPhase(p, { name: 'east' })).toBe('Unknown')
    expect(cellPhase(p, { name: 'east', phase: 'Realized', observedGeneration: 2 })).toBe('Pending')
    expect(cellPhase(p, { name: 'east', phase: 'Realized', observedGeneration: 3 })).toBe('Realized')
    expect(cellText({ name: 'east', currentNodesRealized: 1, desiredNodesRealized: 2, reason: 'IdentityHidden' })).toBe('1 of 2, IdentityHidden')
  })
})

describe('the command that lets a cluster join', () => {
  const form = { name: 'east', pods: '10.1.0.0/16 fd00::/64', nodes: '', machines: '192.168.0.0/16', labels: 'env=prod,example.com/tier=a', server: '10.0.0.1:10349, [fd00::1]:10349' }
  test('has what was filled in', () => {
    expect(joinCommand(form)).toEqual({
      command: 'nephele cluster token east --pods 10.1.0.0/16,fd00::/64 --machines 192.168.0.0/16 --label env=prod --label example.com/tier=a --server 10.0.0.1:10349,[fd00::1]:10349',
      wrong: '',
    })
  })
  test('is there only if nothing of it could be anything else for a shell', () => {
    for (const [key, text] of Object.entries({ name: 'east; rm -rf /', pods: '10.1.0.0', nodes: '$(id)/8', machines: '10.0.0.0/8;id', labels: 'env=`id`', server: 'hub' })) {
      const got = joinCommand({ ...form, [key]: text })
      expect([key, got.command]).toEqual([key, ''])
      expect(got.wrong).not.toBe('')
    }
    expect(joinCommand({ ...form, pods: '', machines: '' }).wrong).toContain('nothing that the cluster has is believed')
  })
})

describe('a hub of several processes', () => {
  const now = Date.parse('2026-01-02T03:04:05Z')
  const told = (answers: boolean, at = '2026-01-02T03:04:00Z') =>
    JSON.stringify({ at, processes: [{ name: 'first', counts: true, answers: true }, { name: 'second', counts: true, answers: true }, { name: 'third', counts: true, answers }, { peer: '10.0.0.4:2380', answers }] })
  test('tells how many answer, and who does not', () => {
    expect(hubState(told(true), now)).toEqual({ text: '3 of 3 answer, and 2 are needed', bad: false })
    expect(hubState(told(false), now)).toEqual({ text: '2 of 3 answer, and 2 are needed; away: third, 10.0.0.4:2380', bad: true })
    expect(hubState(told(true, '2026-01-02T02:00:00Z'), now)).toEqual({ text: '3 of 3 answer, and 2 are needed; nothing was told of them for minutes', bad: true })
  })
  test('is nothing where nothing is told that can be read', () => {
    for (const wrong of [undefined, '', '{', '{}', '{"processes":{}}', '{"processes":[]}', 'null', JSON.stringify({ processes: Array(21).fill({}) })]) expect(hubState(wrong, now)).toBeUndefined()
  })
})
