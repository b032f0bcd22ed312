import { describe, expect, test } from 'vitest'
import { warnings } from '../src/lib/api'
import { selected } from '../src/lib/labels'
import { Wrong, ago, csv, csvCell, longLabel, parseSelector, parseTraffic, peerText, selectorText, shortLabel, trafficText } from '../src/lib/text'

describe('label selectors', () => {
  test.each(['', 'app=web', 'app=web, tier in (a,b)', 'x/y notin (1), !gone, there', 'nephe.antrea.io/tag-role=db'])('%s is the same when read and written', (text) => {
    expect(selectorText(parseSelector(text))).toBe(text)
  })
  test('other spellings', () => {
    expect(parseSelector('a==b,c!=d')).toEqual({ matchLabels: { a: 'b' }, matchExpressions: [{ key: 'c', operator: 'NotIn', values: ['d'] }] })
  })
  test.each(['a=b=c', 'a=<img>', '-a=b', 'a=b, a=c', 'a in (x y)'])('%s is refused', (text) => {
    expect(() => parseSelector(text)).toThrow(Wrong)
  })
})

describe('traffic', () => {
  test.each(['', 'tcp 22', 'tcp 8000-8100, udp 53', 'icmp 8/0', 'icmp', 'sctp', 'tcp https', 'tcp 80 from 1024-2048'])('%s is the same when read and written', (text) => {
    expect(trafficText(parseTraffic(text))).toBe(text)
  })
  test('a ping is an echo request', () => expect(parseTraffic('ping').protocols).toEqual([{ icmp: { icmpType: 8, icmpCode: 0 } }]))
  test.each(['tcp 70000', 'tcp 20-10', 'quic 443', 'icmp 300', '443'])('%s is refused', (text) => {
    expect(() => parseTraffic(text)).toThrow(Wrong)
  })
})

describe('CSV', () => {
  test.each(['=1+1', '+cmd', '-2', '@SUM(A1)', '\t=1', '  =1', '\r=2', '＝1'])('the formula %j becomes a text', (cell) => {
    expect(csvCell(cell)).toMatch(/^"?'/)
  })
  test('numbers stay numbers', () => expect(csvCell(-2)).toBe('-2'))
  test('quotes, commas and lines', () => expect(csv([['a"b', 'c,d'], ['e\nf', 'g']])).toBe('"a""b","c,d"\r\n"e\nf",g\r\n'))
})

test('peers in words', () => {
  expect(peerText({ ipBlock: { cidr: '0.0.0.0/0', except: ['10.0.0.0/8'] } })).toBe('0.0.0.0/0 except 10.0.0.0/8')
  expect(peerText({ externalEntitySelector: {} })).toBe('VMs (all)')
  expect(peerText({ podSelector: { matchLabels: { app: 'x' } }, namespaceSelector: {} })).toBe('Pods app=x in namespaces (all)')
})

test('ages', () => {
  const now = Date.parse('2026-01-01T12:00:00Z')
  expect(ago('2026-01-01T11:59:30Z', now)).toBe('30 s')
  expect(ago('2026-01-01T11:00:00Z', now)).toBe('60 min')
  expect(ago('2025-12-30T12:00:00Z', now)).toBe('48 h')
  expect(ago(undefined, now)).toBe('never')
})

describe('the words that the page itself uses', () => {
  test.each(['tag:env=prod', 'tag:env in (prod,test), my:owner!=jo', '!tag:env', 'tag:env'])('%s is read as it is shown', (typed) => {
    expect(shortLabel(selectorText(parseSelector(typed)))).toBe(typed.replace('in (prod,test), my:owner!=jo', 'in (prod,test), my:owner notin (jo)'))
  })
  test('what is named by labels in a question, too', () => {
    expect(longLabel('shop/tag:role=db')).toBe('shop/nephe.antrea.io/tag-role=db')
    expect(longLabel('10.0.0.0/8')).toBe('10.0.0.0/8')
  })
  test('a selector meets machines of the namespaces that are meant', () => {
    const all = ['web-10', 'web-2', 'db-1'].map((name, i) => ({ name, namespace: i ? 'shop' : 'prod', labels: { 'nephe.antrea.io/tag-role': name.split('-')[0]! } }))
    expect(selected(all, parseSelector('tag:role=web'), () => true)).toEqual(['web-2', 'web-10'])
    expect(selected(all, parseSelector(''), (ns) => ns === 'shop')).toEqual(['db-1', 'web-2'])
  })
  test('warnings of the API server are read', () => {
    expect(warnings('299 - "opens \\"ssh\\", to all", 299 nephele "second"')).toEqual(['opens "ssh", to all', 'second'])
    expect(warnings('')).toEqual([])
  })
})
