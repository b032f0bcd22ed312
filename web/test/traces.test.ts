import { describe, expect, test } from 'vitest'
import { endText, observationText, outcome, packetText, resultsOf, traceSpec, type Traceflow, type TraceForm } from '../src/lib/traces'

const form = (more: Partial<TraceForm>): TraceForm => ({ from: 'shop/web', to: 'shop/db', protocol: 'TCP', port: '5432', live: false, ...more })

describe('what is to be traced', () => {
  test('becomes a Traceflow', () => {
    expect(traceSpec(form({}))).toEqual({
      wrong: '',
      spec: { source: { namespace: 'shop', pod: 'web' }, destination: { namespace: 'shop', pod: 'db' }, packet: { ipHeader: { protocol: 6 }, transportHeader: { tcp: { dstPort: 5432 } } } },
    })
    expect(traceSpec(form({ to: 'svc/shop/db', port: '' })).spec?.destination).toEqual({ namespace: 'shop', service: 'db' })
    expect(traceSpec(form({ to: '2001:db8::1', protocol: 'ICMP', port: '' })).spec?.packet).toEqual({ ipv6Header: { nextHeader: 58 }, transportHeader: { icmp: {} } })
    expect(traceSpec(form({ from: '192.0.2.7', protocol: 'UDP', live: true })).spec?.liveTraffic).toBe(true)
  })
  test('is refused where it is none', () => {
    for (const [more, want] of [
      [{ from: '' }, 'From'],
      [{ from: '192.0.2.7' }, 'From'],
      [{ from: 'svc/shop/web' }, 'From'],
      [{ from: 'shop/web;id' }, 'From'],
      [{ to: 'db' }, 'To'],
      [{ to: '../x/y' }, 'To'],
      [{ port: '70000' }, 'Port'],
      [{ port: '1.5' }, 'Port'],
      [{ port: '' }, 'Port'],
      [{ from: '192.0.2.7', to: '192.0.2.8', live: true }, 'One end'],
    ] as [Partial<TraceForm>, string][]) {
      const got = traceSpec(form(more))
      expect(got.spec, JSON.stringify(more)).toBeUndefined()
      expect(got.wrong).toMatch(want)
    }
  })
})

describe('a traced packet', () => {
  const t: Traceflow = {
    metadata: { name: 't' },
    spec: { source: { namespace: 'shop', pod: 'web' }, destination: { ip: '10.0.0.1' }, packet: { ipHeader: { protocol: 17 }, transportHeader: { udp: { dstPort: 53 } } } },
    status: {
      phase: 'Succeeded',
      traced: { node: 'n0' },
      results: [
        { node: 'n1', role: 'receiver', observations: [{ component: 'NetworkPolicy', componentInfo: 'IngressRule', action: 'Dropped', networkPolicy: 'AntreaNetworkPolicy:shop/no', networkPolicyRule: 'r' }] },
        { node: 'n0', role: 'sender', observations: [{ component: 'Forwarding', componentInfo: 'Output', action: 'Forwarded', tunnelDstIP: '192.168.1.2' }] },
      ],
    },
  }
  test('is told as the command tells it', () => {
    expect(endText(t.spec.source) + ' ' + endText(t.spec.destination) + ' ' + packetText(t)).toBe('shop/web 10.0.0.1 UDP 53')
    expect(resultsOf(t).flatMap((r) => (r.observations ?? []).map(observationText))).toEqual([
      'Forwarding (Output) Forwarded to Node 192.168.1.2',
      'NetworkPolicy (IngressRule) Dropped by AntreaNetworkPolicy:shop/no rule r',
    ])
  })
  test('has an outcome', () => {
    const with_ = (status: Traceflow['status']) => outcome({ ...t, status }).word
    expect(outcome(t)).toEqual({ word: 'Dropped', tone: 'bad' })
    expect(with_(undefined)).toBe('Pending')
    expect(with_({ phase: 'Running' })).toBe('Running')
    expect(with_({ phase: 'Failed', reason: 'x' })).toBe('Failed')
    expect(with_({ phase: 'Succeeded', results: [{ observations: [{ action: 'ForwardedOutOfNetwork' }] }] })).toBe('Delivered')
  })
})
