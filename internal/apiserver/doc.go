// Package apiserver serves controlplane.antrea.io/v1beta2: computed policies and groups to those who enforce them, and
// what they report back. It is an aggregated API server made of k8s.io/apiserver, so that agents reach it directly and
// everybody else through kube-apiserver.
//
// It owns the wire: paths, encodings (JSON and protobuf), field selectors, watches, authentication, authorization and the
// certificate it serves with. What it serves belongs to a watchstore.Store; what is reported goes to a Reports.
//
// A watch sends every object that concerns the key (field nodeName; all objects without it) as ADDED, exactly one BOOKMARK,
// and then what changes, groups as patches. It ignores no position that it is given: one that a list or a bookmark of this
// store had is resumed if nothing has happened since, any other is refused as expired, so that a client never goes on from
// a state it does not have. A receiver that is too slow is cut off, by the store and on the network, and delays nobody.
//
// A Server is started once. All its methods may be called from anywhere.
package apiserver
