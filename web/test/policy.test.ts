import { describe, expect, test } from 'vitest'
import type { Policy } from '../src/lib/k8s'
import { blank, diff, formOf, fromYaml, policyOf, rewrite, toYaml } from '../src/lib/policy'

const policy = `apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata:
  name: switches # of the data center
  namespace: demo
spec:
  tier: application
  priority: 10
  appliedTo:
  - externalEntitySelector:
      matchLabels:
        role: switch
  ingress:
  # CloudVision only
  - name: management
    action: Allow
    from:
    - externalEntitySelector:
        matchLabels:
          role: cvp
    ports:
    - protocol: TCP
      port: 22
  - name: odd
    action: Allow
    enableLogging: true
    protocols:
    - igmp: {}
`

describe('form and YAML', () => {
  test('what the form does not touch stays, comments among it', () => {
    const p = fromYaml(policy)
    expect(rewrite(policy, policyOf(formOf(p), p))).toBe(policy)
  })
  test('a change of one field changes one line', () => {
    const p = fromYaml(policy)
    const form = formOf(p)
    form.rules[0]!.traffic = 'tcp 443'
    const lines = diff(policy, rewrite(policy, policyOf(form, p))).filter((l) => l.mark !== ' ')
    expect(lines).toEqual([
      { mark: '-', text: '      port: 22' },
      { mark: '+', text: '      port: 443' },
    ])
  })
  test('a rule that goes takes no other with it', () => {
    const p = fromYaml(policy)
    const form = formOf(p)
    form.rules.splice(0, 1)
    const after = fromYaml(rewrite(policy, policyOf(form, p)))
    expect(after.spec.ingress).toEqual([p.spec.ingress![1]])
  })
  test('fields that the form does not know stay with their rule when rules change places', () => {
    const p = fromYaml(policy)
    const form = formOf(p)
    form.rules.reverse()
    const after = fromYaml(rewrite(policy, policyOf(form, p)))
    expect(after.spec.ingress).toEqual([p.spec.ingress![1], p.spec.ingress![0]])
  })
  test('staging is an annotation that comes and goes', () => {
    const p = fromYaml(policy)
    const staged = fromYaml(rewrite(policy, policyOf({ ...formOf(p), staged: true }, p)))
    expect(staged.metadata.annotations).toEqual({ 'nephele.io/stage': 'plan' })
    expect(policyOf({ ...formOf(staged), staged: false }, staged).metadata.annotations).toBeUndefined()
  })
  test('names that look like code are text', () => {
    const name = "<script>alert(1)</script>\n- '${x}' {{y}}"
    const p: Policy = { apiVersion: 'crd.antrea.io/v1beta1', kind: 'NetworkPolicy', metadata: { name: 'x', namespace: 'y', annotations: { a: name } }, spec: { priority: 1 } }
    expect(fromYaml(toYaml(p)).metadata.annotations).toEqual({ a: name })
  })
  test('random policies are the same after the form and the text', () => {
    const seed = Number(process.env.SEED ?? Date.now() % 100000)
    console.log(`seed ${seed}`)
    let state = seed
    const random = (n: number) => ((state = (state * 1103515245 + 12345) % 2147483648), Math.floor((state / 2147483648) * n))
    const pick = <T>(...all: T[]): T => all[random(all.length)]!
    const peers = () => [...Array(random(3))].map(() => pick<object>({ podSelector: { matchLabels: { a: 'b' } } }, { externalEntitySelector: {} }, { ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] } }, { group: 'g' }, { namespaceSelector: { matchExpressions: [{ key: 'k', operator: 'Exists' }] }, podSelector: {} }, { fqdn: '*.example.com' }, { namespaces: { match: 'Self' } }))
    const some = (key: string, list: unknown[]) => (list.length ? { [key]: list } : {})
    for (let i = 0; i < 150; i++) {
      const rule = (way: string) => ({
        ...pick({}, { name: 'r' + i }),
        action: pick('Allow', 'Drop', 'Pass', 'Reject'),
        ...some(way, peers()),
        ...some('ports', [...Array(random(3))].map(() => pick<object>({ protocol: 'TCP', port: random(65536) }, { protocol: 'UDP' }, { protocol: 'TCP', port: 1, endPort: 9 }, { protocol: 'TCP', port: 'https' }))),
        ...some('protocols', [...Array(random(2))].map(() => pick<object>({ icmp: {} }, { icmp: { icmpType: 8, icmpCode: 0 } }, { igmp: { igmpType: 17 } }))),
        ...pick({}, { enableLogging: true }),
      })
      const p = {
        apiVersion: 'crd.antrea.io/v1beta1',
        kind: 'ClusterNetworkPolicy',
        metadata: { name: 'p' },
        spec: { priority: random(10000), tier: pick('application', 'baseline'), ...some('appliedTo', peers()), ...some('ingress', [...Array(random(4))].map(() => rule('from'))), ...some('egress', [...Array(random(4))].map(() => rule('to'))) },
      } as Policy
      const text = toYaml(p)
      expect(fromYaml(rewrite(text, policyOf(formOf(fromYaml(text)), fromYaml(text))))).toEqual(p)
    }
  })
})

test.each(['', 'a: [', 'kind: Secret', 'kind: NetworkPolicy\napiVersion: v1', 'kind: NetworkPolicy\napiVersion: crd.antrea.io/v1beta1\nmetadata: {}\nspec: {ingress: 3}', 'a: &a [*a]'])('%j is no policy', (text) => {
  expect(() => fromYaml(text)).toThrow()
})

test('an error names its line', () => expect(() => fromYaml('a: b\nc: [')).toThrow(/line \d/))

test('what is new begins as something valid', () => {
  expect(formOf(fromYaml(blank('shop'))).namespace).toBe('shop')
  expect(formOf(fromYaml(blank(''))).cluster).toBe(true)
})
