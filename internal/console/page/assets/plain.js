'use strict'

// Says who is logged in, and counts what there is, as it changes.
const names = ['accounts', 'selectors', 'virtualmachines', 'vpcs', 'annp', 'acnp', 'networkpolicies', 'tiers', 'groups', 'clustergroups', 'externalentities']
const who = document.getElementById('who')
const held = new Map()

function key(o) { return (o.metadata.namespace || '') + '/' + o.metadata.name }

function show() {
  const body = document.querySelector('#seen tbody')
  body.replaceChildren(...names.filter((n) => held.has(n)).map((n) => {
    const row = document.createElement('tr')
    for (const text of [n, held.get(n) instanceof Set ? String(held.get(n).size) : held.get(n)]) {
      const cell = document.createElement('td')
      cell.textContent = text
      row.append(cell)
    }
    return row
  }))
}

function follow() {
  const stream = new EventSource('/api/stream?' + names.map((n) => 'watch=' + n).join('&'))
  stream.addEventListener('snapshot', (e) => {
    const d = JSON.parse(e.data)
    held.set(d.watch, new Set(d.items.map(key)))
    show()
  })
  stream.addEventListener('change', (e) => {
    const d = JSON.parse(e.data)
    const all = held.get(d.watch)
    if (!(all instanceof Set)) return
    if (d.type === 'DELETED') all.delete(key(d.object))
    else all.add(key(d.object))
    show()
  })
  stream.addEventListener('refused', (e) => {
    const d = JSON.parse(e.data)
    held.set(d.watch, d.reason)
    show()
  })
}

async function start() {
  const answer = await fetch('/api/session')
  const session = await answer.json()
  if (answer.ok) {
    who.textContent = session.user.username + ', ' + session.cluster + (session.edit ? '' : ', reading only')
    follow()
    return
  }
  who.textContent = session.login.oidc || session.login.token ? 'Who are you?' : 'Open the link that the command has printed: it works once.'
  document.getElementById('login').hidden = !session.login.token && !session.login.oidc
  document.getElementById('oidc').hidden = !session.login.oidc
}

document.getElementById('login').addEventListener('submit', async (e) => {
  e.preventDefault()
  const answer = await fetch('/api/login', {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ token: document.getElementById('token').value }),
  })
  if (answer.ok) location.reload()
  else who.textContent = (await answer.json()).message
})

start()
