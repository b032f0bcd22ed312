import { expect, test } from 'vitest'
import { Collection, apply, parse } from '../src/lib/collection'
import type { Obj } from '../src/lib/k8s'

const o = (name: string, namespace = 'n', more: object = {}): Obj => ({ metadata: { name, namespace }, ...more })

test('a snapshot and changes make a list', () => {
  const c = new Collection()
  expect(c.phase).toBe('loading')
  const all = { pods: c }
  apply(all, parse('snapshot', JSON.stringify({ watch: 'pods', items: [o('b'), o('a')] }))!)
  expect(c.list().map((x) => x.metadata.name)).toEqual(['a', 'b'])
  apply(all, parse('change', JSON.stringify({ watch: 'pods', type: 'ADDED', object: o('c') }))!)
  apply(all, parse('change', JSON.stringify({ watch: 'pods', type: 'DELETED', object: o('a') }))!)
  apply(all, parse('change', JSON.stringify({ watch: 'pods', type: 'MODIFIED', object: o('b', 'n', { kind: 'x' }) }))!)
  expect(c.list().map((x) => x.metadata.name + (x.kind ?? ''))).toEqual(['bx', 'c'])
})

test('a snapshot after the connection has broken takes the place of all that was known', () => {
  const c = new Collection()
  c.snapshot([o('a'), o('b')])
  c.snapshot([o('b')])
  expect(c.size).toBe(1)
})

test('a list that is refused says so, and holds nothing', () => {
  const c = new Collection()
  c.snapshot([o('a')])
  apply({ pods: c }, parse('refused', JSON.stringify({ watch: 'pods', reason: 'no' }))!)
  expect([c.phase, c.reason, c.size]).toEqual(['refused', 'no', 0])
})

test.each([
  ['snapshot', 'no JSON'],
  ['snapshot', '{}'],
  ['snapshot', 'null'],
  ['change', '{"watch":"pods","type":"ADDED"}'],
  ['change', '{"watch":"pods","type":"EXPLODED","object":{"metadata":{"name":"x"}}}'],
  ['ping', '{"watch":"pods"}'],
])('%s %s is nothing', (event, data) => {
  expect(parse(event, data)).toBeUndefined()
})

test('names of objects are keys and nothing else', () => {
  const c = new Collection()
  c.snapshot([o('__proto__', '__proto__'), o('constructor', '')])
  expect(c.get('__proto__', '__proto__')?.metadata.name).toBe('__proto__')
  expect(c.get('', 'toString')).toBeUndefined()
  expect(apply({ pods: c }, { event: 'refused', watch: 'others', reason: '' })).toBeUndefined()
})

test('ten thousand machines are sorted once for each change', () => {
  const c = new Collection()
  c.snapshot([...Array(10_000).keys()].map((i) => o('vm-' + i)))
  expect(c.list()).toBe(c.list())
  c.change('MODIFIED', o('vm-1'))
  expect(c.list().length).toBe(10_000)
})
