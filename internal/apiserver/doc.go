// Package apiserver serves the API groups of enforcers: controlplane.antrea.io/v1beta2 (computed
// policies and groups, reports of enforcers, questions about groups and Pods),
// stats.antrea.io/v1alpha1 (what enforcers have counted) and system.antrea.io/v1beta1. It is an
// aggregated API server made of k8s.io/apiserver: agents reach it directly, all other clients
// through kube-apiserver.
//
// It owns the wire: paths, encodings (JSON and protobuf), field selectors, watches, authentication,
// authorization and the certificate it serves with. The objects that it serves belong to a
// watchstore.Store and a stats.Book; it passes reports to a Reports and questions to a Queries.
//
// RBAC decides which callers may use the API. Besides, an enforcer may watch only the objects of
// its own key and report only for itself, unless a rule lets it act for other keys
// (EnforcerAccess).
//
// A watch sends every object that concerns the key (field nodeName; all objects without it) as
// ADDED, exactly one BOOKMARK, and then changes, of groups as patches. It never ignores the
// resourceVersion that a client gives. If a list or a bookmark of this store had that version, and
// nothing has happened since, the watch resumes there; any other version is refused as expired. So
// a client never goes on from a state that it does not have. A receiver that is too slow is cut
// off, by the store and on the network, and delays no other receiver.
//
// Limits bounds the connections, requests, watches and bodies of each caller and of all together. A
// request beyond a bound is refused at once, without an effect on other callers.
//
// Registration tells kube-apiserver about this server and its webhooks. Infos keeps the heartbeats
// of controller and agents.
//
// A Server is started once. All its methods may be called from anywhere.
//
// # Where computed objects differ from an Antrea Controller's
//
// They are equal field by field, except: peers with namespaces respect appliedTo groups and count
// all entries; changed named ports are sent; sidecars' ports count; a policy without rules is
// realized where an enforcer reports it; IGMP restricts its own rule only; ties are decided by
// kind, Namespace, name and UID; huge groups are sent in parts; a slow watcher gets a summary;
// lists are sorted; l7Protocols are refused only where they cannot be enforced.
//
// # Bounds by default
//
// 10,000 connections (500 of one address), 2,000 requests at a time (250), 20 watches of a kind and
// key (2,000 of a client), bodies of 3 MB; questions of webhooks of 3.25 MiB, depth 100, 160 MiB of
// memory (192 MiB together) and 3 s, after which kube-apiserver retries.
package apiserver
