// Package console is the web server of the console: it serves the page, keeps the session of each
// person, and passes requests of the page to the Kubernetes API with the identity of that person.
//
// It owns sessions and nothing else. It has no rights of its own: every request to the Kubernetes
// API carries the credentials of the person whose session it is. In the mode Local these are the
// credentials of a kubeconfig, the server listens on loopback only, and a session begins with a
// link that works once. In the mode Cluster they are a token that the person brings or an OpenID
// provider gives, which stays in the memory of this process and never reaches the page.
//
// What it promises:
//
//   - Only the resources and verbs of allow.go are passed on, even if the person may do more, and
//     nothing is changed unless the options allow edits.
//   - A request of another origin, of another site or under another host name is refused before
//     anything is read of it. A request other than GET must have a header that proves that our page
//     sent it.
//   - Sessions, requests, streams, bodies and answers are bounded, and every one ends.
//   - Only the headers of the browser that request.go lists go to the Kubernetes API.
//
// A Server is safe for concurrent use. Close ends its sessions with all their streams.
package console
