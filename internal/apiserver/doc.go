// Package apiserver serves controlplane.antrea.io/v1beta2: computed policies and groups to those
// who enforce them, what they report back, and answers to questions about groups and Pods;
// stats.antrea.io/v1alpha1: what they have counted; and system.antrea.io/v1beta1. It is an
// aggregated API server made of k8s.io/apiserver, so that agents reach it directly and everybody
// else through kube-apiserver.
//
// It owns the wire: paths, encodings (JSON and protobuf), field selectors, watches, authentication,
// authorization and the certificate it serves with. What it serves belongs to a watchstore.Store
// and a stats.Book; what is reported goes to a Reports, questions to a Queries.
//
// Who may use the API is for the cluster to say. Whom he may act for there is decided besides: an
// enforcer watches what concerns its own key and reports for itself, unless a rule lets it act for
// others (EnforcerAccess).
//
// A watch sends every object that concerns the key (field nodeName; all objects without it) as
// ADDED, exactly one BOOKMARK, and then what changes, groups as patches. It ignores no position
// that it is given: one that a list or a bookmark of this store had is resumed if nothing has
// happened since, any other is refused as expired, so that a client never goes on from a state it
// does not have. A receiver that is too slow is cut off, by the store and on the network, and
// delays nobody.
//
// What is held for callers is bounded, whoever they are (Limits): connections, requests, watches,
// the size of what they send. What goes beyond is refused at once, and nobody else notices.
//
// Beside the server, Registration tells kube-apiserver about it and its webhooks, and Infos keeps
// the signs of life of controller and agents.
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
